//! Settings that all nodes share.

use super::queries::{params, query};
use super::rows;
use super::store::PostgresStore;
use crate::error::Result;

impl PostgresStore {
    pub(super) async fn agree(&self, name: &str, default: &[u8]) -> Result<Vec<u8>> {
        loop {
            let row = self.connections.query_opt(query!("setting"), params! { "name": name, "value": default }).await?;
            // None when another has stored it just now, which the statement does not see yet.
            if let Some(row) = row {
                return rows::get(&row, 0);
            }
        }
    }
}
