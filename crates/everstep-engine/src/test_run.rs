//! Test runs: deleting one.

use everstep_core::ids::{RunId, WorkspaceId};

use crate::engine::Engine;
use crate::error::Error;

impl Engine {
    /// Deletes a test run that has ended, with its journal. False while it has not ended. A test run that does not
    /// exist counts as deleted.
    pub async fn delete_test_run(&self, workspace: WorkspaceId, run: RunId) -> Result<bool, Error> {
        let store = &self.world().runs;
        Ok(store.delete_test_run(workspace, run).await? || store.get_run(workspace, run).await?.is_none())
    }
}
