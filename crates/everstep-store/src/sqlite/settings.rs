//! Settings that all nodes share.

use rusqlite::named_params;

use super::database::Database;
use super::queries::query;
use crate::error::Result;
use crate::texts;

impl Database {
    pub fn setting(&mut self, name: &str, default: &[u8]) -> Result<Vec<u8>> {
        texts::check([name])?;
        let tx = self.begin()?;
        tx.prepare_cached(query!("setting/1_put"))?.execute(named_params! { ":name": name, ":value": default })?;
        let value =
            tx.prepare_cached(query!("setting/2_get"))?.query_row(named_params! { ":name": name }, |row| row.get(0))?;
        tx.commit()?;
        Ok(value)
    }
}
