//! Resources of workspaces: named bytes.

use everstep_core::ids::WorkspaceId;

use super::queries::{params, query};
use super::rows;
use super::store::PostgresStore;
use crate::error::Result;
use crate::resources::{ResourceKind, ResourceRow};
use crate::{numbers, texts};

impl PostgresStore {
    pub(super) async fn save_resource(&self, row: &ResourceRow) -> Result<bool> {
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
        rows::get(&saved, 0)
    }

    pub(super) async fn read_resource(
        &self,
        workspace: WorkspaceId,
        kind: ResourceKind,
        name: &str,
    ) -> Result<Option<ResourceRow>> {
        if texts::has_nul(name) {
            return Ok(None);
        }
        let (id, word) = (workspace.uuid(), kind.as_str());
        let params = params! { "workspace": id, "kind": word, "name": name };
        let row = self.connections.query_opt(query!("resource"), params).await?;
        row.map(|row| rows::resource(&row, workspace, kind)).transpose()
    }

    pub(super) async fn read_resources(
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
                    "after": texts::place(after),
                    "limit": numbers::limit(limit),
                },
            )
            .await?;
        rows.iter().map(|row| rows::resource(row, workspace, kind)).collect()
    }

    pub(super) async fn remove_resource(&self, workspace: WorkspaceId, kind: ResourceKind, name: &str) -> Result<bool> {
        if texts::has_nul(name) {
            return Ok(false);
        }
        let (workspace, kind) = (workspace.uuid(), kind.as_str());
        let params = params! { "workspace": workspace, "kind": kind, "name": name };
        Ok(self.connections.execute(query!("delete_resource"), params).await? == 1)
    }
}
