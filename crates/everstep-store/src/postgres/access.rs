//! Settings, API keys, workspaces and the audit.

use async_trait::async_trait;
use everstep_core::actor::Actor;
use everstep_core::ids::WorkspaceId;
use everstep_core::payload::Payload;
use everstep_core::time::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use super::columns;
use super::queries::{params, query};
use super::store::PostgresStore;
use crate::access::{AuditFilter, AuditRow, KeyOutcome, KeyRow, WorkspaceRow};
use crate::error::Result;
use crate::ports::AccessStore;
use crate::{numbers, texts};

#[async_trait]
impl AccessStore for PostgresStore {
    async fn setting(&self, name: &str, default: &[u8]) -> Result<Vec<u8>> {
        loop {
            let row = self.connections.query_opt(query!("setting"), params! { "name": name, "value": default }).await?;
            // No row if another call has just stored the setting, which this statement does not see yet.
            if let Some(row) = row {
                return columns::get(&row, 0);
            }
        }
    }

    async fn add_key(&self, key: &KeyRow) -> Result<()> {
        self.connections
            .execute(
                query!("add_key"),
                params! {
                    "id": key.id,
                    "workspace": key.workspace.uuid(),
                    "name": key.name,
                    "hash": key.hash.as_slice(),
                    "permissions": key.permission_text()?,
                    "role": key.role,
                    "rate_limit": key.rate_limit.map(i64::from),
                    "created_at": key.created_at.micros(),
                    "expires_at": key.expires_at.map(Timestamp::micros),
                    "revoked_at": key.revoked_at.map(Timestamp::micros),
                    "maker": key.maker,
                },
            )
            .await?;
        Ok(())
    }

    async fn add_key_within(&self, key: &KeyRow, quota: usize) -> Result<KeyOutcome> {
        let (workspace, mut rows) = (key.workspace, self.key_counts.begin());
        let counted = match rows.add(workspace, quota) {
            Some(counted) => counted,
            None => rows.set_and_add(workspace, self.count_keys(workspace, key.created_at).await?, quota),
        };
        if let Err(count) = counted {
            return Ok(KeyOutcome::QuotaReached(count));
        }
        self.add_key(key).await?;
        rows.keep();
        Ok(KeyOutcome::Added)
    }

    async fn count_keys(&self, workspace: WorkspaceId, now: Timestamp) -> Result<u64> {
        let (workspace, now) = (workspace.uuid(), now.micros());
        let params = params! { "workspace": workspace, "now": now };
        let rows = self.connections.query(query!("count_keys"), params).await?;
        columns::seq(rows.first().expect("the statement always returns a row"), 0)
    }

    async fn add_first_key(&self, key: &KeyRow) -> Result<bool> {
        let connection = self.connections.get().await?;
        connection.begin("begin").await?;
        connection.execute(query!("add_first_key/1_lock"), &[]).await?;
        let added = connection
            .execute(
                query!("add_first_key/2_insert"),
                params! {
                    "id": key.id,
                    "workspace": key.workspace.uuid(),
                    "name": key.name,
                    "hash": key.hash.as_slice(),
                    "permissions": key.permission_text()?,
                    "role": key.role,
                    "rate_limit": key.rate_limit.map(i64::from),
                    "created_at": key.created_at.micros(),
                    "expires_at": key.expires_at.map(Timestamp::micros),
                    "revoked_at": key.revoked_at.map(Timestamp::micros),
                    "maker": key.maker,
                },
            )
            .await?;
        connection.commit().await?;
        Ok(added == 1)
    }

    async fn find_key(&self, hash: &[u8; 32]) -> Result<Option<KeyRow>> {
        let row = self.connections.query_opt(query!("find_key"), params! { "hash": hash.as_slice() }).await?;
        row.as_ref().map(key_from_row).transpose()
    }

    async fn list_keys(&self, workspace: WorkspaceId) -> Result<Vec<KeyRow>> {
        let rows = self.connections.query(query!("list_keys"), params! { "workspace": workspace.uuid() }).await?;
        rows.iter().map(key_from_row).collect()
    }

