//! Bounds how long a caller waits for a write.

use std::time::Duration;

use axum::http::StatusCode;

use crate::http::problem::Problem;

/// The time within which a database that restarts or fails over is available again.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// Waits for a write. After the timeout its outcome is unknown: it may still be committed.
pub(crate) async fn within_deadline<T, E>(written: impl Future<Output = Result<T, E>>) -> Result<T, Problem>
where
    Problem: From<E>,
{
    match tokio::time::timeout(WRITE_TIMEOUT, written).await {
        Ok(written) => Ok(written?),
        Err(_) => {
            let detail = format!(
                "the database has not replied within {} s; the request may still be written",
                WRITE_TIMEOUT.as_secs()
            );
            let hint = "repeat the request with the same Idempotency-Key to learn the outcome";
            Err(Problem::new(StatusCode::GATEWAY_TIMEOUT, "OUTCOME_UNKNOWN", detail).hint(hint))
        }
    }
}
