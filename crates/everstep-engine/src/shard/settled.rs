//! Delivers verdicts to the runs of their items.

use everstep_core::ids::RunId;

use super::Shard;
use crate::commit::Verdict;
use crate::run::RunSlot;

impl Shard {
    pub(super) fn settled(&mut self, id: RunId, verdict: Verdict) {
        if self.settle_pause(id, &verdict) {
            return;
        }
        if let Some(RunSlot::Active(run)) = self.runs.get_mut(&id) {
            let next = run.settled(verdict, &mut self.services);
            self.apply(id, next);
        }
    }
}
