//! API keys, which are known by their hash.

use everstep_core::ids::WorkspaceId;
use everstep_core::time::Timestamp;
use uuid::Uuid;

use super::queries::{params, query};
use super::rows;
use super::store::PostgresStore;
use crate::access::KeyRow;
use crate::error::Result;

impl PostgresStore {
    pub(super) async fn insert_key(&self, key: &KeyRow) -> Result<()> {
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
                },
            )
            .await?;
        Ok(())
    }

    pub(super) async fn insert_first_key(&self, key: &KeyRow) -> Result<bool> {
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
                },
            )
            .await?;
        connection.commit().await?;
        Ok(added == 1)
    }

    pub(super) async fn read_key(&self, hash: &[u8; 32]) -> Result<Option<KeyRow>> {
        let row = self.connections.query_opt(query!("find_key"), params! { "hash": hash.as_slice() }).await?;
        row.as_ref().map(rows::key).transpose()
    }

    pub(super) async fn read_keys(&self, workspace: WorkspaceId) -> Result<Vec<KeyRow>> {
        let rows = self.connections.query(query!("list_keys"), params! { "workspace": workspace.uuid() }).await?;
        rows.iter().map(rows::key).collect()
    }

    pub(super) async fn revoke(&self, workspace: WorkspaceId, id: Uuid, now: Timestamp) -> Result<Option<KeyRow>> {
        let (workspace, now) = (workspace.uuid(), now.micros());
        let params = params! { "now": now, "id": id, "workspace": workspace };
        let row = self.connections.query_opt(query!("revoke_key"), params).await?;
        row.as_ref().map(rows::key).transpose()
    }
}
