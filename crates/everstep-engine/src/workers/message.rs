//! Messages to workers.

use std::borrow::Cow;

use everstep_core::code::StepKind;
use everstep_core::failure::Failure;
use everstep_core::ids::{RunId, StepKey};
use everstep_core::payload::Payload;
use everstep_core::time::Timestamp;
use everstep_core::topics::{EventRef, Trigger};

use super::turn_end::TurnEnd;

#[derive(Clone, Debug, PartialEq)]
pub enum WorkerMessage {
    /// A report is in the journal, as the entry with this seq; `None` if it wrote no entry, or the seq is not known.
    Ack { n: u64, seq: Option<u64> },
    /// A report was rejected permanently.
    Refused { n: u64, code: Cow<'static, str>, detail: String },
    /// The outcome of a report is not known now: send it again later.
    Later { n: u64 },
    /// A run to continue.
    Turn(Box<Turn>),
    /// A step that the function may wait for has settled, or may be retried.
    Wake { run: RunId, turn: u32, step: StepRecord },
    /// The run was cancelled, or has ended otherwise: stop.
    Cancelled { run: RunId, turn: u32, end: TurnEnd },
    /// The worker no longer holds the run: start no step of it, and drop it.
    Revoked { run: RunId, turn: u32, end: TurnEnd },
}

impl WorkerMessage {
    /// The number of the report that it replies to.
    pub(super) fn replies_to(&self) -> Option<u64> {
        match self {
            Self::Ack { n, .. } | Self::Refused { n, .. } | Self::Later { n } => Some(*n),
            Self::Turn(_) | Self::Wake { .. } | Self::Cancelled { .. } | Self::Revoked { .. } => None,
        }
    }

    /// Its approximate size in bytes.
    pub(super) fn size(&self) -> usize {
        let payloads = match self {
            Self::Turn(turn) => turn.input.size() + turn.steps.iter().map(StepRecord::size).sum::<usize>(),
            Self::Wake { step, .. } => step.size(),
            Self::Refused { detail, .. } => detail.len(),
            Self::Cancelled { end, .. } | Self::Revoked { end, .. } => end.detail().map_or(0, str::len),
            Self::Ack { .. } | Self::Later { .. } => 0,
        };
        size_of::<Self>() + payloads
    }
}

/// A run on its way to a worker.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    pub run: RunId,
    pub turn: u32,
    pub workflow: String,
    pub version: u32,
    pub input: Payload,
    pub started_at: Timestamp,
    /// Why the run exists, if no caller and no other run started it.
    pub trigger: Option<Trigger>,
    /// The last seq of the run's journal.
    pub seq: u64,
    /// The journal's records of the run's steps, in the order of their entries.
    pub steps: Vec<StepRecord>,
}

/// The journal's record of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct StepRecord {
    pub step: StepKey,
    pub kind: StepKind,
    /// The entry that the outcome follows from.
    pub seq: u64,
    pub outcome: StepOutcome,
}

impl StepRecord {
    fn size(&self) -> usize {
        match &self.outcome {
            StepOutcome::Completed { output } => output.size(),
            StepOutcome::Resolved { payload, event } => {
                payload.size() + event.as_ref().map_or(0, |event| event.topic.len() + event.source.len())
            }
            StepOutcome::Failed { failure, .. } => failure.message.len(),
            StepOutcome::Slept | StepOutcome::TimedOut | StepOutcome::Retry { .. } | StepOutcome::Open => 0,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum StepOutcome {
    /// A step or a child run returned this.
    Completed { output: Payload },
    /// It failed, and is not retried.
    Failed { failure: Failure, attempts: u32 },
    /// The sleep has ended.
    Slept,
    /// The signal arrived, or an event was published.
    Resolved { payload: Payload, event: Option<Box<EventRef>> },
    /// Neither arrived in time.
    TimedOut,
    /// It may be retried now, as this attempt.
    Retry { attempt: u32 },
    /// It sleeps, waits for a signal, an event or a child run, or waits for its next attempt.
    Open,
}
