//! Resources of workspaces: named bytes.

use async_trait::async_trait;
use everstep_core::ids::WorkspaceId;
use tokio_postgres::Row;

use super::columns;
use super::queries::{params, query};
use super::store::PostgresStore;
use crate::error::Result;
use crate::ports::ResourceStore;
use crate::resources::{ResourceKind, ResourceRow};
use crate::{numbers, texts};

#[async_trait]
impl ResourceStore for PostgresStore {
    async fn put_resource(&self, row: &ResourceRow) -> Result<bool> {
        let saved = self
            .connections
            .query_one(
                query!("put_resource"),
                params! {
                    "workspace": row.workspace.uuid(),
                    "kind": row.kind.as_str(),
                    "name": row.name,
                    "body": row.body.as_slice(),
                    "created_at": row.created_at.micros(),
                    "updated_at": row.updated_at.micros(),
                },
            )
            .await?;
        columns::get(&saved, 0)
    }

    async fn resource(&self, workspace: WorkspaceId, kind: ResourceKind, name: &str) -> Result<Option<ResourceRow>> {
        if texts::has_nul(name) {
            return Ok(None);
        }
        let (id, word) = (workspace.uuid(), kind.as_str());
        let params = params! { "workspace": id, "kind": word, "name": name };
        let row = self.connections.query_opt(query!("resource"), params).await?;
        row.map(|row| resource_from_row(&row, workspace, kind)).transpose()
    }

    async fn resources(
        &self,
        workspace: WorkspaceId,
        kind: ResourceKind,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<ResourceRow>> {
        let rows = self
            .connections
            .query(
                query!("resources"),
                params! {
                    "workspace": workspace.uuid(),
                    "kind": kind.as_str(),
                    "after": texts::page_start(after),
                    "limit": numbers::clamp_limit(limit),
                },
            )
            .await?;
        rows.iter().map(|row| resource_from_row(row, workspace, kind)).collect()
    }

    async fn delete_resource(&self, workspace: WorkspaceId, kind: ResourceKind, name: &str) -> Result<bool> {
        if texts::has_nul(name) {
            return Ok(false);
        }
        let (workspace, kind) = (workspace.uuid(), kind.as_str());
        let params = params! { "workspace": workspace, "kind": kind, "name": name };
        Ok(self.connections.execute(query!("delete_resource"), params).await? == 1)
    }
}

/// In the order of `resource.sql`.
fn resource_from_row(row: &Row, workspace: WorkspaceId, kind: ResourceKind) -> Result<ResourceRow> {
    Ok(ResourceRow {
        workspace,
        kind,
        name: columns::get(row, 0)?,
        body: columns::get(row, 1)?,
        created_at: columns::time(row, 2)?,
        updated_at: columns::time(row, 3)?,
    })
}
