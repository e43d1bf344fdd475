//! The tasks of one run that are being performed.

use std::collections::BTreeMap;

use everstep_core::ids::StepKey;
use everstep_core::run::State;
use futures_util::future::{AbortHandle, AbortRegistration};

/// The open tasks of a run that handlers of this node perform, each with its attempt.
#[derive(Default)]
pub(crate) struct Tasks(BTreeMap<StepKey, (u32, AbortHandle)>);

impl Tasks {
    /// Records that an attempt is performed from now on. An older attempt of the same step is aborted.
    pub(crate) fn begin(&mut self, step: StepKey, attempt: u32) -> AbortRegistration {
        let (abort, registration) = AbortHandle::new_pair();
        if let Some((_, before)) = self.0.insert(step, (attempt, abort)) {
            before.abort();
        }
        registration
    }

    pub(crate) fn has(&self, step: &StepKey, attempt: u32) -> bool {
        self.0.get(step).is_some_and(|(performed, _)| *performed == attempt)
    }

    /// A task has reported its result.
    pub(crate) fn finish(&mut self, step: &StepKey, attempt: u32) {
        if self.has(step, attempt) {
            self.0.remove(step);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Aborts every task.
    pub(crate) fn abort(self) {
        for (_, abort) in self.0.into_values() {
            abort.abort();
        }
    }

    /// Aborts every task that is no longer open in the run's state.
    pub(crate) fn keep_open(&mut self, state: &State) {
        self.0.retain(|step, (attempt, abort)| {
            let is_open = !state.has_ended() && state.has_open_task(step, *attempt);
            if !is_open {
                abort.abort();
            }
            is_open
        });
    }
}
