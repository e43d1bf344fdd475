//! The conversion between entries and rows: a kind, a step, an attempt, and JSON bytes.
//!
//! Fields are only added, with a default that is true for older entries. Data of an entry beside its event, such as its
//! key, is an object on a separate line after the event's JSON. A build that does not know the line cannot confuse it
//! with other data.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Cause, Dispatch, Entry, Event, Kind, Outcome, Resolution, TimerPurpose};
use crate::failure::Failure;
use crate::ids::StepKey;
use crate::payload::Payload;
use crate::time::Timestamp;

/// An entry as the store holds it.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub kind: Kind,
    pub step: Option<StepKey>,
    pub attempt: u32,
    /// JSON; empty if the columns contain everything.
    pub payload: Vec<u8>,
}

/// An entry that this build cannot read. Its run is paused; it never fails because of such an entry.
#[derive(Debug, thiserror::Error)]
#[error("entry {seq} cannot be read: {reason}")]
pub struct DecodeError {
    pub seq: u64,
    pub reason: String,
}

/// Data of an entry beside its event.
#[derive(Default, Serialize, Deserialize)]
struct Extras {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<Arc<str>>,
    /// The cause of the run, beside its input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cause: Option<Cause>,
    /// The workflow of a test run, beside its input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    definition: Option<Payload>,
    /// The steps that a function did not await, beside its output.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unawaited: Vec<StepKey>,
}

