//! What a worker is told.

use std::borrow::Cow;

use everstep_core::code::StepKind;
use everstep_core::failure::Failure;
use everstep_core::ids::{RunId, StepKey};
use everstep_core::payload::Payload;
use everstep_core::time::Timestamp;

#[derive(Clone, Debug, PartialEq)]
pub enum WorkerMessage {
    /// A report is in the journal, as the entry of this seq; `None` if it wrote none, or the seq is not known.
    Ack { n: u64, seq: Option<u64> },
    /// A report was not taken, and never will be.
    Refused { n: u64, code: Cow<'static, str>, detail: String },
    /// Nobody can say now what becomes of a report: send it again in a while.
    Later { n: u64 },
    /// A run to be gone on with.
    Turn(Box<Turn>),
    /// A step that the function may be waiting for has come to its end, or may be tried again.
    Wake { run: RunId, turn: u32, step: StepRecord },
    /// The run was cancelled, or ended otherwise: stop.
    Cancelled { run: RunId, turn: u32 },
    /// The run is not this worker's any more: start no step of it, and forget it.
    Revoked { run: RunId, turn: u32 },
}

impl WorkerMessage {
    /// Roughly the bytes that it takes.
    pub(crate) fn size(&self) -> usize {
        let payloads = match self {
            Self::Turn(turn) => turn.input.size() + turn.steps.iter().map(StepRecord::size).sum::<usize>(),
            Self::Wake { step, .. } => step.size(),
            Self::Refused { detail, .. } => detail.len(),
            Self::Ack { .. } | Self::Later { .. } | Self::Cancelled { .. } | Self::Revoked { .. } => 0,
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
    /// The last seq of the run's journal.
    pub seq: u64,
    /// What the journal knows of the run's steps, in the order in which they came to be so.
    pub steps: Vec<StepRecord>,
}

/// What the journal knows of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct StepRecord {
    pub step: StepKey,
    pub kind: StepKind,
    /// The entry that says it.
    pub seq: u64,
    pub outcome: StepOutcome,
}

impl StepRecord {
    fn size(&self) -> usize {
        match &self.outcome {
            StepOutcome::Completed { output } => output.size(),
            StepOutcome::Resolved { payload } => payload.size(),
            StepOutcome::Failed { failure, .. } => failure.message.len(),
            StepOutcome::Slept | StepOutcome::TimedOut | StepOutcome::Retry { .. } | StepOutcome::Open => 0,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum StepOutcome {
    /// A step or a child run gave this.
    Completed { output: Payload },
    /// It failed, and is not tried again.
    Failed { failure: Failure, attempts: u32 },
    /// The sleep is over.
    Slept,
    /// The signal came.
    Resolved { payload: Payload },
    /// The signal did not come in time.
    TimedOut,
    /// It may be tried now, as this attempt.
    Retry { attempt: u32 },
    /// It sleeps, waits, goes on as another run, or waits to be tried again.
    Open,
}
