//! Deletes expired rows.

use everstep_core::time::Timestamp;

use crate::error::Result;
use crate::postgres::queries::{params, query};
use crate::postgres::store::PostgresStore;
use crate::retention::{
    AUDIT_RETENTION, AUDIT_ROWS_PER_RUN_MAX, DELETED_WORKFLOW_RECHECK_INTERVAL, DELETED_WORKFLOWS_PER_SWEEP_MAX,
    INBOX_RETENTION, RUN_STATS_RETENTION, SIGN_IN_KEY_RETENTION, WORKFLOW_KEY_RETENTION,
};
use crate::{access, numbers, stats};

/// A run counts as so many rows. Its entries are deleted with their partition.
const ROWS_OF_RUN: usize = 4;

impl PostgresStore {
    pub(super) async fn delete_expired(&self, now: Timestamp, limit: usize) -> Result<usize> {
        let micros = now.micros();
        let runs = self.sweep_all(limit, ROWS_OF_RUN, query!("sweep/1_runs"), params! { "now": micros }).await?;
        if runs < limit {
            self.pace.end_backlog();
        }
        // Rows of a workspace that has many runs are old for the same reason, and are as many.
        let rows_max = limit.saturating_mul(AUDIT_ROWS_PER_RUN_MAX);
        let before = |age| Timestamp::from_micros(micros.saturating_sub(numbers::micros(age)));
        let oldest = access::first_id(before(AUDIT_RETENTION));
        self.sweep_all(rows_max, 1, query!("sweep/3_audit"), params! { "before": oldest }).await?;
        let first_minute = stats::minute_of(before(RUN_STATS_RETENTION));
        self.sweep_all(rows_max, 1, query!("sweep/6_stats"), params! { "before": first_minute }).await?;
        let oldest = before(WORKFLOW_KEY_RETENTION).micros();
        self.sweep_all(rows_max, 1, query!("sweep/9_workflow_keys"), params! { "before": oldest }).await?;
        self.delete_others(now, limit).await?;
        Ok(runs)
    }

    /// Deletes other expired rows that do not belong to runs: few, and at most `limit` inbox rows.
    async fn delete_others(&self, now: Timestamp, limit: usize) -> Result<()> {
        let before = |age| now.micros().saturating_sub(numbers::micros(age));
        self.connections
            .execute(
                query!("sweep/7_inbox"),
                params! { "before": before(INBOX_RETENTION), "limit": numbers::clamp_limit(limit) },
            )
            .await?;
        self.connections.execute(query!("sweep/8_nodes"), &[]).await?;
        self.connections.execute(query!("sweep/5_keys"), params! { "before": before(SIGN_IN_KEY_RETENTION) }).await?;
        let (now, later) = (now.micros(), now.plus(DELETED_WORKFLOW_RECHECK_INTERVAL).micros());
        self.connections
            .execute(
                query!("sweep/4_versions"),
                params! { "now": now, "limit": numbers::clamp_limit(DELETED_WORKFLOWS_PER_SWEEP_MAX), "later": later },
            )
            .await?;
        Ok(())
    }
}
