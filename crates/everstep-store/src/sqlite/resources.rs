//! Resources of workspaces: named bytes.

use async_trait::async_trait;
use everstep_core::ids::WorkspaceId;
use rusqlite::{OptionalExtension, Row, named_params};

use super::columns;
use super::disk::Purpose;
use super::queries::query;
use super::store::SqliteStore;
use crate::error::Result;
use crate::ports::ResourceStore;
use crate::resources::{ResourceKind, ResourceRow};
use crate::{numbers, texts};

#[async_trait]
impl ResourceStore for SqliteStore {
    async fn put_resource(&self, row: &ResourceRow) -> Result<bool> {
        texts::check([row.name.as_str()])?;
        let row = row.clone();
        self.write_for(Purpose::NewWork, move |database| {
            let (workspace, kind) = (row.workspace.uuid().into_bytes(), row.kind.as_str());
            let tx = database.begin()?;
            let replaced = tx.prepare_cached(query!("put_resource/1_replace"))?.execute(named_params! {
                ":workspace": workspace,
                ":kind": kind,
                ":name": row.name,
                ":body": row.body,
                ":updated_at": row.updated_at.micros(),
            })?;
            if replaced == 0 {
                tx.prepare_cached(query!("put_resource/2_insert"))?.execute(named_params! {
                    ":workspace": workspace,
                    ":kind": kind,
                    ":name": row.name,
                    ":body": row.body,
                    ":created_at": row.created_at.micros(),
                    ":updated_at": row.updated_at.micros(),
                })?;
            }
            tx.commit()?;
            Ok(replaced == 0)
        })
        .await
    }

    async fn resource(&self, workspace: WorkspaceId, kind: ResourceKind, name: &str) -> Result<Option<ResourceRow>> {
        let name = name.to_owned();
        self.read(move |database| {
            let mut statement = database.connection.prepare_cached(query!("resource"))?;
            let params = named_params! {
                ":workspace": workspace.uuid().into_bytes(),
                ":kind": kind.as_str(),
                ":name": name,
            };
            Ok(statement.query_row(params, |row| resource_from_row(row, workspace, kind)).optional()?)
        })
        .await
    }

    async fn resources(
        &self,
        workspace: WorkspaceId,
        kind: ResourceKind,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<ResourceRow>> {
        let after = after.unwrap_or_default().to_owned();
        self.read(move |database| {
            let mut statement = database.connection.prepare_cached(query!("resources"))?;
            let params = named_params! {
                ":workspace": workspace.uuid().into_bytes(),
                ":kind": kind.as_str(),
                ":after": after,
                ":limit": numbers::clamp_limit(limit),
            };
            let rows = statement.query_map(params, |row| resource_from_row(row, workspace, kind))?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
        .await
    }

    async fn delete_resource(&self, workspace: WorkspaceId, kind: ResourceKind, name: &str) -> Result<bool> {
        let name = name.to_owned();
        self.write(move |database| {
            let deleted = database.connection.prepare_cached(query!("delete_resource"))?.execute(named_params! {
                ":workspace": workspace.uuid().into_bytes(),
                ":kind": kind.as_str(),
                ":name": name,
            })?;
            Ok(deleted == 1)
        })
        .await
    }
}

/// In the order of `resource.sql`.
fn resource_from_row(row: &Row<'_>, workspace: WorkspaceId, kind: ResourceKind) -> rusqlite::Result<ResourceRow> {
    Ok(ResourceRow {
        workspace,
        kind,
        name: row.get(0)?,
        body: row.get(1)?,
        created_at: columns::time(row, 2)?,
        updated_at: columns::time(row, 3)?,
    })
}
