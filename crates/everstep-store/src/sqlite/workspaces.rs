//! Workspaces, and what was done in them.

use everstep_core::ids::WorkspaceId;
use everstep_core::payload::Payload;
use everstep_core::time::Timestamp;
use rusqlite::named_params;
use uuid::Uuid;

use super::database::Database;
use super::queries::query;
use super::rows;
use crate::access::{AuditFilter, AuditRow, WorkspaceRow};
use crate::error::Result;
use crate::{numbers, texts};

impl Database {
    pub fn add_workspace(&mut self, row: &WorkspaceRow) -> Result<bool> {
        texts::check([row.name.as_str()])?;
        let added = self.connection.prepare_cached(query!("add_workspace"))?.execute(named_params! {
            ":id": row.id.uuid().into_bytes(),
            ":name": row.name,
            ":options": row.options.json().as_bytes(),
            ":created_at": row.created_at.micros(),
        })?;
        Ok(added == 1)
    }

    pub fn set_workspace_options(&mut self, id: WorkspaceId, options: &Payload) -> Result<bool> {
        let set = self.connection.prepare_cached(query!("set_workspace_options"))?.execute(named_params! {
            ":id": id.uuid().into_bytes(),
            ":options": options.json().as_bytes(),
        })?;
        Ok(set == 1)
    }

    pub fn workspaces(&self) -> Result<Vec<WorkspaceRow>> {
        let mut statement = self.connection.prepare_cached(query!("workspaces"))?;
        Ok(statement.query_map([], rows::workspace)?.collect::<rusqlite::Result<_>>()?)
    }

    pub fn add_audit(&mut self, rows: &[AuditRow]) -> Result<()> {
        texts::check(rows.iter().flat_map(|row| [row.actor.as_str(), &row.action, &row.target]))?;
        let tx = self.begin()?;
        {
            let mut statement = tx.prepare_cached(query!("add_audit"))?;
            for row in rows {
                statement.execute(named_params! {
                    ":workspace": row.workspace.uuid().into_bytes(),
                    ":id": row.id.into_bytes(),
                    ":at": row.at.micros(),
                    ":actor": row.actor,
                    ":action": row.action,
                    ":target": row.target,
                    ":details": row.details.json().as_bytes(),
                })?;
            }
        }
        Ok(tx.commit()?)
    }

    pub fn list_audit(
        &self,
        workspace: WorkspaceId,
        filter: &AuditFilter,
        before: Option<Uuid>,
        limit: usize,
    ) -> Result<Vec<AuditRow>> {
        let (from, before) = filter.ids(before);
        let mut statement = self.connection.prepare_cached(query!("list_audit"))?;
        let params = named_params! {
            ":workspace": workspace.uuid().into_bytes(),
            ":from_id": from.into_bytes(),
            ":before_id": before.into_bytes(),
            ":since": filter.since.map_or(i64::MIN, Timestamp::micros),
            ":until": filter.until.map_or(i64::MAX, Timestamp::micros),
            ":actor": filter.actor,
            ":action": filter.action,
            ":limit": numbers::limit(limit),
        };
        Ok(statement.query_map(params, rows::audit)?.collect::<rusqlite::Result<_>>()?)
    }
}
