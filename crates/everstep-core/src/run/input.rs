//! Inputs of a run, and the replies to them.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::code::Report;
use crate::failure::Failure;
use crate::ids::{RunId, StepKey};
use crate::journal::{Cause, Outcome};
use crate::payload::Payload;

/// What may happen to a run from outside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Input {
    Start {
        input: Payload,
        /// What starts it, where that is not a caller alone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<Cause>,
    },
    /// A task came to its end.
    Result {
        step: StepKey,
        attempt: u32,
        result: Result<Outcome, Failure>,
        logs: Vec<String>,
    },
    /// A task that the journal knows is not being performed by anybody.
    TaskLost {
        step: StepKey,
        attempt: u32,
    },
    /// The time of a timer has come.
    Timer {
        step: StepKey,
        attempt: u32,
    },
    /// A child came to its end, or cannot be started.
    ChildEnded {
        step: StepKey,
        attempt: u32,
        child: RunId,
        result: Result<Payload, Failure>,
    },
    /// A child exists.
    ChildStarted {
        step: StepKey,
        attempt: u32,
        child: RunId,
    },
    Signal {
        event: String,
        payload: Payload,
    },
    /// A signal that is kept for a while where nothing waits for it yet.
    BufferedSignal {
        event: String,
        payload: Payload,
    },
    /// A worker takes the run.
    BeginTurn {
        worker: String,
    },
    /// The worker that holds this turn was lost.
    LoseTurn {
        turn: u32,
    },
    /// News from the worker that has this turn.
    Report {
        turn: u32,
        report: Box<Report>,
    },
    SetContext {
        values: Payload,
    },
    Pause {
        reason: Option<Failure>,
    },
    Resume,
    Cancel {
        reason: Option<String>,
    },
    /// Try the failed steps of a failed run again.
    Retry,
    /// The run cannot continue, for a reason outside its workflow.
    Fail {
        failure: Failure,
    },
    /// Nothing new: derive what is ready.
    Settle,
}

impl Input {
    /// The report of a worker, where the input is one.
    pub fn report(&self) -> Option<&Report> {
        if let Self::Report { report, .. } = self { Some(report) } else { None }
    }
}

/// What became of an input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Reply {
    Accepted,
    /// It is in the journal, for something that may wait for it later.
    Buffered,
    /// It was accepted before, under the same key.
    Repeated,
    /// It changes nothing: a duplicate, a late result, a signal for which no wait is open.
    Ignored(Cow<'static, str>),
    /// It contradicts the run's status, or cannot be kept.
    Refused {
        code: Cow<'static, str>,
        message: String,
    },
}

impl Reply {
    /// Whether what was asked for is in the journal.
    pub fn is_accepted(&self) -> bool {
        matches!(self, Self::Accepted | Self::Buffered | Self::Repeated)
    }

    /// Whether this input, and no earlier one, wrote an entry for what was asked for.
    pub fn is_recorded(&self) -> bool {
        matches!(self, Self::Accepted | Self::Buffered)
    }

    pub fn ignored(why: &'static str) -> Self {
        Self::Ignored(Cow::Borrowed(why))
    }

    pub fn refused(code: &'static str, message: impl Into<String>) -> Self {
        Self::Refused { code: Cow::Borrowed(code), message: message.into() }
    }
}
