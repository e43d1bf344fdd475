//! One step of a run, as readers see it.

use std::borrow::Cow;

use serde::Serialize;

use super::update::{StepChange, StepUpdate};
use crate::failure::Failure;
use crate::ids::{RunId, StepKey};
use crate::payload::Payload;
use crate::status::StepStatus;
use crate::time::Timestamp;
use crate::topics::EventRef;

/// The history of one step so far.
#[derive(Clone, Debug, PartialEq)]
pub struct StepStory {
    pub key: StepKey,
    /// The node of a graph, without the iterations around it; the whole key for a step of code.
    pub node: String,
    /// The node's type, or `run`, `sleep`, `wait`, `call` for a step of code; none while it is not known.
    pub kind: Option<String>,
    pub status: StepStatus,
    /// The activity of the last attempt.
    pub activity: Activity,
    pub attempts: Vec<AttemptStory>,
    /// When the first attempt began; none for a step that was skipped.
    pub since: Option<Timestamp>,
    /// When the last attempt ended; none while the step is open, and for a step that was open when its run ended.
    pub ended_at: Option<Timestamp>,
    /// When the step continues without an input, or until when a sleep lasted.
    pub due: Option<Timestamp>,
    pub output: Option<Payload>,
    /// Why the step failed, if it did.
    pub error: Option<Failure>,
    /// The handle with which the step completed; none for the default handle of its kind.
    pub handle: Option<String>,
    /// The published event that resolved a wait.
    pub event: Option<EventRef>,
    /// The first entry about the step.
    pub first_seq: u64,
    /// The last entry that changed the step.
    pub seq: u64,
    /// The status that a retry of the run restores: of a step that was open when the run ended, and of a loop or scope
    /// whose failure was not handled.
    pub(crate) reopens: Option<StepStatus>,
}

/// One attempt of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct AttemptStory {
    /// Counted from 1.
    pub attempt: u32,
    /// None for a loop that continued under this attempt without a dispatch.
    pub began_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    pub status: StepStatus,
    pub error: Option<Failure>,
    pub logs: Vec<String>,
}

/// The work of an open step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "does", rename_all = "camelCase")]
pub enum Activity {
    /// A handler or a worker performs it.
    #[default]
    Task,
    /// The core decides it at once.
    Instant,
    /// It sleeps until a time.
    Sleep,
    /// It waits for a signal.
    Wait { event: String },
    /// It waits for a run that it started.
    Child { run: RunId, workflow: String },
    /// Its body runs once per item.
    Body { items: usize },
}

impl Activity {
    /// Whether a handler or a worker performs the step while it is running. The other steps wait, or contain other
    /// steps.
    fn is_work(&self) -> bool {
        match self {
            Self::Task | Self::Instant => true,
            Self::Sleep | Self::Wait { .. } | Self::Child { .. } | Self::Body { .. } => false,
        }
    }
}

impl StepStory {
    pub(super) fn new(update: &StepUpdate<'_>) -> Self {
        Self {
            key: update.step.clone(),
            node: update.node.clone().into_owned(),
            kind: None,
            status: StepStatus::Pending,
            activity: Activity::default(),
            attempts: Vec::new(),
            since: None,
            ended_at: None,
            due: None,
            output: None,
            error: None,
            handle: None,
            event: None,
            first_seq: update.seq,
            seq: update.seq,
            reopens: None,
        }
    }

    /// Whether the step has neither ended nor been cancelled.
    pub fn is_open(&self) -> bool {
        matches!(self.status, StepStatus::Pending | StepStatus::Running | StepStatus::Waiting)
    }

    /// Whether the step failed and waits for its next attempt.
    pub fn is_retrying(&self) -> bool {
        let has_failed = self.attempts.last().is_some_and(|last| last.status == StepStatus::Failed);
        self.is_open() && has_failed && !self.is_body()
    }

    /// The log lines of the step, attempt by attempt.
    pub fn logs(&self) -> impl Iterator<Item = &str> {
        self.attempts.iter().flat_map(|attempt| &attempt.logs).map(String::as_str)
    }

    /// The number of the last attempt; 0 for a step that was skipped.
    pub fn attempt(&self) -> u32 {
        self.attempts.last().map_or(0, |last| last.attempt)
    }

    pub(super) fn is_body(&self) -> bool {
        matches!(self.activity, Activity::Body { .. })
    }

