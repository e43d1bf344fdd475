//! The facts of a run. A journal is a list of them; all other state is derived from them.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};

use super::delivery::Delivery;
use super::transition::{Assigned, TransitionApplied, VoteCast};
use crate::actor::Actor;
use crate::failure::Failure;
use crate::ids::StepKey;
use crate::payload::Payload;
use crate::run::{Child, Parent};
use crate::time::Timestamp;
use crate::topics::{EventRef, Publication, Trigger};

/// The highest event format that this build writes and reads: 1 is that of graphs and functions, 2 adds state machines,
/// 3 adds events of topics and pending starts, 4 adds deliveries and timers that repeat.
pub const FORMAT: u32 = 4;

/// The format that introduced events of topics.
const TOPICS_FORMAT: u32 = 3;

/// The format that introduced deliveries of machines.
pub(crate) const DELIVERIES_FORMAT: u32 = 4;

/// The format of an event that uses topics, or does not.
fn topics_format(uses_topics: bool) -> u32 {
    if uses_topics { TOPICS_FORMAT } else { 1 }
}

/// One fact, in the past tense.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    RunStarted {
        input: Payload,
        /// The reason why the run exists, unless a caller started it.
        cause: Option<Cause>,
        /// The definition of the workflow, if it was not saved: that of a test run.
        definition: Option<Payload>,
    },
    /// The durable record that a step is in progress. A new owner performs again every step that was dispatched and not
    /// settled.
    StepDispatched {
        step: StepKey,
        attempt: u32,
        dispatch: Dispatch,
    },
    StepCompleted {
        step: StepKey,
        attempt: u32,
        outcome: Outcome,
    },
    StepFailed {
        step: StepKey,
        attempt: u32,
        failure: Failure,
        logs: Vec<String>,
        /// When a worker began the attempt.
        started_at: Option<Timestamp>,
    },
    /// Every edge into the step is settled and none is live.
    StepSkipped {
        step: StepKey,
    },
    TimerSet {
        step: StepKey,
        attempt: u32,
        due: Timestamp,
        why: TimerPurpose,
    },
    TimerFired {
        step: StepKey,
        attempt: u32,
    },
    /// A code workflow waits for a signal.
    WaitOpened {
        step: StepKey,
        attempt: u32,
        /// The signal's name, if it differs from the step's name.
        event: Option<String>,
        pattern: Payload,
        due: Option<Timestamp>,
        /// The wait also accepts events that were published from this time on.
        since: Option<Timestamp>,
    },
    WaitResolved {
        step: StepKey,
        attempt: u32,
        by: Resolution,
    },
    /// A signal without an open wait is buffered until a time.
    SignalBuffered {
        event: String,
        payload: Payload,
        until: Timestamp,
    },
    /// A worker holds the run: it runs the workflow's function from the top. Turns are counted from 1.
    TurnStarted {
        turn: u32,
        worker: String,
    },
    /// That worker was lost.
    TurnLost {
        turn: u32,
    },
    /// A machine entered a state.
    TransitionApplied(Box<TransitionApplied>),
    /// A person voted for an action of a machine's state, or withdrew the vote.
    VoteCast(Box<VoteCast>),
    /// A machine's state was assigned to other persons, or one of its voters was replaced.
    Assigned(Box<Assigned>),
    /// Values merged into the context; later values replace earlier ones.
    ContextSet {
        values: Payload,
    },
    RunPaused {
        reason: Option<Failure>,
    },
    RunResumed,
    /// The failed steps of a failed run are retried. Loops and scopes among them continue under their next attempt,
    /// without a dispatch of their own.
    RunRetried,
    RunCompleted {
        output: Payload,
        /// Steps that a function did not await before it returned.
        unawaited: Vec<StepKey>,
    },
    RunFailed {
        failure: Failure,
        step: Option<StepKey>,
        /// The stack trace of the error that a function has thrown.
        stack: Option<Box<str>>,
        /// Steps that a function did not await before it ended.
        unawaited: Vec<StepKey>,
    },
    RunCancelled {
        reason: Option<String>,
    },
}

