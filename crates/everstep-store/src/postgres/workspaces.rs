//! Workspaces, and what was done in them.

use everstep_core::ids::WorkspaceId;
use everstep_core::payload::Payload;
use everstep_core::time::Timestamp;
use uuid::Uuid;

use super::queries::{params, query};
use super::rows;
use super::store::PostgresStore;
use crate::access::{AuditFilter, AuditRow, WorkspaceRow};
use crate::error::Result;
use crate::{numbers, texts};

impl PostgresStore {
    pub(super) async fn insert_workspace(&self, row: &WorkspaceRow) -> Result<bool> {
        let added = self
            .connections
            .execute(
                query!("add_workspace"),
                params! {
                    "id": row.id.uuid(),
                    "name": row.name,
                    "options": row.options.json().as_bytes(),
                    "created_at": row.created_at.micros(),
                },
            )
            .await?;
        Ok(added == 1)
    }

    pub(super) async fn replace_workspace_options(&self, id: WorkspaceId, options: &Payload) -> Result<bool> {
        let (id, options) = (id.uuid(), options.json().as_bytes());
        let params = params! { "options": options, "id": id };
        Ok(self.connections.execute(query!("set_workspace_options"), params).await? == 1)
    }

    pub(super) async fn read_workspaces(&self) -> Result<Vec<WorkspaceRow>> {
        let rows = self.connections.query(query!("workspaces"), &[]).await?;
        rows.iter().map(rows::workspace).collect()
    }

    pub(super) async fn insert_audit(&self, rows: &[AuditRow]) -> Result<()> {
        self.connections
            .execute(
                query!("add_audit"),
                params! {
                    "workspaces": rows.iter().map(|row| row.workspace.uuid()).collect::<Vec<_>>(),
                    "ids": rows.iter().map(|row| row.id).collect::<Vec<_>>(),
                    "at": rows.iter().map(|row| row.at.micros()).collect::<Vec<_>>(),
                    "actors": rows.iter().map(|row| row.actor.as_str()).collect::<Vec<_>>(),
                    "actions": rows.iter().map(|row| row.action.as_str()).collect::<Vec<_>>(),
                    "targets": rows.iter().map(|row| row.target.as_str()).collect::<Vec<_>>(),
                    "details": rows.iter().map(|row| row.details.json().as_bytes()).collect::<Vec<_>>(),
                },
            )
            .await?;
        Ok(())
    }

    pub(super) async fn read_audit(
        &self,
        workspace: WorkspaceId,
        filter: &AuditFilter,
        before: Option<Uuid>,
        limit: usize,
    ) -> Result<Vec<AuditRow>> {
        if filter.actor.iter().chain(&filter.action).any(|text| texts::has_nul(text)) {
            return Ok(vec![]);
        }
        let (from, before) = filter.ids(before);
        self.connections
            .query(
                query!("list_audit"),
                params! {
                    "workspace": workspace.uuid(),
                    "from_id": from,
                    "before_id": before,
                    "since": filter.since.map_or(i64::MIN, Timestamp::micros),
                    "until": filter.until.map_or(i64::MAX, Timestamp::micros),
                    "actor": filter.actor,
                    "action": filter.action,
                    "limit": numbers::limit(limit),
                },
            )
            .await?
            .iter()
            .map(rows::audit)
            .collect()
    }
}
