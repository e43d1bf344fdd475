//! The Socket.IO events of a run, with the names of the graph engines that Everstep replaces.
//!
//! | update of a step | `status` of `workflow_node_update` |
//! |---|---|
//! | an attempt begins: a task, an instant, a body | `running` |
//! | an attempt begins: a sleep, a wait, a child run | `waiting` |
//! | completed | `success` |
//! | failed, also if it will be retried | `error` |
//! | skipped | `skipped` |
//!
//! Statuses of runs are in capitals: `RUNNING`, `WAITING`, `PAUSED`, `COMPLETED`, `FAILED`, `CANCELLED`. A node in a
//! loop keeps its id in every iteration; `stepKey` distinguishes them.

use everstep_core::ids::{RunId, StepKey};
use everstep_core::payload::Payload;
use everstep_core::status::StepStatus;
use everstep_core::story::{StepChange, StepUpdate};
use everstep_engine::Follower;
use serde::Serialize;

use super::packet;
use crate::http::time::Time;

pub(super) const JOIN: &str = "workflow_run_join";
pub(super) const LEAVE: &str = "workflow_run_leave";
const NODE_UPDATE: &str = "workflow_node_update";
const STATUS_UPDATE: &str = "workflow_status_update";
/// A request without an acknowledgement was rejected.
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
    /// The error, in a sentence.
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

/// The message about an update of a step; none for updates that clients of this protocol do not know.
pub(super) fn node_update(run: RunId, update: &StepUpdate<'_>) -> Option<String> {
    let status = match update.change {
        StepChange::Began if update.status == StepStatus::Waiting => "waiting",
        StepChange::Began => "running",
        StepChange::Completed => "success",
        StepChange::Failed => "error",
        StepChange::Skipped => "skipped",
        StepChange::Retries
        | StepChange::RetryDue
        | StepChange::Paces
        | StepChange::PaceDue
        | StepChange::Cancelled
        | StepChange::Reopened => return None,
    };
    let update = NodeUpdate {
        instance: run,
        node: &update.node,
        status,
        output: update.output.as_deref(),
        error: update.error.map(|failure| &*failure.message),
        error_code: update.error.map(|failure| &*failure.code),
        step_key: &update.step,
        attempt: Some(update.attempt).filter(|attempt| *attempt > 0),
        seq: update.seq,
        at: Time::from_timestamp(update.at),
    };
    Some(packet::event(NODE_UPDATE, &update))
}

/// The message about the run's status after the entry with this seq.
pub(super) fn status_update(run: RunId, follower: &Follower, seq: u64) -> String {
    let failure = follower.failure();
    let update = StatusUpdate {
        instance: run,
        status: follower.status().as_str().to_uppercase(),
        context_data: follower.context(),
        error: failure.map(|failure| &*failure.message),
        error_code: failure.map(|failure| &*failure.code),
        seq,
    };
    packet::event(STATUS_UPDATE, &update)
}