/// The reason why a run exists. A build ignores the fields that it does not know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cause {
    /// The step that started the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// The person or the program that started the run; for a child, the one that started its first ancestor.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "read_known")]
    pub by: Option<Actor>,
    /// The trigger that started the run; for a child, the one that started its first ancestor.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "read_known")]
    pub trigger: Option<Box<Trigger>>,
    /// The persons and programs that forked the run, or an ancestor of it, in their order. For `notBy: ["@start"]` they
    /// are starters: without this, a manager could fork the run of another person and approve the fork.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forked_by: Vec<Actor>,
}

impl Cause {
    /// The cause of a fork by an actor.
    pub fn forked(mut self, by: Actor) -> Self {
        if self.by.as_ref() != Some(&by) && !self.forked_by.contains(&by) {
            self.forked_by.push(by);
        }
        self
    }
}

impl From<Parent> for Cause {
    fn from(parent: Parent) -> Self {
        Self { parent: Some(parent), ..Self::default() }
    }
}

impl From<Actor> for Cause {
    fn from(by: Actor) -> Self {
        Self { by: Some(by), ..Self::default() }
    }
}

/// Reads a part of a cause; none if it has a form of a later build.
fn read_known<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<Option<T>, D::Error> {
    let value = serde_json::Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).ok())
}

/// The purpose of a timer. The timeouts of waits and children are part of the entries that open them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TimerPurpose {
    /// A function sleeps.
    Sleep,
    /// Another attempt follows a failed one.
    Retry,
    /// A loop waits between two items.
    Pace,
    /// The time limit of a machine's state.
    After,
}

impl TimerPurpose {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sleep => "sleep",
            Self::Retry => "retry",
            Self::Pace => "pace",
            Self::After => "after",
        }
    }
}

/// The work that a dispatched step starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Dispatch {
    /// A handler performs it.
    Task,
    /// The core decides it; its completion is in the same item.
    Instant,
    /// A code workflow publishes an event: decided as an instant step.
    Publish,
    /// It completes at a time.
    Delay { due: Timestamp },
    /// It completes with a matching signal, or with its timeout.
    Wait {
        event: String,
        #[serde(rename = "match")]
        pattern: Payload,
        due: Option<Timestamp>,
        /// The wait also accepts events that were published from this time on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        since: Option<Timestamp>,
    },
    /// It completes with the end of a run that it starts, or when that run exists.
    Child(Arc<Child>),
    /// Its body runs once per item.
    Body { items: Vec<Payload> },
    /// A side effect of a machine's transition. A later attempt is dispatched as a task or a child.
    Delivery(Arc<Delivery>),
}

/// How a wait ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Resolution {
    Signal {
        event: String,
        payload: Payload,
        /// The entry that buffered the signal, if it arrived before the wait.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        buffered: Option<u64>,
    },
    Timeout,
    /// A published event.
    Event {
        event: EventRef,
        data: Payload,
    },
}

/// The result of a completed step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    #[serde(default)]
    pub output: Payload,
    /// The handle whose edges are live. `None` is the default handle of the step's kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logs: Vec<String>,
    /// When a worker began the attempt: steps of a worker have no dispatch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// The published event that completed a wait of a graph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<Box<EventRef>>,
    /// The event that the step publishes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<Box<Publication>>,
}

impl Dispatch {
    fn format(&self) -> u32 {
        match self {
            Self::Publish => TOPICS_FORMAT,
            Self::Delivery(_) => DELIVERIES_FORMAT,
            Self::Wait { since, .. } => topics_format(since.is_some()),
            Self::Task | Self::Instant | Self::Delay { .. } | Self::Child(_) | Self::Body { .. } => 1,
        }
    }
}

