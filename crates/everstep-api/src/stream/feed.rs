//! A run at the moment when a follower joins it.

use everstep_core::ids::{RunId, WorkspaceId};
use everstep_core::status::Status;
use everstep_engine::{Follower, LoadedRun};

use crate::http::problem::Problem;
use crate::resources::runs;
use crate::resources::runs::wire::Run;
use crate::server::AppState;

/// A run, read at one moment, with all facts that following it needs.
pub(crate) struct JoinedRun {
    pub(crate) run: Run,
    /// The seq of the last entry that is part of it.
    pub(crate) seq: u64,
    loaded: LoadedRun,
}

impl JoinedRun {
    /// Reads a run of a workspace.
    pub(crate) async fn load(app: &AppState, workspace: WorkspaceId, run: RunId) -> Result<Self, Problem> {
        runs::row(app, workspace, run).await?;
        let _permit = app.hub.loads.acquire().await.expect("the semaphore is never closed");
        let loaded = app.engine.runs().load(run).await?;
        Ok(Self { run: runs::show_loaded(app, &loaded).await, seq: loaded.row.seq, loaded })
    }

    pub(crate) fn status(&self) -> Status {
        self.loaded.status()
    }

    /// Refuses to continue after an entry that does not exist.
    pub(crate) fn check(&self, after: u64) -> Result<(), Problem> {
        if after <= self.seq {
            return Ok(());
        }
        let detail = format!("the run's last entry is {}; there is nothing after {after}", self.seq);
        Err(Problem::invalid(detail).hint("send the seq of an entry of this run, or no seq"))
    }

    /// Follows the run from after an entry.
    pub(crate) fn follow(self, app: &AppState, workspace: WorkspaceId, after: u64) -> (Run, Follower) {
        (self.run, app.engine.runs().follow(workspace, self.loaded, after))
    }
}