impl Extras {
    fn is_empty(&self) -> bool {
        let Self { key, cause, definition, unawaited } = self;
        key.is_none() && cause.is_none() && definition.is_none() && unawaited.is_empty()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Failed {
    failure: Failure,
    #[serde(default)]
    logs: Vec<String>,
    started_at: Option<Timestamp>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FailedRef<'a> {
    failure: &'a Failure,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    logs: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<Timestamp>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Opened {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    event: Option<String>,
    #[serde(rename = "match")]
    pattern: Payload,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    due: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    since: Option<Timestamp>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Buffered {
    event: String,
    payload: Payload,
    until: Timestamp,
}

#[derive(Serialize, Deserialize)]
struct Timer {
    due: Timestamp,
    why: TimerPurpose,
}

#[derive(Serialize, Deserialize)]
struct Turn {
    turn: u32,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    worker: String,
}

#[derive(Deserialize)]
struct RunFailed {
    failure: Failure,
    step: Option<StepKey>,
    stack: Option<Box<str>>,
    #[serde(default)]
    unawaited: Vec<StepKey>,
}

#[derive(Serialize)]
struct RunFailedRef<'a> {
    failure: &'a Failure,
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<&'a StepKey>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stack: Option<&'a str>,
    #[serde(skip_serializing_if = "<[StepKey]>::is_empty")]
    unawaited: &'a [StepKey],
}

/// Writes an entry as a row.
pub fn encode(entry: &Entry) -> Row {
    let event = &entry.event;
    let mut payload = match event {
        Event::RunStarted { input, .. } => input.json().as_bytes().to_vec(),
        Event::StepDispatched { dispatch: Dispatch::Task, .. } => Vec::new(),
        Event::StepDispatched { dispatch, .. } => json(dispatch),
        Event::StepCompleted { outcome, .. } => json(outcome),
        Event::StepFailed { failure, logs, started_at, .. } => {
            json(&FailedRef { failure, logs, started_at: *started_at })
        }
        Event::TimerSet { due, why, .. } => json(&Timer { due: *due, why: *why }),
        Event::ContextSet { values } => values.json().as_bytes().to_vec(),
        Event::WaitOpened { event, pattern, due, since, .. } => {
            json(&Opened { event: event.clone(), pattern: pattern.clone(), due: *due, since: *since })
        }
        Event::WaitResolved { by, .. } => json(by),
        Event::SignalBuffered { event, payload, until } => {
            json(&Buffered { event: event.clone(), payload: payload.clone(), until: *until })
        }
        Event::TurnStarted { turn, worker } => json(&Turn { turn: *turn, worker: worker.clone() }),
        Event::TurnLost { turn } => json(&Turn { turn: *turn, worker: String::new() }),
        Event::TransitionApplied(applied) => json(applied),
        Event::VoteCast(vote) => json(vote),
        Event::Assigned(assigned) => json(assigned),
        Event::RunPaused { reason } => json(reason),
        Event::RunCompleted { output, .. } => output.json().as_bytes().to_vec(),
        Event::RunFailed { failure, step, stack, unawaited } => {
            json(&RunFailedRef { failure, step: step.as_ref(), stack: stack.as_deref(), unawaited })
        }
        Event::RunCancelled { reason } => json(reason),
        Event::StepSkipped { .. } | Event::TimerFired { .. } | Event::RunResumed | Event::RunRetried => Vec::new(),
    };
    let mut extras = Extras { key: entry.key.clone(), ..Extras::default() };
    if let Event::RunStarted { cause, definition, .. } = event {
        (extras.cause, extras.definition) = (cause.clone(), definition.clone());
    }
    if let Event::RunCompleted { unawaited, .. } = event {
        extras.unawaited.clone_from(unawaited);
    }
    if !extras.is_empty() {
        payload.push(b'\n');
        payload.extend(json(&extras));
    }
    let (step, attempt) = event.step().map_or((None, 0), |(step, attempt)| (Some(step.clone()), attempt));
    Row { kind: event.kind(), step, attempt, payload }
}

/// Reads a row back.
pub fn decode(seq: u64, at: Timestamp, row: Row) -> Result<Entry, DecodeError> {
    let (event, extras) = read_event(row).map_err(|reason| DecodeError { seq, reason })?;
    Ok(Entry { seq, at, event, key: extras.key })
}

fn read_event(row: Row) -> Result<(Event, Extras), String> {
    let Row { kind, step, attempt, payload } = row;
    let step = || step.clone().ok_or_else(|| format!("{} has no step", kind.name()));
    let bytes = payload.as_slice();
    Ok(match kind {
        Kind::RunStarted => {
            let (input, mut extras) = read(bytes)?;
            let (cause, definition) = (extras.cause.take(), extras.definition.take());
            (Event::RunStarted { input, cause, definition }, extras)
        }
        Kind::StepDispatched if bytes.is_empty() => {
            (Event::StepDispatched { step: step()?, attempt, dispatch: Dispatch::Task }, Extras::default())
        }
        Kind::StepDispatched => {
            let step = step()?;
            with(read(bytes)?, |dispatch| Event::StepDispatched { step, attempt, dispatch })
        }
        Kind::StepCompleted => {
            let step = step()?;
            with(read(bytes)?, |outcome: Outcome| Event::StepCompleted { step, attempt, outcome })
        }
        Kind::StepFailed => {
            let step = step()?;
            with(read(bytes)?, |Failed { failure, logs, started_at }| Event::StepFailed {
                step,
                attempt,
                failure,
                logs,
                started_at,
            })
        }
        Kind::StepSkipped => (Event::StepSkipped { step: step()? }, read_extras(bytes)?),
        Kind::TimerSet => {
            let step = step()?;
            with(read(bytes)?, |Timer { due, why }| Event::TimerSet { step, attempt, due, why })
        }
        Kind::TimerFired => (Event::TimerFired { step: step()?, attempt }, read_extras(bytes)?),
        Kind::WaitOpened => {
            let step = step()?;
            with(read(bytes)?, |Opened { event, pattern, due, since }| Event::WaitOpened {
                step,
                attempt,
                event,
                pattern,
                due,
                since,
            })
        }
        Kind::WaitResolved => {
            let step = step()?;
            with(read(bytes)?, |by: Resolution| Event::WaitResolved { step, attempt, by })
        }
        Kind::SignalBuffered => {
            with(read(bytes)?, |Buffered { event, payload, until }| Event::SignalBuffered { event, payload, until })
        }
        Kind::TurnStarted => with(read(bytes)?, |Turn { turn, worker }| Event::TurnStarted { turn, worker }),
        Kind::TurnLost => with(read(bytes)?, |Turn { turn, .. }| Event::TurnLost { turn }),
        Kind::TransitionApplied => with(read(bytes)?, Event::TransitionApplied),
        Kind::VoteCast => with(read(bytes)?, Event::VoteCast),
        Kind::Assigned => with(read(bytes)?, Event::Assigned),
        Kind::ContextSet => with(read(bytes)?, |values: Payload| Event::ContextSet { values }),
        Kind::RunPaused => with(read(bytes)?, |reason| Event::RunPaused { reason }),
        Kind::RunResumed => (Event::RunResumed, read_extras(bytes)?),
        Kind::RunRetried => (Event::RunRetried, read_extras(bytes)?),
        Kind::RunCompleted => {
            let (output, mut extras) = read(bytes)?;
            let unawaited = std::mem::take(&mut extras.unawaited);
            (Event::RunCompleted { output, unawaited }, extras)
        }
        Kind::RunFailed => with(read(bytes)?, |RunFailed { failure, step, stack, unawaited }| Event::RunFailed {
            failure,
            step,
            stack,
            unawaited,
        }),
        Kind::RunCancelled => with(read(bytes)?, |reason| Event::RunCancelled { reason }),
    })
}

fn with<T>((value, extras): (T, Extras), event: impl FnOnce(T) -> Event) -> (Event, Extras) {
    (event(value), extras)
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("events are plain data")
}

/// Reads the event's own JSON, and the line after it if there is one.
fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<(T, Extras), String> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = T::deserialize(&mut reader).map_err(|error| error.to_string())?;
    if reader.end().is_ok() {
        return Ok((value, Extras::default()));
    }
    let extras = Extras::deserialize(&mut reader).map_err(|error| error.to_string())?;
    reader.end().map_err(|error| error.to_string())?;
    Ok((value, extras))
}

/// Reads the line of an event that has no JSON of its own.
fn read_extras(bytes: &[u8]) -> Result<Extras, String> {
    if bytes.is_empty() {
        return Ok(Extras::default());
    }
    serde_json::from_slice(bytes).map_err(|error| error.to_string())
}
