//! How long a caller is kept waiting for what should be quick.

use std::time::Duration;

use axum::http::StatusCode;
use everstep_engine::Error;

use crate::problem::Problem;

/// A database that is restarted or fails over is back within this.
const PATIENCE: Duration = Duration::from_secs(30);

/// Waits for something to be written. What takes too long may be written yet.
pub(crate) async fn patiently<T>(written: impl Future<Output = Result<T, Error>>) -> Result<T, Problem> {
    match tokio::time::timeout(PATIENCE, written).await {
        Ok(written) => Ok(written?),
        Err(_) => {
            let detail =
                format!("the database has not answered within {} s; it may be written yet", PATIENCE.as_secs());
            let hint = "send the same request with the same Idempotency-Key to learn what became of it";
            Err(Problem::new(StatusCode::GATEWAY_TIMEOUT, "OUTCOME_UNKNOWN", detail).hint(hint))
        }
    }
}
