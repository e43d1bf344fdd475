//! Workflows: their versions, the active one, and how many runs they have.

use everstep_core::ids::WorkspaceId;
use rusqlite::{Connection, OptionalExtension, named_params};

use super::database::Database;
use super::queries::query;
use super::rows;
use crate::error::Result;
use crate::expects::{Choice, Expects, Head, Put};
use crate::rows::{Counts, Deletion, GRACE, NewWorkflow, VersionRow, WorkflowRow, WorkflowSummary};
use crate::{numbers, texts};

impl Database {
    pub fn save_workflow(&mut self, workflow: &NewWorkflow, activate: bool, expects: Expects) -> Result<Put> {
        texts::check([workflow.name.as_str(), &workflow.style, &workflow.digest])?;
        let tx = self.begin()?;
        let workspace = workflow.workspace.uuid().into_bytes();
        let head = head(&tx, workflow.workspace, &workflow.name)?;
        if let Some(style) = head.as_ref().and_then(|head| head.other_style(&workflow.style)) {
            return Ok(Put::OtherStyle(style));
        }
        if !expects.allows(head.as_ref(), &workflow.digest) {
            return Ok(Put::Unexpected { active: head.map_or(0, |head| head.active) });
        }
        let newest: Option<(u32, String)> = tx
            .prepare_cached(query!("put_workflow/1_newest"))?
            .query_row(named_params! { ":workspace": workspace, ":name": workflow.name }, |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .optional()?;
        let deleted = deleted_version(&tx, workflow.workspace, &workflow.name)?;
        let (version, is_new) = match newest {
            Some((version, digest)) if digest == workflow.digest && version > deleted => (version, false),
            Some((version, _)) => (version.max(deleted) + 1, true),
            None => (deleted + 1, true),
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
        Ok(Put::Saved { version, is_new, is_first: head.is_none() })
    }

    pub fn choose_version(
        &mut self,
        workspace: WorkspaceId,
        name: &str,
        version: u32,
        expects: Expects,
    ) -> Result<Choice> {
        let tx = self.begin()?;
        let head = head(&tx, workspace, name)?;
        if !expects.allows(head.as_ref(), "") {
            return Ok(Choice::Unexpected { active: head.map_or(0, |head| head.active) });
        }
        let activated = tx.prepare_cached(query!("activate_workflow"))?.execute(named_params! {
            ":workspace": workspace.uuid().into_bytes(),
            ":name": name,
            ":version": version,
        })?;
        tx.commit()?;
        Ok(if activated == 1 { Choice::Chosen } else { Choice::NotFound })
    }

    pub fn delete_workflow(&mut self, workspace: WorkspaceId, name: &str) -> Result<Deletion> {
        let look_at = self.now().plus(GRACE);
        let tx = self.begin()?;
        let workspace = workspace.uuid().into_bytes();
        let key = named_params! { ":workspace": workspace, ":name": name };
        let newest: Option<u32> =
            tx.prepare_cached(query!("delete_workflow/1_newest"))?.query_row(key, |row| row.get(0)).optional()?;
        let Some(newest) = newest else {
            return Ok(Deletion::NotFound);
        };
        let open = tx.prepare_cached(query!("delete_workflow/2_open"))?.query_row(key, |row| rows::seq(row, 0))?;
        if open > 0 {
            return Ok(Deletion::InUse(open));
        }
        tx.prepare_cached(query!("delete_workflow/3_bury"))?.execute(named_params! {
            ":workspace": workspace, ":name": name, ":version": newest, ":look_at": look_at.micros(),
        })?;
        tx.prepare_cached(query!("delete_workflow/4_head"))?.execute(key)?;
        tx.commit()?;
        Ok(Deletion::Deleted)
    }

    pub fn list_workflows(
        &self,
        workspace: WorkspaceId,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<WorkflowSummary>> {
        let mut statement = self.connection.prepare_cached(query!("list_workflows"))?;
        let params = named_params! {
            ":workspace": workspace.uuid().into_bytes(),
            ":after": after.unwrap_or_default(),
            ":limit": numbers::limit(limit),
        };
        Ok(statement.query_map(params, rows::workflow_summary)?.collect::<rusqlite::Result<_>>()?)
    }

    pub fn list_versions(
        &self,
        workspace: WorkspaceId,
        name: &str,
        before: Option<u32>,
        limit: usize,
    ) -> Result<Vec<VersionRow>> {
        let mut statement = self.connection.prepare_cached(query!("list_versions"))?;
        let params = named_params! {
            ":workspace": workspace.uuid().into_bytes(),
            ":name": name,
            ":before": before.map_or(i64::MAX, i64::from),
            ":limit": numbers::limit(limit),
        };
        Ok(statement.query_map(params, rows::version)?.collect::<rusqlite::Result<_>>()?)
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
        texts::check(deltas.iter().map(|delta| delta.workflow.as_str()))?;
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

    pub fn recount(&mut self) -> Result<()> {
        let tx = self.begin()?;
        for statement in [query!("recount/2_clear"), query!("recount/3_count")] {
            tx.prepare_cached(statement)?.execute([])?;
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

fn head(tx: &Connection, workspace: WorkspaceId, name: &str) -> Result<Option<Head>> {
    let mut statement = tx.prepare_cached(query!("put_workflow/1_head"))?;
    let params = named_params! { ":workspace": workspace.uuid().into_bytes(), ":name": name };
    let read = |row: &rusqlite::Row<'_>| Ok(Head { digest: row.get(1)?, active: row.get(2)?, style: row.get(3)? });
    Ok(statement.query_row(params, read).optional()?)
}

/// The newest version that a workflow had when it was deleted; 0 if it never was.
fn deleted_version(tx: &Connection, workspace: WorkspaceId, name: &str) -> Result<u32> {
    let mut statement = tx.prepare_cached(query!("put_workflow/1_deleted"))?;
    let params = named_params! { ":workspace": workspace.uuid().into_bytes(), ":name": name };
    Ok(statement.query_row(params, |row| row.get(0)).optional()?.unwrap_or_default())
}
