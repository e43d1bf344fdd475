//! The inputs that start, pause, resume, cancel, retry and fail a run.

use super::decide::Draft;
use super::{Phase, Reply};
use crate::failure::Failure;
use crate::journal::{Cause, Event};
use crate::payload::Payload;

impl Draft<'_> {
    pub(super) fn start(&mut self, input: Payload, cause: Option<Cause>) -> Reply {
        if self.state.phase != Phase::Pending {
            return Reply::ignored("the run has started before");
        }
        let definition = self.workflow.style.definition().filter(|_| self.workflow.is_unsaved);
        let definition = definition.map(|definition| Payload::from(definition.clone()));
        self.write(Event::RunStarted { input, cause, definition });
        Reply::Accepted
    }

    pub(super) fn pause(&mut self, reason: Option<Failure>) -> Reply {
        match self.state.phase {
            Phase::Live => self.accept(Event::RunPaused { reason }),
            Phase::Paused { .. } => Reply::ignored("the run is already paused"),
            Phase::Pending | Phase::Completed { .. } | Phase::Failed { .. } | Phase::Cancelled { .. } => {
                self.refuse("INVALID_TRANSITION", "cannot be paused")
            }
        }
    }

    pub(super) fn resume(&mut self) -> Reply {
        if !self.state.is_paused() {
            return self.refuse("INVALID_TRANSITION", "cannot be resumed: only a paused run can");
        }
        self.accept(Event::RunResumed)
    }

    pub(super) fn cancel(&mut self, reason: Option<String>) -> Reply {
        match self.state.phase {
            Phase::Live | Phase::Paused { .. } => self.accept(Event::RunCancelled { reason }),
            Phase::Cancelled { .. } => Reply::ignored("the run is already cancelled"),
            Phase::Pending | Phase::Completed { .. } | Phase::Failed { .. } => {
                self.refuse("INVALID_TRANSITION", "cannot be cancelled")
            }
        }
    }

    pub(super) fn retry(&mut self) -> Reply {
        if let Some(reason) = self.workflow.style.refuse_retry() {
            return Reply::refused("INVALID_TRANSITION", reason);
        }
        if !matches!(self.state.phase, Phase::Failed { .. }) {
            return self.refuse("INVALID_TRANSITION", "cannot be retried: only a failed run can");
        }
        if !self.state.progress.can_retry() {
            return self.refuse("NOTHING_TO_RETRY", "has no failed step: start a new run");
        }
        self.accept(Event::RunRetried)
    }

    pub(super) fn fail(&mut self, failure: Failure) -> Reply {
        if !matches!(self.state.phase, Phase::Live | Phase::Paused { .. }) {
            return self.refuse("INVALID_TRANSITION", "is not running");
        }
        self.write(Event::run_failed(failure, None));
        Reply::Accepted
    }

    pub(crate) fn refuse(&self, code: &'static str, what: &str) -> Reply {
        Reply::refused(code, format!("run {} is {} and {what}", self.state.run, self.state.status()))
    }
}
