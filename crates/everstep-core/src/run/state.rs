//! A run's state: the fold of its journal, common to all styles.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::keys::Keys;
use super::open::{OpenStep, OpenSteps};
use super::phase::Phase;
use crate::actor::Actor;
use crate::code;
use crate::failure::Failure;
use crate::ids::{EventId, RunId, StepKey};
use crate::journal::{Cause, DecidedEnd, Delivery, Entry};
use crate::machine;
use crate::payload::Payload;
use crate::status::{Status, StepStatus};
use crate::style::{self, Progress};
use crate::time::Timestamp;
use crate::topics::{PublishedEvents, Trigger};
use crate::workflow::Workflow;

/// The format number of a [`State`] that is stored as a snapshot. A snapshot with another number is ignored.
pub const SNAPSHOT_FORMAT: u32 = 6;

/// **Invariant**: `State` is a function of the journal alone. Only [`State::apply`] changes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    pub run: RunId,
    /// The seq of the last entry; also the version of the run.
    pub seq: u64,
    pub(crate) phase: Phase,
    pub started_at: Timestamp,
    /// The time of the last entry.
    pub updated_at: Timestamp,
    pub input: Payload,
    /// The reason why the run exists, unless a caller started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    pub(crate) open: OpenSteps,
    /// The keys of accepted signals, controls and requests to a machine.
    #[serde(default, skip_serializing_if = "Keys::is_empty")]
    pub(crate) keys: Keys,
    #[serde(default, skip_serializing_if = "PublishedEvents::is_empty")]
    pub(crate) published: PublishedEvents,
    /// The part of the state that belongs to the run's style.
    pub(crate) progress: Progress,
}

/// The journal does not fit the workflow: a bug, or a journal of another version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("entry {seq} does not fit the workflow: {reason}")]
pub struct FoldError {
    pub seq: u64,
    pub reason: String,
}

impl State {
    /// A run before its first entry.
    pub fn new(run: RunId, workflow: &Workflow) -> Self {
        Self {
            run,
            seq: 0,
            phase: Phase::Pending,
            started_at: Timestamp::EPOCH,
            updated_at: Timestamp::EPOCH,
            input: Payload::null(),
            cause: None,
            open: OpenSteps::default(),
            keys: Keys::default(),
            published: PublishedEvents::default(),
            progress: Progress::new(&workflow.style),
        }
    }

    /// Folds a journal from its beginning.
    pub fn fold(run: RunId, workflow: &Workflow, journal: &[Entry]) -> Result<Self, FoldError> {
        let mut state = Self::new(run, workflow);
        for entry in journal {
            state.apply(workflow, entry)?;
        }
        Ok(state)
    }

    /// Reads a snapshot of a run of this workflow.
    pub fn from_snapshot(workflow: &Workflow, json: &[u8]) -> Result<Self, String> {
        let state: Self = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        match state.progress.is_of(&workflow.style) {
            true => Ok(state),
            false => Err("the snapshot is of a workflow of another style".to_owned()),
        }
    }

    pub fn status(&self) -> Status {
        match self.phase {
            Phase::Live if !self.is_busy() => Status::Waiting,
            Phase::Pending
            | Phase::Live
            | Phase::Paused { .. }
            | Phase::Completed { .. }
            | Phase::Failed { .. }
            | Phase::Cancelled { .. } => self.phase.status(),
        }
    }

    /// Whether a step is being performed or is about to be. Deliveries do not count: a machine whose side effects are
    /// performed waits for an action.
    fn is_busy(&self) -> bool {
        let has_work = self.open.has_tasks() || self.open.has_todo() || self.open.is_empty();
        has_work && !self.progress.waits_without_steps() || self.progress.has_ready_steps()
    }

    pub fn has_ended(&self) -> bool {
        self.phase.has_ended()
    }

    /// Whether nothing may be dispatched although the run has not ended.
    pub fn is_paused(&self) -> bool {
        matches!(self.phase, Phase::Paused { .. })
    }

    /// The output of a completed run; it may be `null`.
    pub fn output(&self) -> Option<&Payload> {
        self.phase.output()
    }

    /// Why the run failed or was paused.
    pub fn failure(&self) -> Option<&Failure> {
        self.phase.failure()
    }

    /// When a paused run was paused.
    pub fn paused_at(&self) -> Option<Timestamp> {
        self.phase.paused_at()
    }

    /// The progress that workers need to continue the run; none if the server performs it.
    pub fn code(&self) -> Option<&code::Progress> {
        self.progress.code()
    }

    /// The progress of a machine's run; none for any other style.
    pub fn machine(&self) -> Option<&machine::Progress> {
        self.progress.machine()
    }

    /// The name of a machine's state and its versionNo, as the run's row has them; none for any other style, and before
    /// the first state.
    pub fn place_of_machine(&self) -> Option<(&str, u32)> {
        self.progress.place()
    }

    /// Forgets the keys of accepted requests to a machine, as a planted bug does.
    pub fn forget_requests(&mut self) {
        self.keys.forget_acts();
    }

