//! Runs without a journal.

use everstep_core::ids::RunId;

use super::arrays::AuditRows;
use crate::error::Result;
use crate::item::{HeldStart, PendingStart, SideWrites};
use crate::postgres::columns;
use crate::postgres::queries::{params, query};
use crate::postgres::store::PostgresStore;

impl PostgresStore {
    /// Locks the row first. A single statement would compare the row, after it has waited for the row's lock, with the
    /// journal as it was before.
    pub(super) async fn hold(&self, run: RunId, hold: &HeldStart, side: &SideWrites) -> Result<bool> {
        let (id, before, after) = (run.uuid(), hold.before.as_str(), hold.after.as_str());
        let (wake_at, start) = (hold.wake_at.micros(), hold.start.as_ref().map(PendingStart::to_json));
        let mut audit = AuditRows::default();
        side.audit.iter().for_each(|row| audit.push(row));
        let connection = self.connections.get().await?;
        connection.begin("begin").await?;
        connection.query(query!("hold_start/1_lock"), params! { "run": id, "before": before }).await?;
        let params = params! { "after": after, "wake_at": wake_at, "start": start, "run": id, "before": before };
        let params: Vec<_> = params.iter().cloned().chain(audit.params()).collect();
        let rows = connection.query(query!("hold_start/2_hold"), &params).await?;
        connection.commit().await?;
        let held = rows.first().map(|row| columns::get::<i64>(row, 0)).transpose()?;
        Ok(held == Some(1))
    }
}
