//! Updates that follow from an entry about another step, or about the run.
//!
//! 1. The end of a loop or scope cancels its open steps.
//! 2. The end of a run cancels all open steps.
//! 3. A machine that leaves a state cancels the open steps of that state, but no deliveries.
//! 4. The retry of a run reopens the steps that rule 2 cancelled, and those that caused its failure.

use std::borrow::Cow;
use std::ops::Bound;

use super::fold::Story;
use super::step::StepStory;
use super::update::{StepChange, StepUpdate, Update};
use crate::ids::StepKey;
use crate::status::StepStatus;
use crate::time::Timestamp;

impl Story {
    /// A loop or scope has ended. If its failure was not handled, the run fails, and a retry continues inside it.
    pub(super) fn leave<'e>(&mut self, body: &StepUpdate<'_>) -> Vec<Update<'e>> {
        if !self.facts.are_nested() {
            return Vec::new();
        }
        let is_handled = body.change == StepChange::Completed || self.facts.is_failure_handled(&body.step);
        if !is_handled
            && let Some(step) = self.index.get(&body.step).and_then(|seq| self.steps.get_mut(seq))
            && step.is_body()
        {
            step.reopens = Some(StepStatus::Running);
        }
        let prefix = format!("{}[", body.step);
        let (seq, at) = (body.seq, body.at);
        let after = (Bound::Included(prefix.as_str()), Bound::Unbounded);
        let inside = self.index.range::<str, _>(after).take_while(|(key, _)| key.as_str().starts_with(&prefix));
        let mut updates = Vec::new();
        for (_, first_seq) in inside {
            let Some(step) = self.steps.get_mut(first_seq) else { continue };
            if step.is_open() {
                let before = step.status;
                step.cancel(Some(at), Some(before).filter(|_| !is_handled));
                updates.push(derived(step, seq, at, StepChange::Cancelled));
            } else if is_handled {
                step.reopens = None;
            }
        }
        updates
    }

    /// The run has ended.
    pub(super) fn cancel_open<'e>(&mut self, seq: u64, at: Timestamp) -> Vec<Update<'e>> {
        let open = self.steps.values_mut().filter(|step| step.is_open());
        let cancelled = open.map(|step| {
            let before = step.status;
            step.cancel(None, Some(before));
            derived(step, seq, at, StepChange::Cancelled)
        });
        cancelled.collect()
    }

    /// A machine has left a state.
    pub(super) fn leave_state<'e>(&mut self, seq: u64, at: Timestamp) -> Vec<Update<'e>> {
        let is_left = |step: &&StepStory| step.is_open() && self.facts.is_of_state(&step.key);
        let open: Vec<_> = self.steps.values().filter(is_left).map(|step| step.first_seq).collect();
        let mut updates = Vec::new();
        for first_seq in open {
            let Some(step) = self.steps.get_mut(&first_seq) else { continue };
            step.cancel(Some(at), None);
            updates.push(derived(step, seq, at, StepChange::Cancelled));
            let key = step.key.clone();
            self.forget(&key);
        }
        updates
    }

    /// The run is retried. `failed_step` is the step that caused its failure.
    pub(super) fn reopen<'e>(&mut self, seq: u64, at: Timestamp, failed_step: Option<&StepKey>) -> Vec<Update<'e>> {
        let failed_step = failed_step.and_then(|key| self.step(key));
        let mut updates = Vec::new();
        for (first_seq, status) in self.facts.reopened(&self.steps, failed_step) {
            let Some(step) = self.steps.get_mut(&first_seq) else { continue };
            step.reopen(seq, status);
            updates.push(derived(step, seq, at, StepChange::Reopened));
        }
        updates
    }
}

fn derived<'e>(step: &StepStory, seq: u64, at: Timestamp, change: StepChange) -> Update<'e> {
    Update::Step(StepUpdate {
        seq,
        at,
        step: step.key.clone(),
        node: Cow::Owned(step.node.clone()),
        kind: step.kind.clone().map(Cow::Owned),
        attempt: step.attempt(),
        status: step.status,
        change,
        activity: None,
        since: None,
        due: step.due.filter(|_| step.is_open()),
        output: None,
        handle: None,
        error: None,
        logs: &[],
        event: None,
    })
}
