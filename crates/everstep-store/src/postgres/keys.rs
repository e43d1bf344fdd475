//! API keys, which are known by their hash.

use super::queries::{params, query};
use super::rows;
use super::store::PostgresStore;
use crate::error::Result;
use crate::rows::KeyRow;

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
                    "created_at": key.created_at.micros(),
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
                    "created_at": key.created_at.micros(),
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
}
