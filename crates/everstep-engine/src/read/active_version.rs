//! Reads the active versions of workflows: concurrent callers share one read, and nothing is cached.

use std::sync::Arc;

use everstep_core::ids::WorkspaceId;
use everstep_store::{Error, WorkflowRow};

use super::shared_read::SharedReads;
use crate::ports::World;

pub(crate) struct ActiveVersions {
    world: World,
    reads: Arc<SharedReads<(WorkspaceId, String), Option<WorkflowRow>>>,
}

impl ActiveVersions {
    pub(crate) fn new(world: World) -> Self {
        Self { reads: SharedReads::new(Arc::clone(&world.spawn)), world }
    }

    pub(crate) async fn find(&self, workspace: WorkspaceId, name: &str) -> Result<Option<WorkflowRow>, Error> {
        let workflows = Arc::clone(&self.world.workflows);
        let read = move |(workspace, name): (WorkspaceId, String)| {
            let workflows = Arc::clone(&workflows);
            async move { workflows.workflow(workspace, &name, None).await }
        };
        self.reads.find((workspace, name.to_owned()), read).await
    }
}
