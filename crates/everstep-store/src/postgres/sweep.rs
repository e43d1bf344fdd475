//! Deletes what is past its time.

use everstep_core::time::Timestamp;

use super::queries::{params, query};
use super::rows;
use super::store::PostgresStore;
use crate::error::Result;
use crate::numbers;

const HOUR: i64 = 3_600_000_000;

impl PostgresStore {
    pub(super) async fn delete_expired(&self, now: Timestamp, limit: usize) -> Result<usize> {
        let row = self
            .connections
            .query_one(
                query!("sweep/1_runs"),
                params! {
                    "now": now.micros(),
                    "limit": numbers::limit(limit),
                    "hour_ago": now.micros().saturating_sub(HOUR),
                },
            )
            .await?;
        Ok(usize::try_from(rows::get::<i64>(&row, 0)?).unwrap_or_default())
    }
}
