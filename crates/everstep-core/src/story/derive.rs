//! Updates that follow from an entry about another step, or about the run.
//!
//! 1. A loop or scope that is over gives its open steps up.
//! 2. A run that has ended gives all open steps up.
//! 3. A run that is retried opens the steps again that rule 2 gave up, and those that made it fail.

use std::borrow::Cow;
use std::ops::Bound;

use super::fold::Story;
use super::step::{Activity, StepStory};
use super::style::StoryStyle;
use super::update::{StepChange, StepUpdate, Update};
use crate::ids::StepKey;
use crate::status::StepStatus;
use crate::time::Timestamp;

impl Story {
    /// A loop or scope is over. If its failure was not handled, the run fails, and a retry continues inside it.
    pub(super) fn leave<'e>(&mut self, body: &StepUpdate<'_>) -> Vec<Update<'e>> {
        let is_handled = match &self.style {
            // The steps of code are not inside each other, whatever their names are.
            StoryStyle::Code(_) => return Vec::new(),
            StoryStyle::Graph(_) => body.change == StepChange::Completed || self.style.is_failure_handled(&body.step),
        };
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

    /// The run is retried. `failed_step` is the step that made it fail.
    pub(super) fn reopen<'e>(&mut self, seq: u64, at: Timestamp, failed_step: Option<&StepKey>) -> Vec<Update<'e>> {
        let from = self.find_failures_to_retry(failed_step);
        let mut updates = Vec::new();
        for step in self.steps.values_mut() {
            let status = match (&self.style, step.reopens) {
                // The other run was cancelled with this one. The function calls it again.
                (StoryStyle::Code(_), Some(StepStatus::Waiting)) if is_call(step) => StepStatus::Running,
                (StoryStyle::Graph(_) | StoryStyle::Code(_), Some(status)) => status,
                (StoryStyle::Code(_), None) if has_failed(step) && step.seq >= from => StepStatus::Running,
                // The steps of a graph that failed are dispatched again.
                (StoryStyle::Graph(_) | StoryStyle::Code(_), None) => continue,
            };
            step.reopen(seq, status);
            updates.push(derived(step, seq, at, StepChange::Reopened));
        }
        updates
    }

    /// The entry from which the failures of a code workflow are tried again, by the rules of `Progress::retried`:
    /// that of the step which made the run fail, or else the last one that is no failure.
    fn find_failures_to_retry(&self, failed_step: Option<&StepKey>) -> u64 {
        let failed = failed_step.and_then(|key| self.step(key)).filter(|step| has_failed(step));
        let others = self.steps.values().filter(|step| !has_failed(step)).map(|step| step.seq);
        failed.map(|step| step.seq).or_else(|| others.max()).unwrap_or(0)
    }
}

fn is_call(step: &StepStory) -> bool {
    matches!(step.activity, Activity::Child { .. })
}

/// Whether a step failed for good.
fn has_failed(step: &StepStory) -> bool {
    step.status == StepStatus::Failed
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
    })
}