impl Resolution {
    fn format(&self) -> u32 {
        match self {
            Self::Event { .. } => TOPICS_FORMAT,
            Self::Signal { .. } | Self::Timeout => 1,
        }
    }
}

impl Outcome {
    fn format(&self) -> u32 {
        topics_format(self.event.is_some() || self.published.is_some())
    }

    pub fn from_output(output: impl Into<Payload>) -> Self {
        Self { output: output.into(), ..Self::default() }
    }

    #[must_use]
    pub fn by(self, handle: impl Into<String>) -> Self {
        Self { handle: Some(handle.into()), ..self }
    }
}

impl Event {
    /// A failed step without output or log lines.
    pub fn failed(step: StepKey, attempt: u32, failure: Failure) -> Self {
        Self::StepFailed { step, attempt, failure, logs: Vec::new(), started_at: None }
    }

    /// A run that completed, without unawaited steps.
    pub fn run_completed(output: Payload) -> Self {
        Self::RunCompleted { output, unawaited: Vec::new() }
    }

    /// A run that failed, without a stack trace and unawaited steps.
    pub fn run_failed(failure: Failure, step: Option<StepKey>) -> Self {
        Self::RunFailed { failure, step, stack: None, unawaited: Vec::new() }
    }

    pub fn kind(&self) -> Kind {
        match self {
            Self::RunStarted { .. } => Kind::RunStarted,
            Self::StepDispatched { .. } => Kind::StepDispatched,
            Self::StepCompleted { .. } => Kind::StepCompleted,
            Self::StepFailed { .. } => Kind::StepFailed,
            Self::StepSkipped { .. } => Kind::StepSkipped,
            Self::TimerSet { .. } => Kind::TimerSet,
            Self::TimerFired { .. } => Kind::TimerFired,
            Self::WaitOpened { .. } => Kind::WaitOpened,
            Self::WaitResolved { .. } => Kind::WaitResolved,
            Self::SignalBuffered { .. } => Kind::SignalBuffered,
            Self::TurnStarted { .. } => Kind::TurnStarted,
            Self::TurnLost { .. } => Kind::TurnLost,
            Self::TransitionApplied(_) => Kind::TransitionApplied,
            Self::VoteCast(_) => Kind::VoteCast,
            Self::Assigned(_) => Kind::Assigned,
            Self::ContextSet { .. } => Kind::ContextSet,
            Self::RunPaused { .. } => Kind::RunPaused,
            Self::RunResumed => Kind::RunResumed,
            Self::RunRetried => Kind::RunRetried,
            Self::RunCompleted { .. } => Kind::RunCompleted,
            Self::RunFailed { .. } => Kind::RunFailed,
            Self::RunCancelled { .. } => Kind::RunCancelled,
        }
    }

    /// The format that introduced this kind of event, or this variant of it. A node decides only runs whose formats it
    /// knows, so that an item carries the highest format of its entries.
    pub fn format(&self) -> u32 {
        match self {
            Self::TransitionApplied(applied) if applied.end.is_some() => DELIVERIES_FORMAT,
            Self::TransitionApplied(_) | Self::VoteCast(_) | Self::Assigned(_) => 2,
            Self::TimerSet { attempt, why, .. } => match why {
                TimerPurpose::After if *attempt > 1 => DELIVERIES_FORMAT,
                TimerPurpose::After => 2,
                TimerPurpose::Sleep | TimerPurpose::Retry | TimerPurpose::Pace => 1,
            },
            Self::RunStarted { cause, .. } => {
                topics_format(cause.as_ref().is_some_and(|cause| cause.trigger.is_some()))
            }
            Self::StepDispatched { dispatch, .. } => dispatch.format(),
            Self::StepCompleted { outcome, .. } => outcome.format(),
            Self::WaitOpened { since, .. } => topics_format(since.is_some()),
            Self::WaitResolved { by, .. } => by.format(),
            Self::StepFailed { .. }
            | Self::StepSkipped { .. }
            | Self::TimerFired { .. }
            | Self::SignalBuffered { .. }
            | Self::TurnStarted { .. }
            | Self::TurnLost { .. }
            | Self::ContextSet { .. }
            | Self::RunPaused { .. }
            | Self::RunResumed
            | Self::RunRetried
            | Self::RunCompleted { .. }
            | Self::RunFailed { .. }
            | Self::RunCancelled { .. } => 1,
        }
    }

