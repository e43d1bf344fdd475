//! Workflows: their versions, the active one, and how many runs they have.

use everstep_core::ids::WorkspaceId;
use rusqlite::{OptionalExtension, named_params};

use super::database::Database;
use super::queries::query;
use super::rows;
use crate::error::Result;
use crate::rows::{Counts, NewWorkflow, WorkflowRow};

impl Database {
    pub fn put_workflow(&mut self, workflow: &NewWorkflow, activate: bool) -> Result<(u32, bool)> {
        let tx = self.begin()?;
        let workspace = workflow.workspace.uuid().into_bytes();
        let newest: Option<(u32, String)> = tx
            .prepare_cached(query!("put_workflow/1_newest"))?
            .query_row(named_params! { ":workspace": workspace, ":name": workflow.name }, |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .optional()?;
        let (version, is_new) = match newest {
            Some((version, digest)) if digest == workflow.digest => (version, false),
            Some((version, _)) => (version + 1, true),
            None => (1, true),
        };
        if is_new {
            tx.prepare_cached(query!("put_workflow/2_insert"))?.execute(named_params! {
                ":workspace": workspace,
                ":name": workflow.name,
                ":version": version,
                ":style": workflow.style,
                ":definition": workflow.definition.json().as_bytes(),
                ":digest": workflow.digest,
                ":retention_days": workflow.retention_days,
                ":created_at": workflow.created_at.micros(),
            })?;
        }
        if activate {
            tx.prepare_cached(query!("put_workflow/3_activate"))?.execute(named_params! {
                ":workspace": workspace,
                ":name": workflow.name,
                ":version": version,
            })?;
        }
        tx.commit()?;
        Ok((version, is_new))
    }

    pub fn workflow(&self, workspace: WorkspaceId, name: &str, version: Option<u32>) -> Result<Option<WorkflowRow>> {
        let mut statement = self.connection.prepare_cached(query!("workflow"))?;
        let params = named_params! {
            ":workspace": workspace.uuid().into_bytes(),
            ":name": name,
            ":version": version,
        };
        Ok(statement.query_row(params, rows::workflow).optional()?)
    }

    pub fn add_counts(&mut self, workspace: WorkspaceId, deltas: &[Counts]) -> Result<()> {
        let tx = self.begin()?;
        {
            let mut statement = tx.prepare_cached(query!("add_counts"))?;
            for delta in deltas {
                statement.execute(named_params! {
                    ":workspace": workspace.uuid().into_bytes(),
                    ":workflow": delta.workflow,
                    ":status": delta.status.as_str(),
                    ":n": delta.n,
                })?;
            }
        }
        Ok(tx.commit()?)
    }

    pub fn counts(&self, workspace: WorkspaceId) -> Result<Vec<Counts>> {
        let mut statement = self.connection.prepare_cached(query!("counts"))?;
        let params = named_params! { ":workspace": workspace.uuid().into_bytes() };
        let counts = statement.query_map(params, rows::count)?.collect::<rusqlite::Result<_>>()?;
        Ok(counts)
    }
}
