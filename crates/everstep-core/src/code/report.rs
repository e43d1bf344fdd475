//! The reports of a worker about a turn.

use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::ids::StepKey;
use crate::payload::Payload;
use crate::retry::RetryPolicy;
use crate::time::Timestamp;

/// One report of the worker that holds a run's turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Report {
    /// A step's function has returned.
    Completed {
        step: StepKey,
        attempt: u32,
        output: Payload,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        logs: Vec<String>,
        /// Microseconds that it took.
        took: u64,
    },
    /// A step's function has thrown.
    Failed {
        step: StepKey,
        attempt: u32,
        failure: Failure,
        retry: RetryPolicy,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        logs: Vec<String>,
        took: u64,
    },
    /// The function sleeps.
    Slept { step: StepKey, until: Moment },
    /// The function waits for a signal.
    Waited {
        step: StepKey,
        /// The signal's name; the name of the step if none is given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        event: Option<String>,
        /// The fields that the signal must contain; `{}` matches every signal.
        pattern: Payload,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timeout_ms: Option<u64>,
        /// The wait also accepts events that were published from then on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        since: Option<Since>,
    },
    /// The function publishes an event.
    Published {
        step: StepKey,
        topic: String,
        data: Payload,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        subject: Option<String>,
    },
    /// The function starts a run and waits for its end.
    Called {
        step: StepKey,
        workflow: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<u32>,
        input: Payload,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timeout_ms: Option<u64>,
    },
    /// The function has returned.
    Returned {
        output: Payload,
        /// Steps that it did not await.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        unawaited: Vec<StepKey>,
    },
    /// The function has thrown, outside any step or because of one.
    Threw {
        failure: Failure,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<StepKey>,
        /// The stack trace of the error.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stack: Option<String>,
        /// Steps that the function did not await.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        unawaited: Vec<StepKey>,
    },
    /// The function and the journal disagree.
    Diverged { failure: Failure },
    /// The function waits only for steps that are open in the journal. `seq` is the last entry that it received.
    Blocked { seq: u64 },
    /// The worker cannot run this version, or is being stopped.
    Declined { failure: Failure },
}

impl Report {
    /// A function that has returned and has awaited all its steps.
    pub fn returned(output: impl Into<Payload>) -> Self {
        Self::Returned { output: output.into(), unawaited: Vec::new() }
    }

    /// A function that has thrown an error without a stack trace, and has awaited all its steps.
    pub fn threw(failure: Failure, step: Option<StepKey>) -> Self {
        Self::Threw { failure, step, stack: None, unawaited: Vec::new() }
    }

    /// The step that the report is about. A throw is about the run, even if it names a step.
    pub fn step(&self) -> Option<&StepKey> {
        match self {
            Self::Completed { step, .. }
            | Self::Failed { step, .. }
            | Self::Slept { step, .. }
            | Self::Waited { step, .. }
            | Self::Published { step, .. }
            | Self::Called { step, .. } => Some(step),
            Self::Returned { .. }
            | Self::Threw { .. }
            | Self::Diverged { .. }
            | Self::Blocked { .. }
            | Self::Declined { .. } => None,
        }
    }

    /// Whether the report ends its run.
    pub fn is_end(&self) -> bool {
        matches!(self, Self::Returned { .. } | Self::Threw { .. })
    }
}

/// When a sleep ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Moment {
    /// This many milliseconds after the report is recorded.
    After(u64),
    At(Timestamp),
}

/// From when on a wait accepts events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Since {
    /// From the start of the run.
    Start,
    /// From this many milliseconds before the report is recorded.
    Ago(u64),
    At(Timestamp),
}

/// The kind of a step of a code workflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StepKind {
    Run,
    Sleep,
    Wait,
    Call,
    Publish,
}
