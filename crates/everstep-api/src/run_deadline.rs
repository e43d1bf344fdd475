//! Bounds how long a caller waits for a write, and names the component that was slow: it is measured when the time is over.

use std::pin::pin;

use everstep_engine::Component;
use futures_util::future::{self, Either};

use crate::http::deadline::{WRITE_TIMEOUT, outcome_unknown};
use crate::http::problem::Problem;
use crate::server::AppState;

/// Waits for a write of a run, which passes a shard and the committer. After the timeout its outcome is unknown: it may
/// still be committed.
pub(crate) async fn within_run_deadline<T, E>(
    app: &AppState,
    written: impl Future<Output = Result<T, E>>,
) -> Result<T, Problem>
where
    Problem: From<E>,
{
    match in_time(app, written).await {
        Some(written) => Ok(written?),
        None => Err(outcome_unknown(name(app.engine.find_slow_component().await))),
    }
}

/// Waits for a write by a batcher of this node, such as the record writer. If the database is not slow, the batcher is.
pub(crate) async fn within_batcher_deadline<T, E>(
    app: &AppState,
    batcher: &str,
    written: impl Future<Output = Result<T, E>>,
) -> Result<T, Problem>
where
    Problem: From<E>,
{
    match in_time(app, written).await {
        Some(written) => Ok(written?),
        None => Err(outcome_unknown(match app.engine.find_slow_component().await {
            Some(component @ Component::Database) => name(Some(component)),
            Some(Component::Shard | Component::Committer) | None => batcher,
        })),
    }
}

/// Waits for a write that is sent to the database at once, such as that of a definition. No component is named if the
/// database is not slow.
pub(crate) async fn within_store_deadline<T, E>(
    app: &AppState,
    written: impl Future<Output = Result<T, E>>,
) -> Result<T, Problem>
where
    Problem: From<E>,
{
    match in_time(app, written).await {
        Some(written) => Ok(written?),
        None if app.engine.is_database_slow().await => Err(outcome_unknown(name(Some(Component::Database)))),
        None => Err(outcome_unknown("this node")),
    }
}

/// The result of a write; none if it takes longer than a caller waits.
async fn in_time<T>(app: &AppState, written: impl Future<Output = T>) -> Option<T> {
    match future::select(pin!(written), app.engine.world().clock.sleep(WRITE_TIMEOUT)).await {
        Either::Left((written, _)) => Some(written),
        Either::Right(_) => None,
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
