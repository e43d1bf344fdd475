//! Runs without a journal.

use everstep_core::ids::RunId;
use rusqlite::named_params;

use crate::error::Result;
use crate::item::{HeldStart, PendingStart, SideWrites};
use crate::sqlite::access::insert_audit;
use crate::sqlite::database::Database;
use crate::sqlite::queries::query;
use crate::texts;

impl Database {
    pub fn hold_start(&mut self, run: RunId, hold: &HeldStart, side: &SideWrites) -> Result<bool> {
        texts::check_side(side)?;
        let tx = self.begin()?;
        let held = tx.prepare_cached(query!("hold_start"))?.execute(named_params! {
            ":after": hold.after.as_str(),
            ":wake_at": hold.wake_at.micros(),
            ":start": hold.start.as_ref().map(PendingStart::to_json),
            ":run": run.uuid().into_bytes(),
            ":before": hold.before.as_str(),
        })?;
        if held == 1 {
            for row in &side.audit {
                insert_audit(&tx, row)?;
            }
        }
        tx.commit()?;
        Ok(held == 1)
    }
}
