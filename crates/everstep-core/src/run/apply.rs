//! The fold: how each entry changes a state.
//!
//! The phase is common to all styles and changes here. The run's style folds everything else.

use super::open::OpenSteps;
use super::{FoldError, Phase, State};
use crate::ids::RunId;
use crate::journal::{Entry, Event};
use crate::planted::{self, Bug};
use crate::style;
use crate::time::Timestamp;
use crate::workflow::Workflow;

/// An entry, with the parts of the run that a style's fold may read and change beside its own progress.
pub(crate) struct Fold<'a> {
    pub(crate) run: RunId,
    /// The phase before the entry.
    pub(crate) phase: &'a Phase,
    pub(crate) open: &'a mut OpenSteps,
    pub(crate) entry: &'a Entry,
}

/// The time at which the step that an entry settles was dispatched, or the reason why the entry does not fit. `None` if
/// the entry settles no dispatched step.
pub(crate) type Folded = Result<Option<Timestamp>, &'static str>;

impl State {
    /// Folds one entry. Returns the time at which the step that it settles was dispatched; `None` if it settles no
    /// dispatched step.
    pub fn apply(&mut self, workflow: &Workflow, entry: &Entry) -> Result<Option<Timestamp>, FoldError> {
        self.fold_entry(workflow, entry).map_err(|reason| FoldError { seq: entry.seq, reason: reason.to_owned() })
    }

    fn fold_entry(&mut self, workflow: &Workflow, entry: &Entry) -> Folded {
        if entry.seq != self.seq + 1 {
            return Err("it does not follow the entry before it");
        }
        let next = self.phase_after(&entry.event, entry.at)?;
        if entry.at > self.updated_at {
            self.open.forget_left();
        }
        (self.seq, self.updated_at) = (entry.seq, entry.at);
        let Self { run, phase, open, progress, keys, published, .. } = self;
        let since = style::fold(&workflow.style, progress, Fold { run: *run, phase, open, entry })?;
        keys.apply(entry, progress.answer())?;
        published.apply(entry);
        if let Event::RunStarted { input, cause, .. } = &entry.event {
            self.started_at = entry.at;
            self.input = input.clone();
            self.cause.clone_from(cause);
        }
        if let Some(next) = next {
            self.enter(next);
        }
        Ok(since)
    }

    /// The phase after an event, if it differs from the present one.
    ///
    /// 1. A run starts once, is resumed only while it is paused, and is retried only after it failed.
    /// 2. Every other change of the phase follows the table of statuses.
    fn phase_after(&self, event: &Event, at: Timestamp) -> Result<Option<Phase>, &'static str> {
        let next = match event {
            Event::RunStarted { .. } => live_if(self.phase == Phase::Pending, "the run has started before")?,
            Event::RunResumed => live_if(self.is_paused(), "the run is not paused")?,
            Event::RunRetried => live_if(matches!(self.phase, Phase::Failed { .. }), "the run has not failed")?,
            Event::RunPaused { reason } => Phase::Paused { at, reason: reason.clone() },
            Event::RunCompleted { output, .. } => Phase::Completed { output: output.clone() },
            Event::RunFailed { failure, step, .. } => {
                Phase::Failed { failure: self.progress.run_failure(failure, step.as_ref()) }
            }
            Event::RunCancelled { .. } => Phase::Cancelled { paused_by: self.failure().cloned() },
            Event::StepDispatched { .. }
            | Event::StepCompleted { .. }
            | Event::StepFailed { .. }
            | Event::StepSkipped { .. }
            | Event::TimerSet { .. }
            | Event::TimerFired { .. }
            | Event::WaitOpened { .. }
            | Event::WaitResolved { .. }
            | Event::SignalBuffered { .. }
            | Event::TurnStarted { .. }
            | Event::TurnLost { .. }
            | Event::TransitionApplied(_)
            | Event::VoteCast(_)
            | Event::Assigned(_)
            | Event::ContextSet { .. } => return Ok(None),
        };
        match self.status().may_become(next.status()) {
            true => Ok(Some(next)),
            false => Err("the status of the run does not allow this entry"),
        }
    }

    /// The only place where the phase changes.
    fn enter(&mut self, next: Phase) {
        if next.has_ended() {
            self.open.leave_children(self.run, self.seq);
            if !planted::is_planted(Bug::DeliveryDiesWithCancel) {
                let reason = format!("the run was {} before the delivery was performed", next.status());
                self.open.abandon_deliveries(self.run, self.seq, self.updated_at, &reason);
            }
        }
        self.phase = next;
    }
}

fn live_if(fits: bool, reason: &'static str) -> Result<Phase, &'static str> {
    if fits { Ok(Phase::Live) } else { Err(reason) }
}
