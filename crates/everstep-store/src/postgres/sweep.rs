//! Deletes what is past its time.

use everstep_core::time::Timestamp;

use super::queries::{params, query};
use super::store::PostgresStore;
use super::{nodes, rows};
use crate::error::Result;
use crate::rows::{AUDIT_KEPT, AUDIT_PER_RUN, MOST_LOOKS, NEXT_LOOK};
use crate::{access, numbers};

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
        let oldest = access::first_id(Timestamp::from_micros(now.micros().saturating_sub(nodes::micros(AUDIT_KEPT))));
        let most_audit = numbers::limit(limit.saturating_mul(AUDIT_PER_RUN));
        self.connections.execute(query!("sweep/3_audit"), params! { "before": oldest, "limit": most_audit }).await?;
        let (now, later) = (now.micros(), now.plus(NEXT_LOOK).micros());
        self.connections
            .execute(
                query!("sweep/4_versions"),
                params! { "now": now, "limit": numbers::limit(MOST_LOOKS), "later": later },
            )
            .await?;
        Ok(usize::try_from(rows::get::<i64>(&row, 0)?).unwrap_or_default())
    }
}
