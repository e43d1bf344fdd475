//! A run's state: the fold of its journal, common to all styles.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};

use crate::code::Progress as CodeProgress;
use crate::failure::Failure;
use crate::graph::{Place, Progress};
use crate::ids::{RunId, StepKey};
use crate::journal::Entry;
use crate::payload::Payload;
use crate::retry::RetryPolicy;
use crate::run::child::{Child, Children, Parent};
use crate::run::keys::Keys;
use crate::status::{Status, StepStatus};
use crate::time::Timestamp;
use crate::workflow::Workflow;

/// **Invariant**: `State` is a function of the journal alone. Nothing but [`State::apply`] changes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    pub run: RunId,
    /// The last entry's seq; also the run's version.
    pub seq: u64,
    pub(crate) phase: Phase,
    pub started_at: Timestamp,
    /// The time of the last entry.
    pub updated_at: Timestamp,
    pub input: Payload,
    /// What it gave, once it is completed; that may be `null`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub output: Option<Payload>,
    pub failure: Option<Failure>,
    /// When it was paused, while it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_at: Option<Timestamp>,
    /// The step that started the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// Steps that were dispatched and are not settled.
    pub(crate) open: BTreeMap<StepKey, Open>,
    /// Open steps that must be retried or dispatched again.
    pub(crate) todo: BTreeSet<StepKey>,
    pub(crate) timers: BTreeSet<(Timestamp, StepKey)>,
    /// Steps whose failure nobody handled, with their last attempt. A retry opens them again.
    pub(crate) failed: BTreeMap<StepKey, u32>,
    /// How many open steps are tasks.
    pub(crate) tasks: usize,
    #[serde(default, skip_serializing_if = "Children::are_none")]
    pub(crate) children: Children,
    /// The keys of signals and controls that were accepted.
    #[serde(default, skip_serializing_if = "Keys::is_empty")]
    pub(crate) keys: Keys,
    pub graph: Progress,
    #[serde(default, skip_serializing_if = "CodeProgress::is_empty")]
    pub code: CodeProgress,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Phase {
    Pending,
    Live,
    Paused,
    Completed,
    Failed,
    Cancelled,
}

/// A step under way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Open {
    pub(crate) attempt: u32,
    /// Failed attempts so far.
    pub(crate) failures: u32,
    /// Dispatches in a row that ended without any result.
    pub(crate) crashes: u32,
    pub(crate) doing: Doing,
    pub(crate) timer: Option<Timestamp>,
    /// How long the last failure asks to wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) retry_after_ms: Option<u32>,
    /// When that began. Snapshots of older builds do not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) since: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Doing {
    Task,
    Instant,
    Delay,
    Wait {
        event: String,
        pattern: Payload,
    },
    Child(Arc<Child>),
    Body,
    /// An attempt failed and another is allowed: a timer is to be set.
    Failed,
    /// The timer runs.
    Backoff,
    /// To be dispatched again.
    Again,
}