    async fn revoke_key(&self, workspace: WorkspaceId, id: Uuid, now: Timestamp) -> Result<Option<KeyRow>> {
        let (tenant, micros) = (workspace.uuid(), now.micros());
        let params = params! { "now": micros, "id": id, "workspace": tenant };
        let row = self.connections.query_opt(query!("revoke_key"), params).await?;
        let revoked = row.as_ref().map(key_from_row).transpose()?;
        if revoked.as_ref().is_some_and(|key| key.has_made_room(now)) {
            self.key_counts.remove(workspace);
        }
        Ok(revoked)
    }

    async fn add_workspace(&self, row: &WorkspaceRow) -> Result<bool> {
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

    async fn set_workspace_options(&self, id: WorkspaceId, options: &Payload) -> Result<bool> {
        let (id, options) = (id.uuid(), options.json().as_bytes());
        let params = params! { "options": options, "id": id };
        Ok(self.connections.execute(query!("set_workspace_options"), params).await? == 1)
    }

    async fn workspaces(&self) -> Result<Vec<WorkspaceRow>> {
        let rows = self.connections.query(query!("workspaces"), &[]).await?;
        rows.iter().map(workspace_from_row).collect()
    }

    async fn add_audit(&self, rows: &[AuditRow]) -> Result<()> {
        self.connections
            .execute(
                query!("add_audit"),
                params! {
                    "workspaces": rows.iter().map(|row| row.workspace.uuid()).collect::<Vec<_>>(),
                    "ids": rows.iter().map(|row| row.id).collect::<Vec<_>>(),
                    "at": rows.iter().map(|row| row.at.micros()).collect::<Vec<_>>(),
                    "actors": rows.iter().map(|row| row.actor.to_text()).collect::<Vec<_>>(),
                    "actions": rows.iter().map(|row| row.action.as_str()).collect::<Vec<_>>(),
                    "targets": rows.iter().map(|row| row.target.as_str()).collect::<Vec<_>>(),
                    "details": rows.iter().map(|row| row.details.json().as_bytes()).collect::<Vec<_>>(),
                },
            )
            .await?;
        Ok(())
    }

    async fn list_audit(
        &self,
        workspace: WorkspaceId,
        filter: AuditFilter,
        before: Option<Uuid>,
        limit: usize,
    ) -> Result<Vec<AuditRow>> {
        let actor = filter.actor.as_ref().map(Actor::to_text);
        if actor.iter().chain(&filter.action).any(|text| texts::has_nul(text)) {
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
                    "actor": actor,
                    "action": filter.action,
                    "limit": numbers::clamp_limit(limit),
                },
            )
            .await?
            .iter()
            .map(audit_from_row)
            .collect()
    }
}

/// In the order of `find_key.sql`.
fn key_from_row(row: &Row) -> Result<KeyRow> {
    let hash: &[u8] = columns::get(row, 3)?;
    let permissions: &str = columns::get(row, 4)?;
    Ok(KeyRow {
        id: columns::get(row, 0)?,
        workspace: WorkspaceId::from_uuid(columns::get(row, 1)?),
        name: columns::get(row, 2)?,
        hash: hash.try_into().map_err(columns::unreadable)?,
        permissions: permissions.split_whitespace().map(str::to_owned).collect(),
        role: columns::get(row, 5)?,
        rate_limit: columns::get::<Option<i64>>(row, 6)?.map(u32::try_from).transpose().map_err(columns::unreadable)?,
        created_at: columns::time(row, 7)?,
        expires_at: columns::optional_time(row, 8)?,
        revoked_at: columns::optional_time(row, 9)?,
        maker: columns::get(row, 10)?,
    })
}

/// In the order of `workspaces.sql`.
fn workspace_from_row(row: &Row) -> Result<WorkspaceRow> {
    Ok(WorkspaceRow {
        id: WorkspaceId::from_uuid(columns::get(row, 0)?),
        name: columns::get(row, 1)?,
        options: columns::bytes_payload(columns::get(row, 2)?)?,
        created_at: columns::time(row, 3)?,
    })
}

/// In the order of `list_audit.sql`.
fn audit_from_row(row: &Row) -> Result<AuditRow> {
    Ok(AuditRow {
        id: columns::get(row, 0)?,
        workspace: WorkspaceId::from_uuid(columns::get(row, 1)?),
        at: columns::time(row, 2)?,
        actor: Actor::from_text(columns::get(row, 3)?),
        action: columns::get(row, 4)?,
        target: columns::get(row, 5)?,
        details: columns::bytes_payload(columns::get(row, 6)?)?,
    })
}
