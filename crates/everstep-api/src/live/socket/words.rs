//! The events that a client is told, with their older names.
//!
//! | entry | `status` of `workflow_node_update` |
//! |---|---|
//! | StepDispatched: a task, an instant, a body | `running` |
//! | StepDispatched: a delay, a wait, a child run; WaitOpened | `waiting` |
//! | StepCompleted, WaitResolved | `success` |
//! | StepFailed, also when it will be tried again | `error` |
//! | StepSkipped | `skipped` |
//!
//! Statuses of runs are in capitals: `RUNNING`, `WAITING`, `PAUSED`, `COMPLETED`, `FAILED`, `CANCELLED`.
//! A node in a loop keeps its id in every iteration; `stepKey` tells them apart.

use everstep_core::ids::{RunId, StepKey};
use everstep_core::journal::{Dispatch, Entry, Event, Resolution};
use everstep_core::payload::Payload;
use serde::Serialize;

use super::packet;
use crate::live::fold::Fold;
use crate::wire::Time;

pub(super) const JOIN: &str = "workflow_run_join";
pub(super) const LEAVE: &str = "workflow_run_leave";
const NODE_UPDATE: &str = "workflow_node_update";
const STATUS_UPDATE: &str = "workflow_status_update";
/// Why a request was refused that did not ask for an answer.
pub(super) const ERROR: &str = "workflow_error";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NodeUpdate<'a> {
    #[serde(rename = "instanceID")]
    instance: RunId,
    #[serde(rename = "nodeID")]
    node: &'a str,
    status: &'static str,
    output: Option<&'a Payload>,
    /// What went wrong, in a sentence.
    error: Option<&'a str>,
    error_code: Option<&'a str>,
    step_key: &'a StepKey,
    attempt: Option<u32>,
    seq: u64,
    at: Time,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StatusUpdate<'a> {
    #[serde(rename = "instanceID")]
    instance: RunId,
    status: String,
    context_data: Payload,
    error: Option<&'a str>,
    error_code: Option<&'a str>,
    seq: u64,
}

/// An entry that is about a step, as it is told.
pub(super) fn node_update(run: RunId, fold: &Fold, entry: &Entry) -> Option<String> {
    let (mut output, mut failure) = (None, None);
    let status = match &entry.event {
        Event::StepDispatched { dispatch, .. } => match dispatch {
            Dispatch::Task | Dispatch::Instant | Dispatch::Body { .. } => "running",
            Dispatch::Delay { .. } | Dispatch::Wait { .. } | Dispatch::Child(_) => "waiting",
        },
        Event::StepCompleted { outcome, .. } => {
            output = Some(&outcome.output);
            "success"
        }
        Event::StepFailed { failure: why, .. } => {
            failure = Some(why);
            "error"
        }
        Event::StepSkipped { .. } => "skipped",
        Event::WaitOpened { .. } => "waiting",
        Event::WaitResolved { by, .. } => {
            output = match by {
                Resolution::Signal { payload, .. } => Some(payload),
                Resolution::Timeout => None,
            };
            "success"
        }
        Event::RunStarted { .. }
        | Event::TimerSet { .. }
        | Event::TimerFired { .. }
        | Event::SignalBuffered { .. }
        | Event::TurnStarted { .. }
        | Event::TurnLost { .. }
        | Event::ContextSet { .. }
        | Event::RunPaused { .. }
        | Event::RunResumed
        | Event::RunRetried
        | Event::RunCompleted { .. }
        | Event::RunFailed { .. }
        | Event::RunCancelled { .. } => return None,
    };
    let (step, attempt) = entry.event.step()?;
    let update = NodeUpdate {
        instance: run,
        // A node's id has no dot; what stands before it are the iterations around it.
        node: fold.name_of(step),
        status,
        output,
        error: failure.map(|failure| &*failure.message),
        error_code: failure.map(|failure| &*failure.code),
        step_key: step,
        attempt: Some(attempt).filter(|attempt| *attempt > 0),
        seq: entry.seq,
        at: Time::of(entry.at),
    };
    Some(packet::event(NODE_UPDATE, &update))
}

/// How a run stands after the entry with this seq.
pub(super) fn status_update(run: RunId, fold: &Fold, seq: u64) -> String {
    let failure = fold.failure();
    let update = StatusUpdate {
        instance: run,
        status: fold.status().as_str().to_uppercase(),
        context_data: fold.context(),
        error: failure.map(|failure| &*failure.message),
        error_code: failure.map(|failure| &*failure.code),
        seq,
    };
    packet::event(STATUS_UPDATE, &update)
}
