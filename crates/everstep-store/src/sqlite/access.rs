//! Settings, API keys, workspaces and the audit.

use async_trait::async_trait;
use everstep_core::actor::Actor;
use everstep_core::ids::WorkspaceId;
use everstep_core::payload::Payload;
use everstep_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, named_params};
use uuid::Uuid;

use super::columns;
use super::database::Database;
use super::disk::Purpose;
use super::queries::query;
use super::store::SqliteStore;
use crate::access::{AuditFilter, AuditRow, KeyOutcome, KeyRow, WorkspaceRow};
use crate::error::Result;
use crate::ports::AccessStore;
use crate::{numbers, texts};

#[async_trait]
impl AccessStore for SqliteStore {
    async fn setting(&self, name: &str, default: &[u8]) -> Result<Vec<u8>> {
        texts::check([name])?;
        let (name, default) = (name.to_owned(), default.to_owned());
        self.write(move |database| {
            let tx = database.begin()?;
            tx.prepare_cached(query!("setting/1_put"))?.execute(named_params! { ":name": name, ":value": default })?;
            let value = tx
                .prepare_cached(query!("setting/2_get"))?
                .query_row(named_params! { ":name": name }, |row| row.get(0))?;
            tx.commit()?;
            Ok(value)
        })
        .await
    }

    async fn add_key(&self, key: &KeyRow) -> Result<()> {
        let key = key.clone();
        self.write_for(Purpose::AcceptedWork, move |database| insert_key(database, query!("add_key"), &key)).await?;
        Ok(())
    }

    async fn add_key_within(&self, key: &KeyRow, quota: usize) -> Result<KeyOutcome> {
        let key = key.clone();
        self.write_for(Purpose::AcceptedWork, move |database| {
            let (workspace, mut rows) = (key.workspace, database.key_counts.begin());
            let counted = match rows.add(workspace, quota) {
                Some(counted) => counted,
                None => rows.set_and_add(workspace, count_keys(database, workspace, key.created_at)?, quota),
            };
            if let Err(count) = counted {
                return Ok(KeyOutcome::QuotaReached(count));
            }
            insert_key(database, query!("add_key"), &key)?;
            rows.keep();
            Ok(KeyOutcome::Added)
        })
        .await
    }

    async fn count_keys(&self, workspace: WorkspaceId, now: Timestamp) -> Result<u64> {
        self.read(move |database| count_keys(database, workspace, now)).await
    }

    async fn add_first_key(&self, key: &KeyRow) -> Result<bool> {
        let key = key.clone();
        Ok(self.write(move |database| insert_key(database, query!("add_first_key"), &key)).await? == 1)
    }

    async fn find_key(&self, hash: &[u8; 32]) -> Result<Option<KeyRow>> {
        let hash = *hash;
        self.read(move |database| {
            let mut statement = database.connection.prepare_cached(query!("find_key"))?;
            Ok(statement.query_row(named_params! { ":hash": hash }, key_from_row).optional()?)
        })
        .await
    }

    async fn list_keys(&self, workspace: WorkspaceId) -> Result<Vec<KeyRow>> {
        self.read(move |database| {
            let mut statement = database.connection.prepare_cached(query!("list_keys"))?;
            let params = named_params! { ":workspace": workspace.uuid().into_bytes() };
            Ok(statement.query_map(params, key_from_row)?.collect::<rusqlite::Result<_>>()?)
        })
        .await
    }

    async fn revoke_key(&self, workspace: WorkspaceId, id: Uuid, now: Timestamp) -> Result<Option<KeyRow>> {
        self.write(move |database| {
            let mut statement = database.connection.prepare_cached(query!("revoke_key"))?;
            let params = named_params! {
                ":workspace": workspace.uuid().into_bytes(),
                ":id": id.into_bytes(),
                ":now": now.micros(),
            };
            let revoked = statement.query_row(params, key_from_row).optional()?;
            if revoked.as_ref().is_some_and(|key| key.has_made_room(now)) {
                database.key_counts.remove(workspace);
            }
            Ok(revoked)
        })
        .await
    }

    async fn add_workspace(&self, row: &WorkspaceRow) -> Result<bool> {
        texts::check([row.name.as_str()])?;
        let row = row.clone();
        self.write_for(Purpose::NewWork, move |database| {
            let added = database.connection.prepare_cached(query!("add_workspace"))?.execute(named_params! {
                ":id": row.id.uuid().into_bytes(),
                ":name": row.name,
                ":options": row.options.json().as_bytes(),
                ":created_at": row.created_at.micros(),
            })?;
            Ok(added == 1)
        })
        .await
    }

    async fn set_workspace_options(&self, id: WorkspaceId, options: &Payload) -> Result<bool> {
        let options = options.clone();
        self.write(move |database| {
            let set = database.connection.prepare_cached(query!("set_workspace_options"))?.execute(named_params! {
                ":id": id.uuid().into_bytes(),
                ":options": options.json().as_bytes(),
            })?;
            Ok(set == 1)
        })
        .await
    }

