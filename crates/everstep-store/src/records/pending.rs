//! The ops of a batch that have no answer yet.

use everstep_core::ids::WorkspaceId;
use everstep_core::records::{FoldedOp, Op};

use super::rows::{AppliedBatch, OpOutcome, TriedBatch};

/// A batch is folded and written in passes. Most batches need one; an op is folded again in the next pass if another
/// node has written to its namespace between the read and the write, or if it had to wait for a write of this pass.
pub(crate) struct PendingOps<'a> {
    ops: &'a [Op],
    outcomes: Vec<Option<OpOutcome>>,
    redone: usize,
}

impl<'a> PendingOps<'a> {
    pub(crate) fn new(ops: &'a [Op]) -> Self {
        Self { ops, outcomes: vec![None; ops.len()], redone: 0 }
    }

    /// The ops of the next pass, in their order.
    pub(crate) fn next_pass(&self) -> Vec<&'a Op> {
        self.ops.iter().zip(&self.outcomes).filter(|(_, outcome)| outcome.is_none()).map(|(op, _)| op).collect()
    }

    /// Takes the results of a pass, in the order of its ops. `is_written`: the changes of the pass to a namespace were
    /// written, or there were none.
    pub(crate) fn settle(&mut self, folded: Vec<Option<FoldedOp>>, is_written: impl Fn(WorkspaceId, &str) -> bool) {
        let pending = self.ops.iter().zip(&mut self.outcomes).filter(|(_, outcome)| outcome.is_none());
        for ((op, outcome), folded) in pending.zip(folded) {
            let Some(folded) = folded else { continue };
            let depends_on = folded.depends_on.as_deref();
            let is_valid = is_written(op.workspace, &op.namespace)
                && depends_on.is_none_or(|namespace| is_written(op.workspace, namespace));
            if is_valid {
                *outcome = Some(folded.result);
            } else {
                self.redone += 1;
            }
        }
    }

    /// All ops of a pass are folded again.
    pub(crate) fn redo(&mut self) {
        self.redone += self.next_pass().len();
    }

    /// The answers, when every op has one.
    pub(crate) fn finish(self) -> AppliedBatch {
        let outcomes = self.outcomes.into_iter().map(|outcome| outcome.expect("every op was answered")).collect();
        AppliedBatch { outcomes, redone: self.redone }
    }

    /// The answers so far.
    pub(crate) fn into_tried(self) -> TriedBatch {
        TriedBatch { outcomes: self.outcomes, redone: self.redone }
    }
}
