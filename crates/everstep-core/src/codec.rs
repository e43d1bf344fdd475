//! Events as rows: a kind, a step, an attempt, and JSON bytes.
//!
//! Fields are only ever added, with a default that is true of older entries.

use serde::{Deserialize, Serialize};

use crate::event::{Dispatch, Event, Kind, Outcome};
use crate::failure::Failure;
use crate::ids::StepKey;
use crate::payload::Payload;
use crate::time::Timestamp;

/// An event as the store keeps it.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub kind: Kind,
    pub step: Option<StepKey>,
    pub attempt: u32,
    /// JSON; empty where the columns say everything.
    pub payload: Vec<u8>,
}

/// An entry that this build cannot read. Its run is paused, never failed.
#[derive(Debug, thiserror::Error)]
#[error("entry {seq} cannot be read: {reason}")]
pub struct Unreadable {
    pub seq: u64,
    pub reason: String,
}

#[derive(Deserialize)]
struct Failed {
    failure: Failure,
    #[serde(default)]
    logs: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FailedRef<'a> {
    failure: &'a Failure,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    logs: &'a [String],
}

#[derive(Deserialize)]
struct RunFailed {
    failure: Failure,
    step: Option<StepKey>,
}

#[derive(Serialize)]
struct RunFailedRef<'a> {
    failure: &'a Failure,
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<&'a StepKey>,
}

/// Writes an event as a row.
pub fn encode(event: &Event) -> Row {
    let payload = match event {
        Event::RunStarted { input } => input.json().as_bytes().to_vec(),
        Event::StepDispatched { dispatch: Dispatch::Task, .. } => Vec::new(),
        Event::StepDispatched { dispatch, .. } => json(dispatch),
        Event::StepCompleted { outcome, .. } => json(outcome),
        Event::StepFailed { failure, logs, .. } => json(&FailedRef { failure, logs }),
        Event::TimerSet { due, .. } => json(due),
        Event::ContextSet { values } => values.json().as_bytes().to_vec(),
        Event::RunPaused { reason } => json(reason),
        Event::RunCompleted { output } => output.json().as_bytes().to_vec(),
        Event::RunFailed { failure, step } => json(&RunFailedRef { failure, step: step.as_ref() }),
        Event::RunCancelled { reason } => json(reason),
        Event::StepSkipped { .. } | Event::TimerFired { .. } | Event::RunResumed | Event::RunRetried => Vec::new(),
    };
    let (step, attempt) = event.step().map_or((None, 0), |(step, attempt)| (Some(step.clone()), attempt));
    Row { kind: event.kind(), step, attempt, payload }
}

/// Reads a row back. `seq` only serves the error.
pub fn decode(seq: u64, row: Row) -> Result<Event, Unreadable> {
    let Row { kind, step, attempt, payload } = row;
    let unreadable = |reason: String| Unreadable { seq, reason };
    let step = || step.clone().ok_or_else(|| unreadable(format!("{} names no step", kind.name())));
    let bytes = payload.as_slice();
    let event = match kind {
        Kind::RunStarted => Event::RunStarted { input: read(bytes).map_err(unreadable)? },
        Kind::StepDispatched => Event::StepDispatched {
            step: step()?,
            attempt,
            dispatch: if bytes.is_empty() { Dispatch::Task } else { read(bytes).map_err(unreadable)? },
        },
        Kind::StepCompleted => {
            Event::StepCompleted { step: step()?, attempt, outcome: read::<Outcome>(bytes).map_err(unreadable)? }
        }
        Kind::StepFailed => {
            let Failed { failure, logs } = read(bytes).map_err(unreadable)?;
            Event::StepFailed { step: step()?, attempt, failure, logs }
        }
        Kind::StepSkipped => Event::StepSkipped { step: step()? },
        Kind::TimerSet => {
            Event::TimerSet { step: step()?, attempt, due: read::<Timestamp>(bytes).map_err(unreadable)? }
        }
        Kind::TimerFired => Event::TimerFired { step: step()?, attempt },
        Kind::ContextSet => Event::ContextSet { values: read::<Payload>(bytes).map_err(unreadable)? },
        Kind::RunPaused => Event::RunPaused { reason: read(bytes).map_err(unreadable)? },
        Kind::RunResumed => Event::RunResumed,
        Kind::RunRetried => Event::RunRetried,
        Kind::RunCompleted => Event::RunCompleted { output: read(bytes).map_err(unreadable)? },
        Kind::RunFailed => {
            let RunFailed { failure, step } = read(bytes).map_err(unreadable)?;
            Event::RunFailed { failure, step }
        }
        Kind::RunCancelled => Event::RunCancelled { reason: read(bytes).map_err(unreadable)? },
    };
    Ok(event)
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("events are plain data")
}

fn read<T: for<'de> Deserialize<'de>>(bytes: &[u8]) -> Result<T, String> {
    serde_json::from_slice(bytes).map_err(|error| error.to_string())
}
