//! The time for which a caller waits for a write, and the problem after it.

use std::time::Duration;

use axum::http::StatusCode;

use crate::http::problem::Problem;

/// The time within which a database that restarts or fails over is available again.
pub(crate) const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

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
