//! API keys, which are known by their hash.

use rusqlite::{OptionalExtension, named_params};

use super::database::Database;
use super::queries::query;
use super::rows;
use crate::error::Result;
use crate::rows::KeyRow;

impl Database {
    pub fn add_key(&mut self, key: &KeyRow) -> Result<()> {
        self.insert_key(query!("add_key"), key)?;
        Ok(())
    }

    pub fn add_first_key(&mut self, key: &KeyRow) -> Result<bool> {
        Ok(self.insert_key(query!("add_first_key"), key)? == 1)
    }

    fn insert_key(&self, statement: &str, key: &KeyRow) -> Result<usize> {
        Ok(self.connection.prepare_cached(statement)?.execute(named_params! {
            ":id": key.id.into_bytes(),
            ":workspace": key.workspace.uuid().into_bytes(),
            ":name": key.name,
            ":hash": key.hash,
            ":permissions": key.permission_text()?,
            ":created_at": key.created_at.micros(),
        })?)
    }

    pub fn find_key(&self, hash: &[u8; 32]) -> Result<Option<KeyRow>> {
        let mut statement = self.connection.prepare_cached(query!("find_key"))?;
        Ok(statement.query_row(named_params! { ":hash": hash }, rows::key).optional()?)
    }
}
