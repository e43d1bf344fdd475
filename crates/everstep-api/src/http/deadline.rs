//! Bounds how long a caller waits for a write.

use std::time::Duration;

use axum::http::StatusCode;

use crate::http::problem::Problem;

/// The time within which a database that restarts or fails over is available again.
pub(crate) const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// Waits for a write to the database. After the timeout its outcome is unknown: it may still be committed.
pub(crate) async fn within_deadline<T, E>(written: impl Future<Output = Result<T, E>>) -> Result<T, Problem>
where
    Problem: From<E>,
{
    match tokio::time::timeout(WRITE_TIMEOUT, written).await {
        Ok(written) => Ok(written?),
        Err(_) => Err(outcome_unknown("the database")),
    }
}

/// The problem of a write without a reply from the component that is the subject.
pub(crate) fn outcome_unknown(subject: &str) -> Problem {
    let hint = "repeat the request with the same Idempotency-Key to learn the outcome";
    Problem::new(StatusCode::GATEWAY_TIMEOUT, "OUTCOME_UNKNOWN", missing_reply(subject)).hint(hint)
}

fn missing_reply(subject: &str) -> String {
    format!("{subject} has not replied within {} s; the request may still be written", WRITE_TIMEOUT.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slow_component_is_the_subject() {
        let detail = missing_reply("the committer of this node");
        assert_eq!(detail, "the committer of this node has not replied within 30 s; the request may still be written");
    }
}
