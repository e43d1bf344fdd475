//! The rows of a run's waits.

use std::collections::BTreeSet;

use everstep_core::ids::StepKey;
use everstep_core::journal::{Dispatch, Entry, Event};
use everstep_core::run::{OpenActivity, State, task};
use everstep_core::workflow::Workflow;
use everstep_store::{Wait, WaitChange, WaitKind};

/// The waits of a run that have a row.
#[derive(Default)]
pub(crate) struct WaitRows {
    steps: BTreeSet<StepKey>,
    /// Whether the rows may be missing and must be written again: those of a fork are not written with it.
    must_renew: bool,
}

impl WaitRows {
    /// The rows of a run that was loaded.
    pub(super) fn from_state(state: &State, is_fork: bool) -> Self {
        let open = state.open().filter(|_| !state.has_ended());
        let waits = open.filter(|open| matches!(open.activity, OpenActivity::Wait { .. }));
        let steps: BTreeSet<_> = waits.map(|open| open.step.clone()).collect();
        Self { must_renew: is_fork && !steps.is_empty(), steps }
    }

    pub(crate) fn must_renew(&self) -> bool {
        self.must_renew
    }

    /// The rows that are inserted and deleted with these entries.
    pub(crate) fn changes(&mut self, workflow: &Workflow, state: &State, entries: &[Entry]) -> Vec<WaitChange> {
        let renews = std::mem::take(&mut self.must_renew);
        if self.steps.is_empty() && !entries.iter().any(opens_wait) {
            return Vec::new();
        }
        let mut changes = Vec::new();
        let mut open = BTreeSet::new();
        for step in state.open().filter(|_| !state.has_ended()) {
            let OpenActivity::Wait { event, pattern, due, by_topic, .. } = step.activity else { continue };
            open.insert(step.step.clone());
            let is_known = self.steps.contains(step.step);
            if is_known && renews {
                changes.push(WaitChange::Close(step.step.clone()));
            }
            if !is_known || renews {
                changes.push(WaitChange::Open(Wait {
                    step: step.step.clone(),
                    event: event.to_owned(),
                    pattern: pattern.clone(),
                    deadline: due,
                    by_topic,
                    kind: kind_of(workflow, step.step),
                }));
            }
        }
        changes.extend(self.steps.difference(&open).cloned().map(WaitChange::Close));
        self.steps = open;
        changes
    }
}

fn kind_of(workflow: &Workflow, step: &StepKey) -> WaitKind {
    let is_approval = task::wait_facts(workflow, step).is_some_and(|facts| facts.is_approval);
    if is_approval { WaitKind::Approval } else { WaitKind::Signal }
}

/// Whether a wait may be open after this entry that was not open before.
fn opens_wait(entry: &Entry) -> bool {
    match &entry.event {
        Event::StepDispatched { dispatch: Dispatch::Wait { .. }, .. } | Event::WaitOpened { .. } => true,
        // The rows of a failed run's waits were deleted; a retry writes them again.
        Event::RunRetried => true,
        Event::StepDispatched { .. }
        | Event::RunStarted { .. }
        | Event::StepCompleted { .. }
        | Event::StepFailed { .. }
        | Event::StepSkipped { .. }
        | Event::TimerSet { .. }
        | Event::TimerFired { .. }
        | Event::TransitionApplied(_)
        | Event::VoteCast(_)
        | Event::Assigned(_)
        | Event::ContextSet { .. }
        | Event::WaitResolved { .. }
        | Event::SignalBuffered { .. }
        | Event::TurnStarted { .. }
        | Event::TurnLost { .. }
        | Event::RunPaused { .. }
        | Event::RunResumed
        | Event::RunCompleted { .. }
        | Event::RunFailed { .. }
        | Event::RunCancelled { .. } => false,
    }
}
