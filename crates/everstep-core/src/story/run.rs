//! The run's own part of its story.

use super::update::{MachineUpdate, RunChange, RunUpdate};
use crate::actor::Actor;
use crate::failure::Failure;
use crate::ids::StepKey;
use crate::payload::Payload;
use crate::status::Status;
use crate::time::Timestamp;

/// The history of the run itself so far.
#[derive(Clone, Debug, PartialEq)]
pub struct RunStory {
    /// The last entry that was applied.
    pub seq: u64,
    /// The status of the run. A waiting run is running here: [`Story::status`](super::Story::status) also considers its
    /// steps.
    pub status: Status,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    /// When the run was paused, while it is paused.
    pub paused_at: Option<Timestamp>,
    pub output: Option<Payload>,
    /// Why the run failed, is paused, or was paused when it was cancelled.
    pub failure: Option<Failure>,
    /// The step that caused the failure of the run.
    pub failed_step: Option<StepKey>,
    /// The stack trace of the error that the function has thrown.
    pub stack: Option<Box<str>>,
    /// Steps that the function did not await before it ended.
    pub unawaited: Vec<StepKey>,
    /// Why the run was cancelled.
    pub reason: Option<String>,
    /// The worker that holds the run's turn.
    pub worker: Option<String>,
    /// The state of a machine.
    pub machine: Option<MachineStory>,
}

/// The place of a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineStory {
    pub state: String,
    pub version_no: u32,
    pub entered_at: Timestamp,
    /// The actor that caused the last transition, and its action.
    pub by: Actor,
    pub action: String,
}

impl Default for RunStory {
    fn default() -> Self {
        Self {
            seq: 0,
            status: Status::Pending,
            started_at: None,
            ended_at: None,
            paused_at: None,
            output: None,
            failure: None,
            failed_step: None,
            stack: None,
            unawaited: Vec::new(),
            reason: None,
            worker: None,
            machine: None,
        }
    }
}

impl RunStory {
    pub(super) fn apply(&mut self, update: &RunUpdate<'_>) {
        match update.change {
            RunChange::Started => {
                self.status = Status::Running;
                self.started_at.get_or_insert(update.at);
            }
            RunChange::TurnStarted => self.worker = update.worker.map(str::to_owned),
            RunChange::TurnLost => self.worker = None,
            RunChange::Moved => self.machine = update.machine.as_ref().and_then(|machine| enter(machine, update.at)),
            RunChange::Voted | RunChange::Assigned => {}
            RunChange::Paused => {
                (self.status, self.paused_at, self.worker) = (Status::Paused, Some(update.at), None);
                self.failure = update.failure.cloned();
            }
            RunChange::Resumed | RunChange::Retried => {
                (self.status, self.paused_at, self.ended_at) = (Status::Running, None, None);
                (self.failure, self.failed_step, self.stack) = (None, None, None);
                self.unawaited.clear();
            }
            RunChange::Completed => self.end(Status::Completed, update),
            RunChange::Failed => self.end(Status::Failed, update),
            RunChange::Cancelled => self.end(Status::Cancelled, update),
        }
    }

    fn end(&mut self, status: Status, update: &RunUpdate<'_>) {
        (self.status, self.ended_at, self.paused_at, self.worker) = (status, Some(update.at), None, None);
        self.output = update.output.cloned();
        if status != Status::Cancelled {
            self.failure = update.failure.cloned();
        }
        self.failed_step = update.failed_step.cloned();
        self.stack = update.stack.map(Box::from);
        self.unawaited = update.unawaited.to_vec();
        self.reason = update.reason.map(str::to_owned);
    }
}

fn enter(update: &MachineUpdate<'_>, entered_at: Timestamp) -> Option<MachineStory> {
    let MachineUpdate { action, to, version_no, by, .. } = update;
    let (state, action, by) = ((*to)?.to_owned(), (*action)?.to_owned(), (*by).clone());
    Some(MachineStory { state, version_no: (*version_no)?, entered_at, by, action })
}
