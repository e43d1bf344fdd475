//! Inputs of a run, and the replies to them.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::code::Report;
use crate::failure::Failure;
use crate::ids::{RunId, StepKey};
use crate::journal::{Cause, Outcome};
use crate::machine::{Act, Applied, Assignment, RefusalDetails};
use crate::payload::Payload;
use crate::topics::EventRef;

/// A stimulus of a run from outside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Input {
    Start {
        input: Payload,
        /// The cause of the run, unless a caller starts it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<Cause>,
    },
    /// A task ended.
    Result {
        step: StepKey,
        attempt: u32,
        result: Result<Outcome, Failure>,
        logs: Vec<String>,
    },
    /// No handler performs a task that is open in the journal.
    TaskLost {
        step: StepKey,
        attempt: u32,
    },
    /// The due time of a timer was reached.
    Timer {
        step: StepKey,
        attempt: u32,
    },
    /// A child ended, or cannot be started.
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
    /// A signal that is buffered for some time if no wait for it is open yet.
    BufferedSignal {
        event: String,
        payload: Payload,
    },
    /// A published event, for every open wait that it matches.
    Event {
        event: EventRef,
        data: Payload,
    },
    /// A worker takes the turn of the run.
    BeginTurn {
        worker: String,
    },
    /// The worker that holds this turn was lost.
    LoseTurn {
        turn: u32,
    },
    /// A report of the worker that holds this turn.
    Report {
        turn: u32,
        report: Box<Report>,
    },
    /// A request to perform an action of a machine, or to vote for it.
    Transition(Box<Act>),
    /// A request to assign the state of a machine to other persons.
    Assign(Box<Assignment>),
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
    /// Retry the failed steps of a failed run.
    Retry,
    /// The run cannot continue, for a reason outside its workflow.
    Fail {
        failure: Failure,
    },
    /// No new fact: derive the entries that are ready.
    Settle,
}

impl Input {
    /// The report of a worker, if the input is one.
    pub fn report(&self) -> Option<&Report> {
        if let Self::Report { report, .. } = self { Some(report) } else { None }
    }

    /// The idempotency key that the input has by itself: a run takes an event once.
    pub(super) fn own_key(&self) -> Option<String> {
        if let Self::Event { event, .. } = self { Some(event.key()) } else { None }
    }
}

/// The result of an input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Reply {
    Accepted,
    /// The journal contains it, for a wait that may be opened later.
    Buffered,
    /// It was accepted before, under the same key.
    Repeated,
    /// A machine accepted the request, now or under the same key before.
    Applied(Box<Applied>),
    /// It changes nothing: a duplicate, a late result, a signal for which no wait is open.
    Ignored(Cow<'static, str>),
    /// It contradicts the run's status, or cannot be stored.
    Refused {
        code: Cow<'static, str>,
        message: String,
        /// What a machine reports beside the message.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        details: Option<Box<RefusalDetails>>,
    },
}

impl Reply {
    /// Whether the journal contains the requested change.
    pub fn is_accepted(&self) -> bool {
        matches!(self, Self::Accepted | Self::Buffered | Self::Repeated | Self::Applied(_))
    }

    /// Whether this input, and no earlier one, wrote the entry of the requested change.
    pub fn is_recorded(&self) -> bool {
        match self {
            Self::Accepted | Self::Buffered => true,
            Self::Applied(applied) => !applied.repeated,
            Self::Repeated | Self::Ignored(_) | Self::Refused { .. } => false,
        }
    }

    pub fn ignored(why: &'static str) -> Self {
        Self::Ignored(Cow::Borrowed(why))
    }

    pub fn refused(code: &'static str, message: impl Into<String>) -> Self {
        Self::Refused { code: Cow::Borrowed(code), message: message.into(), details: None }
    }
}