    /// The delivery that the event dispatches.
    pub fn delivery(&self) -> Option<&Arc<Delivery>> {
        let Self::StepDispatched { dispatch: Dispatch::Delivery(delivery), .. } = self else { return None };
        Some(delivery)
    }

    /// The step that the event concerns, with its attempt (0 if the event has none).
    pub fn step(&self) -> Option<(&StepKey, u32)> {
        match self {
            Self::StepDispatched { step, attempt, .. }
            | Self::StepCompleted { step, attempt, .. }
            | Self::StepFailed { step, attempt, .. }
            | Self::TimerSet { step, attempt, .. }
            | Self::WaitOpened { step, attempt, .. }
            | Self::WaitResolved { step, attempt, .. }
            | Self::TimerFired { step, attempt } => Some((step, *attempt)),
            Self::StepSkipped { step } => Some((step, 0)),
            Self::RunStarted { .. }
            | Self::SignalBuffered { .. }
            | Self::TurnStarted { .. }
            | Self::TurnLost { .. }
            | Self::TransitionApplied(_)
            | Self::VoteCast(_)
            | Self::Assigned(_)
            | Self::ContextSet { .. }
            | Self::RunPaused { .. }
            | Self::RunResumed
            | Self::RunRetried
            | Self::RunCompleted { .. }
            | Self::RunFailed { .. }
            | Self::RunCancelled { .. } => None,
        }
    }
}

impl Kind {
    /// Whether a run ends with an event of this kind.
    pub fn ends_run(self) -> bool {
        matches!(self, Self::RunCompleted | Self::RunFailed | Self::RunCancelled)
    }
}

macro_rules! kinds {
    ($($name:ident = $number:literal, $word:literal;)*) => {
        /// The kind of an event, with its number in the database. Numbers are never reused.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Kind {
            $($name = $number,)*
        }

        impl Kind {
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            pub fn from_number(number: u8) -> Option<Self> {
                match number {
                    $($number => Some(Self::$name),)*
                    _ => None,
                }
            }

            pub fn number(self) -> u8 {
                self as u8
            }

            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }

            /// The name of the same fact in the graph engines that Everstep replaces.
            pub fn legacy_name(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)*
                }
            }
        }
    };
}

kinds! {
    RunStarted = 1, "INPUT_SET";
    StepDispatched = 2, "NODE_DISPATCHED";
    StepCompleted = 3, "NODE_COMPLETED";
    StepFailed = 4, "NODE_FAILED";
    StepSkipped = 5, "NODE_SKIPPED";
    TimerSet = 6, "TIMER_SET";
    TimerFired = 7, "TIMER_FIRED";
    ContextSet = 8, "SYSTEM_SET";
    WaitOpened = 9, "WAIT_OPENED";
    WaitResolved = 10, "WAIT_RESOLVED";
    SignalBuffered = 11, "SIGNAL_BUFFERED";
    TransitionApplied = 12, "TRANSITION_APPLIED";
    VoteCast = 13, "VOTE_CAST";
    TurnStarted = 14, "TURN_STARTED";
    TurnLost = 15, "TURN_LOST";
    Assigned = 16, "ASSIGNED";
    RunPaused = 20, "RUN_PAUSED";
    RunResumed = 21, "RUN_RESUMED";
    RunRetried = 22, "RUN_RETRIED";
    RunCompleted = 30, "RUN_COMPLETED";
    RunFailed = 31, "RUN_FAILED";
    RunCancelled = 32, "RUN_CANCELLED";
}
