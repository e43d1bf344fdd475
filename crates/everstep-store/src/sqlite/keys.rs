//! API keys, which are known by their hash.

use everstep_core::ids::WorkspaceId;
use everstep_core::time::Timestamp;
use rusqlite::{OptionalExtension, named_params};
use uuid::Uuid;

use super::database::Database;
use super::queries::query;
use super::rows;
use crate::access::KeyRow;
use crate::error::Result;
use crate::texts;

impl Database {
    pub fn add_key(&mut self, key: &KeyRow) -> Result<()> {
        self.insert_key(query!("add_key"), key)?;
        Ok(())
    }

    pub fn add_first_key(&mut self, key: &KeyRow) -> Result<bool> {
        Ok(self.insert_key(query!("add_first_key"), key)? == 1)
    }

    fn insert_key(&self, statement: &str, key: &KeyRow) -> Result<usize> {
        let permissions = key.permission_text()?;
        texts::check([key.name.as_str(), &permissions].into_iter().chain(key.role.as_deref()))?;
        Ok(self.connection.prepare_cached(statement)?.execute(named_params! {
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
        })?)
    }

    pub fn find_key(&self, hash: &[u8; 32]) -> Result<Option<KeyRow>> {
        let mut statement = self.connection.prepare_cached(query!("find_key"))?;
        Ok(statement.query_row(named_params! { ":hash": hash }, rows::key).optional()?)
    }

    pub fn list_keys(&self, workspace: WorkspaceId) -> Result<Vec<KeyRow>> {
        let mut statement = self.connection.prepare_cached(query!("list_keys"))?;
        let params = named_params! { ":workspace": workspace.uuid().into_bytes() };
        Ok(statement.query_map(params, rows::key)?.collect::<rusqlite::Result<_>>()?)
    }

    pub fn revoke_key(&mut self, workspace: WorkspaceId, id: Uuid, now: Timestamp) -> Result<Option<KeyRow>> {
        let mut statement = self.connection.prepare_cached(query!("revoke_key"))?;
        let params = named_params! {
            ":workspace": workspace.uuid().into_bytes(),
            ":id": id.into_bytes(),
            ":now": now.micros(),
        };
        Ok(statement.query_row(params, rows::key).optional()?)
    }
}