    async fn workspaces(&self) -> Result<Vec<WorkspaceRow>> {
        self.read(|database| {
            let mut statement = database.connection.prepare_cached(query!("workspaces"))?;
            Ok(statement.query_map([], workspace_from_row)?.collect::<rusqlite::Result<_>>()?)
        })
        .await
    }

    async fn add_audit(&self, rows: &[AuditRow]) -> Result<()> {
        texts::check(rows.iter().flat_map(AuditRow::texts))?;
        let rows = rows.to_vec();
        self.write(move |database| {
            let tx = database.begin()?;
            for row in &rows {
                insert_audit(&tx, row)?;
            }
            Ok(tx.commit()?)
        })
        .await
    }

    async fn list_audit(
        &self,
        workspace: WorkspaceId,
        filter: AuditFilter,
        before: Option<Uuid>,
        limit: usize,
    ) -> Result<Vec<AuditRow>> {
        self.read(move |database| {
            let (from, before) = filter.ids(before);
            let mut statement = database.connection.prepare_cached(query!("list_audit"))?;
            let params = named_params! {
                ":workspace": workspace.uuid().into_bytes(),
                ":from_id": from.into_bytes(),
                ":before_id": before.into_bytes(),
                ":since": filter.since.map_or(i64::MIN, Timestamp::micros),
                ":until": filter.until.map_or(i64::MAX, Timestamp::micros),
                ":actor": filter.actor.as_ref().map(Actor::to_text),
                ":action": filter.action,
                ":limit": numbers::clamp_limit(limit),
            };
            Ok(statement.query_map(params, audit_from_row)?.collect::<rusqlite::Result<_>>()?)
        })
        .await
    }
}

/// Adds a row to the audit, unless it exists.
pub(super) fn insert_audit(connection: &Connection, row: &AuditRow) -> rusqlite::Result<()> {
    connection.prepare_cached(query!("add_audit"))?.execute(named_params! {
        ":workspace": row.workspace.uuid().into_bytes(),
        ":id": row.id.into_bytes(),
        ":at": row.at.micros(),
        ":actor": row.actor.to_text(),
        ":action": row.action,
        ":target": row.target,
        ":details": row.details.json().as_bytes(),
    })?;
    Ok(())
}

fn count_keys(database: &Database, workspace: WorkspaceId, now: Timestamp) -> Result<u64> {
    let mut statement = database.connection.prepare_cached(query!("count_keys"))?;
    let params = named_params! { ":workspace": workspace.uuid().into_bytes(), ":now": now.micros() };
    Ok(statement.query_row(params, |row| columns::seq(row, 0))?)
}

fn insert_key(database: &Database, statement: &str, key: &KeyRow) -> Result<usize> {
    let permissions = key.permission_text()?;
    texts::check([key.name.as_str(), &permissions].into_iter().chain(key.role.as_deref()))?;
    Ok(database.connection.prepare_cached(statement)?.execute(named_params! {
        ":id": key.id.into_bytes(),
        ":workspace": key.workspace.uuid().into_bytes(),
        ":name": key.name,
        ":hash": key.hash,
        ":permissions": permissions,
        ":role": key.role,
        ":rate_limit": key.rate_limit,
        ":created_at": key.created_at.micros(),
        ":expires_at": key.expires_at.map(Timestamp::micros),
        ":revoked_at": key.revoked_at.map(Timestamp::micros),
        ":maker": key.maker.map(Uuid::into_bytes),
    })?)
}

/// In the order of `find_key.sql`.
fn key_from_row(row: &Row<'_>) -> rusqlite::Result<KeyRow> {
    let permissions: String = row.get(4)?;
    Ok(KeyRow {
        id: columns::uuid(row, 0)?,
        workspace: WorkspaceId::from_uuid(columns::uuid(row, 1)?),
        name: row.get(2)?,
        hash: row.get(3)?,
        permissions: permissions.split_whitespace().map(str::to_owned).collect(),
        role: row.get(5)?,
        rate_limit: row.get(6)?,
        created_at: columns::time(row, 7)?,
        expires_at: columns::optional_time(row, 8)?,
        revoked_at: columns::optional_time(row, 9)?,
        maker: columns::optional_uuid(row, 10)?,
    })
}

/// In the order of `workspaces.sql`.
fn workspace_from_row(row: &Row<'_>) -> rusqlite::Result<WorkspaceRow> {
    Ok(WorkspaceRow {
        id: WorkspaceId::from_uuid(columns::uuid(row, 0)?),
        name: row.get(1)?,
        options: columns::payload(2, row.get(2)?)?,
        created_at: columns::time(row, 3)?,
    })
}

/// In the order of `list_audit.sql`.
fn audit_from_row(row: &Row<'_>) -> rusqlite::Result<AuditRow> {
    Ok(AuditRow {
        id: columns::uuid(row, 0)?,
        workspace: WorkspaceId::from_uuid(columns::uuid(row, 1)?),
        at: columns::time(row, 2)?,
        actor: Actor::from_text(&row.get::<_, String>(3)?),
        action: row.get(4)?,
        target: row.get(5)?,
        details: columns::payload(6, row.get(6)?)?,
    })
}
