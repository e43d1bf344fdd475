//! Workflows: their versions, the active one, and how many runs they have.

use everstep_core::ids::WorkspaceId;

use super::arrays;
use super::queries::{params, query};
use super::rows;
use super::store::PostgresStore;
use crate::error::Result;
use crate::rows::{Counts, NewWorkflow, WorkflowRow};

impl PostgresStore {
    pub(super) async fn save_workflow(&self, workflow: &NewWorkflow, activate: bool) -> Result<(u32, bool)> {
        loop {
            match self
                .connections
                .get()
                .await?
                .query(
                    query!("put_workflow"),
                    params! {
                        "workspace": workflow.workspace.uuid(),
                        "name": workflow.name,
                        "style": workflow.style,
                        "definition": workflow.definition.json().as_bytes(),
                        "digest": workflow.digest,
                        "retention_days": i64::from(workflow.retention_days),
                        "created_at": workflow.created_at.micros(),
                        "activate": activate,
                    },
                )
                .await
            {
                Ok(saved) => return Ok((rows::number(&saved[0], 0)?, rows::get(&saved[0], 1)?)),
                // Another has saved a version at the same time: ours is the next.
                Err(failure) if failure.is_taken() || failure.is_to_be_resent() => {}
                Err(failure) => return Err(failure.into()),
            }
        }
    }

    pub(super) async fn read_workflow(
        &self,
        workspace: WorkspaceId,
        name: &str,
        version: Option<u32>,
    ) -> Result<Option<WorkflowRow>> {
        // A version that cannot be stored is none that is.
        let Ok(version) = version.map(arrays::small).transpose() else {
            return Ok(None);
        };
        let row = self
            .connections
            .query_opt(query!("workflow"), params! { "workspace": workspace.uuid(), "name": name, "version": version })
            .await?;
        row.as_ref().map(rows::workflow).transpose()
    }

    pub(super) async fn count(&self, workspace: WorkspaceId, deltas: &[Counts]) -> Result<()> {
        self.connections
            .execute(
                query!("add_counts"),
                params! {
                    "workspace": workspace.uuid(),
                    "workflows": deltas.iter().map(|delta| delta.workflow.as_str()).collect::<Vec<_>>(),
                    "statuses": deltas.iter().map(|delta| delta.status.as_str()).collect::<Vec<_>>(),
                    "numbers": deltas.iter().map(|delta| delta.n).collect::<Vec<_>>(),
                },
            )
            .await?;
        Ok(())
    }

    pub(super) async fn read_counts(&self, workspace: WorkspaceId) -> Result<Vec<Counts>> {
        let rows = self.connections.query(query!("counts"), params! { "workspace": workspace.uuid() }).await?;
        rows.iter().map(rows::count).collect()
    }
}
