//! The change that an entry of a journal makes for readers.

use std::borrow::Cow;

use serde::{Serialize, Serializer};

use super::step::Activity;
use crate::actor::Actor;
use crate::failure::Failure;
use crate::ids::StepKey;
use crate::payload::Payload;
use crate::status::{Status, StepStatus};
use crate::time::Timestamp;
use crate::topics::EventRef;

/// One change by an entry: of the run itself, or of one of its steps.
///
/// It borrows from the entry. As JSON it is an object with the member `of` (`run` or `step`); values can be left out
/// with [`Update::without_values`].
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "of", rename_all = "camelCase")]
pub enum Update<'e> {
    Run(RunUpdate<'e>),
    Step(StepUpdate<'e>),
}

impl Update<'_> {
    /// The step that the update concerns; none if it concerns the run.
    pub(super) fn step(&self) -> Option<&StepKey> {
        match self {
            Self::Run(_) => None,
            Self::Step(update) => Some(&update.step),
        }
    }

    /// The same without outputs, log lines and stack traces.
    #[must_use]
    pub fn without_values(self) -> Self {
        match self {
            Self::Run(update) => Self::Run(RunUpdate { output: None, stack: None, ..update }),
            Self::Step(update) => Self::Step(StepUpdate { output: None, logs: &[], ..update }),
        }
    }
}

/// A change of the run itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunUpdate<'e> {
    /// The entry that caused it.
    pub seq: u64,
    #[serde(serialize_with = "rfc3339")]
    pub at: Timestamp,
    pub change: RunChange,
    /// The output of a completed run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<&'e Payload>,
    /// Why the run failed or was paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<&'e Failure>,
    /// The step that caused the failure of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_step: Option<&'e StepKey>,
    /// The stack trace of the error that the function has thrown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stack: Option<&'e str>,
    /// Steps that the function did not await before it ended.
    #[serde(skip_serializing_if = "<[StepKey]>::is_empty")]
    pub unawaited: &'e [StepKey],
    /// Why the run was cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'e str>,
    /// The worker that received a turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<&'e str>,
    /// The transition, vote or assignment of a machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<MachineUpdate<'e>>,
}

/// A change of a machine's run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineUpdate<'e> {
    /// The action; none for an assignment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<&'e str>,
    /// The state that was left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<&'e str>,
    /// The state that was entered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<&'e str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version_no: Option<u32>,
    pub by: &'e Actor,
}

/// The kind of a change of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum RunChange {
    Started,
    /// A worker holds a turn of the run.
    TurnStarted,
    TurnLost,
    /// A machine entered a state.
    Moved,
    /// A person voted, or withdrew the vote.
    Voted,
    /// The state of a machine was assigned, or a voter was replaced.
    Assigned,
    Paused,
    Resumed,
    Retried,
    Completed,
    Failed,
    Cancelled,
}

impl RunChange {
    /// The status of a run that ended with this change.
    pub fn end(self) -> Option<Status> {
        match self {
            Self::Completed => Some(Status::Completed),
            Self::Failed => Some(Status::Failed),
            Self::Cancelled => Some(Status::Cancelled),
            Self::Started
            | Self::TurnStarted
            | Self::TurnLost
            | Self::Moved
            | Self::Voted
            | Self::Assigned
            | Self::Paused
            | Self::Resumed
            | Self::Retried => None,
        }
    }
}

/// A change of one step.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StepUpdate<'e> {
    /// The entry that caused it.
    pub seq: u64,
    #[serde(serialize_with = "rfc3339")]
    pub at: Timestamp,
    pub step: StepKey,
    /// The node of a graph, without the iterations around it; the whole key for a step of code.
    pub node: Cow<'e, str>,
    /// The node's type, or `run`, `sleep`, `wait`, `call` for a step of code; none while it is not known.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<Cow<'e, str>>,
    /// The attempt, counted from 1; 0 for a step that was skipped.
    pub attempt: u32,
    pub status: StepStatus,
    pub change: StepChange,
    /// The activity of a step that has begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activity: Option<Activity>,
    /// When the attempt began.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "rfc3339_option")]
    pub since: Option<Timestamp>,
    /// When the step continues without an input.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "rfc3339_option")]
    pub due: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Cow<'e, Payload>>,
    /// The handle with which a step completed; none for the default handle of its kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handle: Option<&'e str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<&'e Failure>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub logs: &'e [String],
    /// The published event that resolved a wait.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "event_option")]
    pub event: Option<&'e EventRef>,
}

impl StepUpdate<'_> {
    /// The duration of the attempt, if this update ends it and its beginning is known.
    pub fn duration(&self) -> Option<std::time::Duration> {
        self.change.is_end().then_some(self.at).zip(self.since).map(|(end, since)| end.since(since))
    }
}

/// The kind of a change of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum StepChange {
    /// An attempt has begun.
    Began,
    Completed,
    /// The attempt failed. Another may follow.
    Failed,
    Skipped,
    /// The next attempt waits for a time.
    Retries,
    /// The next attempt may begin.
    RetryDue,
    /// A loop waits before its next item.
    Paces,
    /// A loop continues with its next item.
    PaceDue,
    /// The step was open when the loop, the scope or the run around it ended.
    Cancelled,
    /// The step is open again because its run is retried.
    Reopened,
}

impl StepChange {
    /// Whether the change is the result of an attempt.
    pub fn is_end(self) -> bool {
        match self {
            Self::Completed | Self::Failed => true,
            Self::Began
            | Self::Skipped
            | Self::Retries
            | Self::RetryDue
            | Self::Paces
            | Self::PaceDue
            | Self::Cancelled
            | Self::Reopened => false,
        }
    }
}

/// A published event as clients see it: its time is RFC 3339.
fn event_option<S: Serializer>(event: &Option<&EventRef>, serializer: S) -> Result<S::Ok, S::Error> {
    event.map(EventRef::to_json).serialize(serializer)
}

/// A time as clients see it: RFC 3339, UTC, microseconds.
pub(super) fn rfc3339<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{time:.6}"))
}

pub(super) fn rfc3339_option<S: Serializer>(time: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => rfc3339(time, serializer),
        None => serializer.serialize_none(),
    }
}
