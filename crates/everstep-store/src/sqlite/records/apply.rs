//! Applies a batch of ops in one transaction: reads a picture, folds the ops, writes the difference.

use everstep_core::records::{Op, PictureRequest, fold_all};
use everstep_core::time::Timestamp;

use super::{picture, write};
use crate::error::Result;
use crate::records::{AppliedBatch, PendingOps, check_texts};
use crate::sqlite::database::Database;

impl Database {
    pub fn apply_ops(&mut self, ops: &[Op], now: Timestamp, kept_until: Timestamp) -> Result<AppliedBatch> {
        check_texts(ops)?;
        let mut pending = PendingOps::new(ops);
        let tx = self.begin()?;
        loop {
            let pass = pending.next_pass();
            if pass.is_empty() {
                break;
            }
            let (mut picture, placement) = picture::read(&tx, &PictureRequest::of_ops(pass.iter().copied()))?;
            let folded = fold_all(&mut picture, pass, now);
            write::write(&tx, &picture, &placement, now, kept_until)?;
            // No other connection writes, so every change was written.
            pending.settle(folded, |_, _| true);
        }
        tx.commit()?;
        Ok(pending.finish())
    }
}
