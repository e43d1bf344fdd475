//! Deletes expired rows.

use everstep_core::time::Timestamp;

use crate::error::Result;
use crate::postgres::columns;
use crate::postgres::queries::{params, query};
use crate::postgres::store::PostgresStore;
use crate::retention::{
    AUDIT_RETENTION, AUDIT_ROWS_PER_RUN_MAX, DELETED_WORKFLOW_RECHECK_INTERVAL, DELETED_WORKFLOWS_PER_SWEEP_MAX,
    INBOX_RETENTION, RUN_STATS_RETENTION, SIGN_IN_KEY_RETENTION,
};
use crate::{access, numbers, stats};

impl PostgresStore {
    pub(super) async fn delete_expired(&self, now: Timestamp, limit: usize) -> Result<usize> {
        let row = self
            .connections
            .query_one(
                query!("sweep/1_runs"),
                params! {
                    "now": now.micros(),
                    "limit": numbers::clamp_limit(limit),
                    "hour_ago": now.micros().saturating_sub(numbers::micros(INBOX_RETENTION)),
                },
            )
            .await?;
        let oldest =
            access::first_id(Timestamp::from_micros(now.micros().saturating_sub(numbers::micros(AUDIT_RETENTION))));
        let audit_rows_max = numbers::clamp_limit(limit.saturating_mul(AUDIT_ROWS_PER_RUN_MAX));
        self.connections
            .execute(query!("sweep/3_audit"), params! { "before": oldest, "limit": audit_rows_max })
            .await?;
        let expired_before = now.micros().saturating_sub(numbers::micros(SIGN_IN_KEY_RETENTION));
        self.connections.execute(query!("sweep/5_keys"), params! { "before": expired_before }).await?;
        let first_minute =
            stats::minute_of(Timestamp::from_micros(now.micros().saturating_sub(numbers::micros(RUN_STATS_RETENTION))));
        self.connections
            .execute(query!("sweep/6_stats"), params! { "before": first_minute, "limit": audit_rows_max })
            .await?;
        let (now, later) = (now.micros(), now.plus(DELETED_WORKFLOW_RECHECK_INTERVAL).micros());
        self.connections
            .execute(
                query!("sweep/4_versions"),
                params! { "now": now, "limit": numbers::clamp_limit(DELETED_WORKFLOWS_PER_SWEEP_MAX), "later": later },
            )
            .await?;
        Ok(usize::try_from(columns::get::<i64>(&row, 0)?).unwrap_or_default())
    }
}