    /// The person or the program that started the run, or that started its first ancestor.
    pub fn started_by(&self) -> Option<&Actor> {
        self.cause.as_ref()?.by.as_ref()
    }

    /// The persons and programs that forked the run, or an ancestor of it.
    pub fn forked_by(&self) -> &[Actor] {
        self.cause.as_ref().map_or(&[], |cause| &cause.forked_by)
    }

    /// The trigger that started the run, or its first ancestor.
    pub fn trigger(&self) -> Option<&Trigger> {
        self.cause.as_ref()?.trigger.as_deref()
    }

    /// The events that the run has taken and that were published at a time or later.
    pub fn events_taken_since(&self, since: Timestamp) -> impl Iterator<Item = EventId> {
        self.keys.events_from(EventId::new(since, 0))
    }

    pub fn has_open_tasks(&self) -> bool {
        self.open.has_tasks()
    }

    /// Whether deliveries are open, and no other task is.
    pub fn only_delivers(&self) -> bool {
        let tasks = self.open.deliveries().filter(|(_, open, _)| open.activity == super::Activity::Task);
        self.open.has_deliveries() && tasks.count() == self.open.tasks()
    }

    /// The next timer that may fire; none while the run is paused or over.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.open.first_timer().filter(|_| self.phase.is_live()).map(|(due, _)| *due)
    }

    /// The next timer that may fire, except those before another attempt of a delivery: the time until which the run
    /// itself waits.
    pub fn next_due_of_state(&self) -> Option<Timestamp> {
        self.open.first_timer_of_state().filter(|_| self.phase.is_live()).map(|(due, _)| *due)
    }

    /// Whether an open step is a delivery. None is begun while the run is paused.
    pub fn is_delivery(&self, step: &StepKey) -> bool {
        self.open.get(step).is_some_and(|open| open.delivery.is_some())
    }

    /// The delivery that an open step performs.
    pub(crate) fn delivery_of(&self, step: &StepKey) -> Option<Arc<Delivery>> {
        if !self.open.has_deliveries() {
            return None;
        }
        self.open.get(step)?.delivery.as_ref().map(|open| Arc::clone(&open.delivery))
    }

    /// The number of open deliveries.
    pub fn open_deliveries(&self) -> usize {
        self.open.deliveries().count()
    }

    /// The end of a machine's run that was decided with its last transition, and follows after its last delivery.
    pub(crate) fn decided_end(&self) -> Option<&DecidedEnd> {
        self.progress.decided_end()
    }

    /// The status, or the status with which the run will end after its last delivery: that of a machine in a terminal
    /// state.
    pub fn decided_status(&self) -> Status {
        match self.decided_end() {
            Some(end) if !self.has_ended() => end.status(),
            Some(_) | None => self.status(),
        }
    }

    /// The first timer that is due, as its step and attempt; none while the run is paused or over.
    pub fn first_due(&self, now: Timestamp) -> Option<(StepKey, u32)> {
        let (due, step) = self.open.first_timer().filter(|_| self.phase.is_live())?;
        let open = self.open.get(step).filter(|_| *due <= now)?;
        Some((step.clone(), open.attempt))
    }

    /// The timers that are due, as `(step, attempt)`.
    pub fn due(&self, now: Timestamp) -> Vec<(StepKey, u32)> {
        self.open.due(now)
    }

    /// The open steps: a function of the state, not of the last events.
    pub fn open(&self) -> impl Iterator<Item = OpenStep<'_>> {
        self.open.show()
    }

    /// Whether a step is open: an entry that settles it will follow.
    pub fn is_open(&self, step: &StepKey) -> bool {
        self.open.contains(step)
    }

    /// Whether this attempt of a step is an open task.
    pub fn has_open_task(&self, step: &StepKey, attempt: u32) -> bool {
        self.open.get(step).is_some_and(|open| open.attempt == attempt && open.activity == super::Activity::Task)
    }

    /// The status of a step; `None` for a step that was not reached.
    pub fn step_status(&self, workflow: &Workflow, step: &StepKey) -> Option<StepStatus> {
        let Some(open) = self.open.get(step) else { return style::step_status(workflow, self, step) };
        Some(if self.has_ended() { StepStatus::Cancelled } else { open.activity.step_status() })
    }

    /// The variables of the run as one JSON object, without those whose names begin with `__`.
    pub fn context(&self, workflow: &Workflow) -> Payload {
        style::context(workflow, self)
    }

    /// The variables of each iteration in progress, by the iteration's name; outer iterations first.
    pub fn scopes(&self, workflow: &Workflow) -> Vec<(String, Payload)> {
        style::scopes(workflow, self)
    }

    /// The approximate memory of this state, in bytes.
    pub fn weight(&self) -> usize {
        let common = self.open.weight() + self.keys.weight() + self.published.weight();
        1_024 + self.context_bytes() + self.progress.weight() + common
    }

    /// Bytes of JSON in the context.
    pub(crate) fn context_bytes(&self) -> usize {
        self.input.size() + self.progress.context_bytes()
    }
}
