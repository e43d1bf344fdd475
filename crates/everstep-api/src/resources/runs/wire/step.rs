//! The steps of a run in the API.

use everstep_core::ids::{DeadLetterId, StepKey};
use everstep_core::payload::Payload;
use everstep_core::status::StepStatus;
use everstep_core::story::{AttemptStory, StepStory};
use everstep_engine::LogLine;
use schemars::JsonSchema;
use serde::Serialize;

use super::run::Error;
use super::trigger::ResolvingEvent;
use crate::http::schema::{Id, Json, Object};
use crate::http::time::Time;

/// A page of steps, in the order in which they began.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Steps {
    pub(crate) steps: Vec<Step>,
    /// The cursor of the next page; null on the last one.
    pub(crate) next_cursor: Option<String>,
}

/// The history of one step.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Step {
    /// The step's name within the run: `fetch`, or `each[3].fetch` inside an iteration; for code, the name in the
    /// function.
    #[schemars(with = "String")]
    pub(crate) key: StepKey,
    /// The node of the graph; for a step of code, the name again.
    pub(crate) node: String,
    /// The node's type, or the kind of a step of code: `run`, `sleep`, `wait`, `call` or `publish`. Null if the workflow cannot be
    /// read.
    #[serde(rename = "type")]
    pub(crate) kind: Option<String>,
    /// The last entry that changed the step. A fork `at` this entry continues after it.
    pub(crate) seq: u64,
    #[schemars(with = "StepWord")]
    #[serde(serialize_with = "word")]
    pub(crate) status: StepStatus,
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) started_at: Option<Time>,
    pub(crate) ended_at: Option<Time>,
    pub(crate) duration_ms: Option<f64>,
    /// The output of a completed step.
    #[schemars(with = "Json")]
    pub(crate) output: Option<Payload>,
    /// Why its last attempt failed.
    pub(crate) error: Option<Error>,
    /// The handle with which it completed; null for the default handle.
    pub(crate) handle: Option<String>,
    /// The published event that has resolved a wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) event: Option<ResolvingEvent>,
    /// The dead letter of a side effect that failed, with its present status: a requeue does not change the step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) dead_letter: Option<StepDeadLetter>,
}

/// The dead letter of a step.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StepDeadLetter {
    #[schemars(with = "Id")]
    pub(crate) id: DeadLetterId,
    #[schemars(extend("enum" = ["dead", "queued", "delivered", "discarded"]))]
    pub(crate) status: &'static str,
}

impl Step {
    pub(crate) fn from_story(step: StepStory) -> Self {
        // A step that has not ended has no end, although an attempt may have ended.
        let ended_at = step.ended_at.filter(|_| !step.is_open());
        let duration = step.since.zip(ended_at).map(|(since, end)| end.since(since));
        Self {
            key: step.key,
            node: step.node,
            kind: step.kind,
            seq: step.seq,
            status: step.status,
            attempts: step.attempts.into_iter().map(Attempt::from_story).collect(),
            started_at: step.since.map(Time::from_timestamp),
            ended_at: ended_at.map(Time::from_timestamp),
            duration_ms: duration.map(|duration| duration.as_micros() as f64 / 1_000.0),
            output: step.output,
            error: step.error.map(Error::from_failure),
            handle: step.handle,
            event: step.event.map(ResolvingEvent::from_core),
            dead_letter: None,
        }
    }
}

/// One attempt of a step.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Attempt {
    pub(crate) attempt: u32,
    pub(crate) dispatched_at: Option<Time>,
    pub(crate) ended_at: Option<Time>,
    #[schemars(with = "StepWord")]
    #[serde(serialize_with = "word")]
    pub(crate) status: StepStatus,
    pub(crate) error: Option<Error>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) logs: Vec<String>,
}

impl Attempt {
    fn from_story(attempt: AttemptStory) -> Self {
        Self {
            attempt: attempt.attempt,
            dispatched_at: attempt.began_at.map(Time::from_timestamp),
            ended_at: attempt.ended_at.map(Time::from_timestamp),
            status: attempt.status,
            error: attempt.error.map(Error::from_failure),
            logs: attempt.logs,
        }
    }
}

/// The status of a step.
#[derive(JsonSchema)]
#[schemars(inline)]
pub(crate) struct StepWord(
    #[schemars(extend("enum" = ["pending", "running", "waiting", "completed", "failed", "skipped", "cancelled"]))]
    #[expect(dead_code, reason = "it exists only for its schema")]
    String,
);

fn word<S: serde::Serializer>(status: &StepStatus, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(status.as_str())
}

/// A page of log lines.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Logs {
    pub(crate) logs: Vec<Line>,
    /// The cursor of the next page; null on the last one.
    pub(crate) next_cursor: Option<String>,
}

/// A line that a step has written.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Line {
    /// The entry of the journal that contains it.
    pub(crate) seq: u64,
    #[schemars(with = "String")]
    pub(crate) step: StepKey,
    pub(crate) attempt: u32,
    /// When the attempt ended.
    pub(crate) at: Time,
    pub(crate) line: String,
}

impl Line {
    pub(crate) fn from_line(line: LogLine) -> Self {
        Self {
            seq: line.seq,
            step: line.step,
            attempt: line.attempt,
            at: Time::from_timestamp(line.at),
            line: line.line,
        }
    }
}

/// The variables of a run's steps.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Context {
    /// The last entry that is included.
    pub(crate) seq: u64,
    /// Variables by name, including `input`. Of a run of code: `input`, and under `steps` the output of each step.
    #[schemars(with = "Object")]
    pub(crate) context: Payload,
    /// The iterations in progress, each with its own variables.
    pub(crate) scopes: Vec<Scope>,
}

/// One iteration of a loop, or a scope.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Scope {
    /// As in step keys: `each[3]`.
    pub(crate) scope: String,
    #[schemars(with = "Object")]
    pub(crate) context: Payload,
}
