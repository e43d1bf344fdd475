//! Bounds how long a caller waits for the write of a run, and names the component that was slow.

use everstep_engine::Component;

use crate::http::deadline::{WRITE_TIMEOUT, outcome_unknown};
use crate::http::problem::Problem;
use crate::server::AppState;

/// Waits for a write of a run. After the timeout its outcome is unknown: it may still be committed.
pub(crate) async fn within_run_deadline<T, E>(
    app: &AppState,
    written: impl Future<Output = Result<T, E>>,
) -> Result<T, Problem>
where
    Problem: From<E>,
{
    match tokio::time::timeout(WRITE_TIMEOUT, written).await {
        Ok(written) => Ok(written?),
        Err(_) => Err(outcome_unknown(name(app.engine.find_slow_component().await))),
    }
}

/// The slow component as the subject of a sentence.
fn name(component: Option<Component>) -> &'static str {
    match component {
        Some(Component::Shard) => "a shard of this node, which decides for its runs,",
        Some(Component::Committer) => "the committer of this node",
        Some(Component::Database) => "the database",
        None => "the owner of the run, or a component of this node that responds again,",
    }
}
