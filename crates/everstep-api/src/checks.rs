//! Checks of definitions, and dry runs: work that needs processor time and writes nothing.
//!
//! 1. A check runs on a thread for blocking work. The threads that serve requests stay free for others.
//! 2. A node performs a few checks at a time, and half of them for one workspace. Workspaces share the places by the
//!    rules of `FairShare`.
//! 3. A check that has no place within `wait`, or no result within `time_max`, is rejected. A check that has begun
//!    keeps its place until it ends.

use std::time::Duration;

use everstep_core::fair_share::ShareBounds;
use everstep_core::ids::WorkspaceId;
use everstep_handlers::Places;
use tokio::time::timeout;

use crate::http::problem::Problem;

/// The least number of checks at a time: one for a workspace, and one for another.
const PLACES_MIN: usize = 2;
/// The header `Retry-After` of a rejected request, in seconds.
const RETRY_AFTER_SECONDS: u32 = 5;

/// The bounds of checks.
#[derive(Clone, Copy, Debug)]
pub struct CheckOptions {
    /// Checks of this node at a time.
    pub places: usize,
    /// How long a check waits for its place.
    pub wait: Duration,
    /// How long a caller waits for the result.
    pub time_max: Duration,
}

impl Default for CheckOptions {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self { places: cores.max(PLACES_MIN), wait: Duration::from_secs(5), time_max: Duration::from_secs(10) }
    }
}

/// The places of the checks of a node.
pub struct Checks {
    options: CheckOptions,
    places: Places,
}

impl Checks {
    pub fn new(options: CheckOptions) -> Self {
        let places = options.places.max(PLACES_MIN) as u64;
        let bounds = ShareBounds { workspace_max: places / 2, ..ShareBounds::new(places) };
        Self { options, places: Places::new(bounds) }
    }

    /// Performs a check for a workspace.
    pub(crate) async fn perform<T: Send + 'static>(
        &self,
        workspace: WorkspaceId,
        check: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let CheckOptions { wait, time_max, .. } = self.options;
        let Ok(Some(place)) = timeout(wait, self.places.acquire(workspace, (), 1)).await else {
            let detail = "other checks of definitions of the workspace are in progress, and none has ended in time";
            let hint = "send fewer definitions at the same time";
            return Err(Problem::unavailable(detail).hint(hint).retry_after(RETRY_AFTER_SECONDS));
        };
        let checking = tokio::task::spawn_blocking(move || {
            let checked = check();
            drop(place);
            checked
        });
        match timeout(time_max, checking).await {
            Ok(Ok(checked)) => Ok(checked),
            Ok(Err(error)) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Ok(Err(_)) => Err(Problem::unavailable("the server is stopping")),
            Err(_) => {
                let detail = format!("the check has not ended within {} s", time_max.as_secs_f64());
                let hint =
                    "divide the definition into smaller workflows, or send it again when the server is less busy";
                Err(Problem::unavailable(detail).hint(hint).retry_after(RETRY_AFTER_SECONDS))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use uuid::Uuid;

    use super::*;

    fn workspace(number: u128) -> WorkspaceId {
        WorkspaceId::from_uuid(Uuid::from_u128(number))
    }

    #[tokio::test]
    async fn a_workspace_has_half_of_the_places_for_checks() {
        let wait = Duration::from_millis(20);
        let checks = Checks::new(CheckOptions { places: 2, wait, time_max: Duration::from_millis(500) });
        let (end, ended) = mpsc::channel::<()>();
        let is_slow = checks.perform(workspace(1), move || ended.recv()).await;
        assert!(is_slow.is_err(), "the caller does not wait for its end");
        assert!(checks.perform(workspace(1), || 1).await.is_err(), "the check counts until it ends");
        assert_eq!(checks.perform(workspace(2), || 2).await.ok(), Some(2));
        drop(end);
        let again = async { while checks.perform(workspace(1), || ()).await.is_err() {} };
        timeout(Duration::from_secs(10), again).await.unwrap();
        assert_eq!(checks.places.used(), 0);
    }
}
