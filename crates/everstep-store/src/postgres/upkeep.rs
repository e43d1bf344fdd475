//! Deletes expired rows at the pace of upkeep.

use super::columns;
use super::connections::UPKEEP_CALLS;
use super::queries::{Param, Query, param};
use super::store::PostgresStore;
use crate::error::Result;
use crate::numbers;

impl PostgresStore {
    /// Deletes at most `limit` objects of a kind, each with about `rows_each` rows, in transactions of the pace. The
    /// statement takes the number of one transaction as its parameter `limit`, and returns how many it has deleted.
    pub(super) async fn sweep_all(
        &self,
        limit: usize,
        rows_each: usize,
        statement: &Query,
        params: &[Param<'_>],
    ) -> Result<usize> {
        let mut swept = 0;
        while swept < limit {
            let batch = (limit - swept).min((self.pace.rows() / rows_each).max(1));
            let batch_limit = numbers::clamp_limit(batch);
            let params = [params, &[param("limit", &batch_limit)]].concat();
            let (row, took) = self.connections.query_upkeep(statement, &params).await?;
            let count = numbers::size(columns::get(&row, 0)?);
            swept += count;
            self.pace.record(count * rows_each, took);
            let pause = self.pace.pause(took, self.connections.calls(), UPKEEP_CALLS);
            if count < batch {
                break;
            }
            tokio::time::sleep(pause).await;
        }
        Ok(swept)
    }
}
