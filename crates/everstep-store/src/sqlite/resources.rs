//! Resources of workspaces: named bytes.

use everstep_core::ids::WorkspaceId;
use rusqlite::{OptionalExtension, named_params};

use super::database::Database;
use super::queries::query;
use super::rows;
use crate::error::Result;
use crate::resources::{ResourceKind, ResourceRow};
use crate::{numbers, texts};

impl Database {
    pub fn put_resource(&mut self, row: &ResourceRow) -> Result<bool> {
        texts::check([row.name.as_str()])?;
        let (workspace, kind) = (row.workspace.uuid().into_bytes(), row.kind.as_str());
        let tx = self.begin()?;
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
    }

    pub fn resource(&self, workspace: WorkspaceId, kind: ResourceKind, name: &str) -> Result<Option<ResourceRow>> {
        let mut statement = self.connection.prepare_cached(query!("resource"))?;
        let params = named_params! {
            ":workspace": workspace.uuid().into_bytes(),
            ":kind": kind.as_str(),
            ":name": name,
        };
        Ok(statement.query_row(params, |row| rows::resource(row, workspace, kind)).optional()?)
    }

    pub fn resources(
        &self,
        workspace: WorkspaceId,
        kind: ResourceKind,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<ResourceRow>> {
        let mut statement = self.connection.prepare_cached(query!("resources"))?;
        let params = named_params! {
            ":workspace": workspace.uuid().into_bytes(),
            ":kind": kind.as_str(),
            ":after": after.unwrap_or_default(),
            ":limit": numbers::limit(limit),
        };
        let rows = statement.query_map(params, |row| rows::resource(row, workspace, kind))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    pub fn delete_resource(&mut self, workspace: WorkspaceId, kind: ResourceKind, name: &str) -> Result<bool> {
        let deleted = self.connection.prepare_cached(query!("delete_resource"))?.execute(named_params! {
            ":workspace": workspace.uuid().into_bytes(),
            ":kind": kind.as_str(),
            ":name": name,
        })?;
        Ok(deleted == 1)
    }
}