/// Something that must be going on for a run.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenStep<'a> {
    pub step: &'a StepKey,
    pub attempt: u32,
    /// When that began, where it is known.
    pub since: Option<Timestamp>,
    pub what: OpenWhat<'a>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum OpenWhat<'a> {
    /// Somebody must be performing it.
    Task,
    /// It waits for a signal.
    Wait { event: &'a str, pattern: &'a Payload, due: Option<Timestamp> },
    /// A run that must be there. The parent that it is to be started with is [`State::parent_of`].
    Child(&'a Child),
    /// It is over at a time.
    Delay { due: Option<Timestamp> },
    /// It failed and is tried again at a time.
    Backoff { due: Option<Timestamp> },
    /// A loop or scope: steps inside it go on, or its next item waits for a time.
    Body { due: Option<Timestamp> },
    /// It goes on at once.
    Soon,
}

/// The journal does not fit the workflow: a bug, or a journal of another version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("entry {seq} does not fit the workflow: {reason}")]
pub struct Misfit {
    pub seq: u64,
    pub reason: String,
}

impl State {
    pub fn new(run: RunId) -> Self {
        Self {
            run,
            seq: 0,
            phase: Phase::Pending,
            started_at: Timestamp::EPOCH,
            updated_at: Timestamp::EPOCH,
            input: Payload::null(),
            output: None,
            failure: None,
            paused_at: None,
            parent: None,
            open: BTreeMap::new(),
            todo: BTreeSet::new(),
            timers: BTreeSet::new(),
            failed: BTreeMap::new(),
            tasks: 0,
            children: Children::default(),
            keys: Keys::default(),
            graph: Progress::default(),
            code: CodeProgress::default(),
        }
    }

    /// Folds a journal from its beginning.
    pub fn fold(run: RunId, workflow: &Workflow, journal: &[Entry]) -> Result<Self, Misfit> {
        let mut state = Self::new(run);
        for entry in journal {
            state.apply(workflow, entry)?;
        }
        Ok(state)
    }

    pub fn status(&self) -> Status {
        match self.phase {
            Phase::Pending => Status::Pending,
            Phase::Live if self.is_busy() => Status::Running,
            Phase::Live => Status::Waiting,
            Phase::Paused => Status::Paused,
            Phase::Completed => Status::Completed,
            Phase::Failed => Status::Failed,
            Phase::Cancelled => Status::Cancelled,
        }
    }

    /// Whether something is being performed or about to be.
    fn is_busy(&self) -> bool {
        let is_ready = !self.todo.is_empty() || !self.graph.agenda.is_empty() || self.code.ready > 0;
        self.tasks > 0 || is_ready || self.open.is_empty()
    }

    pub fn has_ended(&self) -> bool {
        matches!(self.phase, Phase::Completed | Phase::Failed | Phase::Cancelled)
    }

    /// Whether nothing may be dispatched although the run has not ended.
    pub fn is_paused(&self) -> bool {
        self.phase == Phase::Paused
    }

    pub fn has_open_tasks(&self) -> bool {
        self.tasks > 0
    }

    /// The next timer that may fire; none while the run is paused or over.
    pub fn next_due(&self) -> Option<Timestamp> {
        if self.phase != Phase::Live {
            return None;
        }
        self.timers.first().map(|(due, _)| *due)
    }

    /// The first timer that is due, as its step and attempt; none while the run is paused or over.
    pub fn first_due(&self, now: Timestamp) -> Option<(StepKey, u32)> {
        let (due, step) = self.timers.first().filter(|_| self.phase == Phase::Live)?;
        let open = self.open.get(step).filter(|_| *due <= now)?;
        Some((step.clone(), open.attempt))
    }

    /// The timers that are due, as `(step, attempt)`.
    pub fn due(&self, now: Timestamp) -> Vec<(StepKey, u32)> {
        self.timers
            .iter()
            .take_while(|(due, _)| *due <= now)
            .filter_map(|(_, step)| self.open.get(step).map(|open| (step.clone(), open.attempt)))
            .collect()
    }

    /// What must be going on: a function of the state, not of the last events.
    pub fn open(&self) -> impl Iterator<Item = OpenStep<'_>> {
        self.open.iter().map(|(step, open)| OpenStep {
            step,
            attempt: open.attempt,
            since: open.since,
            what: match &open.doing {
                Doing::Task => OpenWhat::Task,
                Doing::Wait { event, pattern } => OpenWhat::Wait { event, pattern, due: open.timer },
                Doing::Child(child) => OpenWhat::Child(child),
                Doing::Delay => OpenWhat::Delay { due: open.timer },
                Doing::Backoff => OpenWhat::Backoff { due: open.timer },
                Doing::Body => OpenWhat::Body { due: open.timer },
                Doing::Instant | Doing::Failed | Doing::Again => OpenWhat::Soon,
            },
        })
    }

    /// Whether this attempt of a step is an open task.
    pub fn has_open_task(&self, step: &StepKey, attempt: u32) -> bool {
        self.open.get(step).is_some_and(|open| open.attempt == attempt && open.doing == Doing::Task)
    }

    /// Where a step is; `None` for one that was not reached.
    pub fn step_status(&self, workflow: &Workflow, step: &StepKey) -> Option<StepStatus> {
        let has_ended = self.has_ended();
        if workflow.is_code() && !self.open.contains_key(step) {
            return self.code_step_status(step);
        }
        if let Some(open) = self.open.get(step) {
            return Some(match open.doing {
                _ if has_ended => StepStatus::Cancelled,
                Doing::Task | Doing::Instant | Doing::Body | Doing::Failed | Doing::Again => StepStatus::Running,
                Doing::Delay | Doing::Wait { .. } | Doing::Child(_) | Doing::Backoff => StepStatus::Waiting,
            });
        }
        self.graph.step_status(workflow.graph(), step, has_ended)
    }

    /// Roughly the memory that this state takes, in bytes.
    pub fn weight(&self) -> usize {
        let beside = self.keys.weight() + self.children.weight();
        1_024 + self.context_bytes() + self.graph.weight + self.code.weight() + 160 * self.open.len() + beside
    }

    /// Bytes of JSON that the context holds.
    pub(crate) fn context_bytes(&self) -> usize {
        self.input.size() + self.graph.bytes + self.code.bytes
    }

    pub(crate) fn policy<'a>(&self, workflow: &'a Workflow, place: &Place) -> &'a RetryPolicy {
        &workflow.graph().node(place.node).retry
    }
}

/// Reads an output that is there: `null` is one.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Payload>, D::Error> {
    Payload::deserialize(deserializer).map(Some)
}