    /// Whether the run has work to do because of the step.
    pub(super) fn is_busy(&self) -> bool {
        self.status == StepStatus::Running && self.activity.is_work()
    }

    /// When the attempt of this number began.
    pub(super) fn began_at(&self, attempt: u32) -> Option<Timestamp> {
        self.attempts.last().filter(|last| last.attempt == attempt)?.began_at
    }

    /// Applies an update of the step itself.
    pub(super) fn apply(&mut self, update: &StepUpdate<'_>) {
        self.seq = update.seq;
        if self.kind.is_none() {
            self.kind = update.kind.clone().map(Cow::into_owned);
        }
        self.status = update.status;
        match update.change {
            StepChange::Began => self.begin(update),
            StepChange::Completed | StepChange::Failed => self.settle(update),
            StepChange::Skipped => self.ended_at = Some(update.at),
            StepChange::Retries => (self.due, self.error) = (update.due, None),
            StepChange::Paces => self.due = update.due,
            StepChange::RetryDue | StepChange::PaceDue => self.due = None,
            // These follow from entries about other steps, or about the run.
            StepChange::Cancelled | StepChange::Reopened => {}
        }
    }

    fn begin(&mut self, update: &StepUpdate<'_>) {
        let began_at = update.since.unwrap_or(update.at);
        self.since.get_or_insert(began_at);
        (self.ended_at, self.error, self.reopens) = (None, None, None);
        self.due = update.due;
        self.activity = update.activity.clone().unwrap_or_default();
        self.push_attempt(update, Some(began_at));
    }

    fn push_attempt(&mut self, update: &StepUpdate<'_>, began_at: Option<Timestamp>) {
        // An open attempt that is replaced was lost in a crash, or cancelled with its run: it has no result.
        if let Some(lost) = self.attempts.last_mut().filter(|last| last.ended_at.is_none()) {
            (lost.status, lost.ended_at) = (StepStatus::Cancelled, Some(began_at.unwrap_or(update.at)));
        }
        let (attempt, status) = (update.attempt, update.status);
        self.attempts.push(AttemptStory { attempt, began_at, ended_at: None, status, error: None, logs: Vec::new() });
    }

    fn settle(&mut self, update: &StepUpdate<'_>) {
        if self.attempts.last().is_none_or(|last| last.attempt != update.attempt) {
            self.since = self.since.or(update.since);
            self.push_attempt(update, update.since);
        }
        if let Some(last) = self.attempts.last_mut() {
            (last.status, last.ended_at, last.error) = (update.status, Some(update.at), update.error.cloned());
            last.logs = update.logs.to_vec();
        }
        self.ended_at = Some(update.at);
        self.due = self.due.filter(|_| self.activity == Activity::Sleep);
        self.output = update.output.clone().map(Cow::into_owned);
        self.handle = update.handle.map(str::to_owned);
        self.event = update.event.cloned();
        self.error = update.error.cloned();
        self.reopens = None;
    }

    /// Cancels an open step together with the run, or with the loop or scope around it; only the latter sets the end of
    /// the step.
    pub(super) fn cancel(&mut self, ended_at: Option<Timestamp>, reopens: Option<StepStatus>) {
        (self.status, self.ended_at, self.reopens) = (StepStatus::Cancelled, ended_at, reopens);
        if let Some(last) = self.attempts.last_mut().filter(|last| last.ended_at.is_none()) {
            (last.status, last.ended_at) = (StepStatus::Cancelled, ended_at);
        }
    }

    /// Drops the output, the logs and the errors of the step. Its status and the times of its attempts stay.
    pub(super) fn drop_values(&mut self) {
        (self.output, self.error) = (None, None);
        for attempt in &mut self.attempts {
            (attempt.error, attempt.logs) = (None, Vec::new());
        }
    }

    /// Reopens a step that ended or was cancelled with its run. As in the run's state, the retry
    /// becomes the last entry about a step that had failed; a step that was open keeps its last entry.
    pub(super) fn reopen(&mut self, seq: u64, status: StepStatus) {
        if self.status == StepStatus::Failed {
            self.seq = seq;
        }
        (self.status, self.ended_at) = (status, None);
        (self.error, self.reopens) = (None, None);
        if let Some(last) = self.attempts.last_mut().filter(|last| last.status == StepStatus::Cancelled) {
            (last.status, last.ended_at) = (status, None);
        }
    }
}
