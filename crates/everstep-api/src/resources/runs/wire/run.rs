//! Runs in the API.

use everstep_core::failure::Failure;
use everstep_core::ids::{NodeId, RunId, StepKey};
use everstep_core::payload::Payload;
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_engine::{FunctionEnd, MachineSnapshot, RunSnapshot};
use everstep_store::RunRow;
use schemars::JsonSchema;
use serde::Serialize;

use super::Status as AnyStatus;
use super::machine::Machine;
use super::trigger::Trigger;
use super::waiting::{self, ForWorker, Open};
use crate::http::problem::{Document, Problem};
use crate::http::schema::{Id, Json};
use crate::http::time::Time;

/// A run with all its fields.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Run {
    #[schemars(with = "Id")]
    id: RunId,
    workflow: String,
    workflow_version: u32,
    #[schemars(with = "AnyStatus")]
    status: &'static str,
    /// Increases with every change; `If-Match` and `expectedVersion` are compared with it.
    pub(crate) version: u64,
    #[schemars(with = "Json")]
    input: Payload,
    #[schemars(with = "Json")]
    output: Option<Payload>,
    error: Option<Error>,
    #[schemars(with = "Option<Id>")]
    parent: Option<RunId>,
    /// The run that it was forked from.
    #[schemars(with = "Option<Id>")]
    origin: Option<RunId>,
    /// The event that has started it; null if a caller or another run has.
    trigger: Option<Trigger>,
    /// Test runs are neither listed nor counted.
    is_test: bool,
    /// The time, signal, child run or worker that it waits for, as a sentence without its subject, such as `sleeps at
    /// step nap until …`. Null after its end.
    waiting_for: Option<String>,
    /// The place of a run of a state machine; null for other runs.
    machine: Option<Machine>,
    /// Whether no worker serves its workflow.
    #[serde(skip)]
    is_unserved: bool,
    /// The worker that holds the run, if it is code and the node of this response owns it.
    worker: Option<String>,
    /// The steps in progress, at most 100.
    open: Vec<Open>,
    /// Steps that the function had not awaited when it ended: they were still running, or had failed. An `await` may be
    /// missing.
    #[schemars(with = "Vec<String>")]
    unawaited: Vec<StepKey>,
    #[schemars(with = "Json")]
    tags: Payload,
    idempotency_key: Option<String>,
    retention_days: u32,
    /// The node that holds the run in memory; none while it sleeps in the database.
    #[schemars(with = "Option<Id>")]
    owner: Option<NodeId>,
    /// When a run without an owner continues without an input.
    wake_at: Option<Time>,
    /// When a run that has not begun is to begin, also while it is paused; missing if its start named no time.
    #[serde(skip_serializing_if = "Option::is_none")]
    start_at: Option<Time>,
    created_at: Time,
    ended_at: Option<Time>,
}

impl Run {
    /// A run as its row has it.
    pub(crate) fn from_row(row: RunRow) -> Self {
        Self {
            id: row.id,
            workflow: row.workflow,
            workflow_version: row.version,
            status: row.status.as_str(),
            version: row.seq,
            input: row.input,
            output: row.output,
            error: row.error.map(Error::from_failure),
            parent: row.parent,
            origin: row.origin,
            trigger: row.trigger.map(Trigger::from_core),
            is_test: row.is_test,
            waiting_for: None,
            machine: None,
            is_unserved: false,
            worker: None,
            open: Vec::new(),
            unawaited: Vec::new(),
            tags: row.tags,
            idempotency_key: row.key.map(|(_, key)| key),
            retention_days: row.retention_days,
            owner: row.owner,
            wake_at: Time::unless_never(row.wake_at).filter(|_| row.owner.is_none() && row.ended_at.is_none()),
            start_at: None,
            created_at: Time::from_timestamp(row.created_at),
            ended_at: row.ended_at.map(Time::from_timestamp),
        }
    }

    /// The run with the reason why it has not begun.
    pub(crate) fn before_begin(row: RunRow, for_worker: Option<ForWorker>, now: Timestamp) -> Self {
        let waiting_for = match for_worker {
            Some(for_worker) => Some(for_worker.sentence(&row.workflow, row.version)),
            None => waiting::sentence_before_begin(&row, now),
        };
        let start_at = row.start.as_ref().and_then(|start| start.begin_at).map(Time::from_timestamp);
        let is_unserved = for_worker == Some(ForWorker::Unserved);
        Self { waiting_for, is_unserved, start_at, ..Self::from_row(row) }
    }

    /// The warning for the caller that started it, if no worker can continue it.
    pub(crate) fn warning(&self) -> Option<String> {
        self.is_unserved.then(|| waiting::warning(&self.workflow, self.workflow_version))
    }

    /// Adds the steps that the function did not await, and the stack of its error.
    pub(crate) fn with_end(mut self, end: FunctionEnd) -> Self {
        self.unawaited = end.unawaited;
        if let Some(error) = &mut self.error {
            error.stack = end.stack;
        }
        self
    }

    /// The run with its place in its state machine.
    pub(crate) fn with_machine(mut self, place: Option<MachineSnapshot>) -> Self {
        self.machine = place.map(Machine::from_snapshot);
        self
    }

    /// Replaces fields by those of a snapshot, which is newer: the row may be a second older.
    ///
    /// `for_worker` is set if the run of a code workflow waits for a worker.
    pub(crate) fn with_snapshot(mut self, snapshot: RunSnapshot, for_worker: Option<ForWorker>) -> Self {
        self.status = snapshot.status.as_str();
        self.version = snapshot.seq;
        self.is_unserved = for_worker == Some(ForWorker::Unserved);
        self.waiting_for = match for_worker {
            Some(for_worker) => Some(for_worker.sentence(&self.workflow, self.workflow_version)),
            None => waiting::sentence(&snapshot),
        };
        self.worker.clone_from(&snapshot.worker);
        self.open = snapshot.open.into_iter().map(Open::from_snapshot).collect();
        self.with_machine(snapshot.machine)
    }
}

/// A run in lists.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunSummary {
    #[schemars(with = "Id")]
    id: RunId,
    workflow: String,
    workflow_version: u32,
    #[schemars(with = "AnyStatus")]
    status: &'static str,
    /// The state of a run of a machine; null for other runs.
    state: Option<String>,
    /// The number of transitions of a run of a machine, its start included; null for other runs.
    version_no: Option<u32>,
    error: Option<Error>,
    #[schemars(with = "Option<Id>")]
    parent: Option<RunId>,
    /// The run that it was forked from.
    #[schemars(with = "Option<Id>")]
    origin: Option<RunId>,
    /// The event that has started it; null if a caller or another run has.
    trigger: Option<Trigger>,
    #[schemars(with = "Json")]
    tags: Payload,
    created_at: Time,
    ended_at: Option<Time>,
}

impl RunSummary {
    pub(crate) fn from_row(row: everstep_store::RunSummary) -> Self {
        let (state, version_no) = row.machine.map(|place| (place.state, place.version_no)).unzip();
        Self {
            id: row.id,
            workflow: row.workflow,
            workflow_version: row.version,
            status: row.status.as_str(),
            state,
            version_no,
            error: row.error.map(Error::from_failure),
            parent: row.parent,
            origin: row.origin,
            trigger: row.trigger.map(Trigger::from_core),
            tags: row.tags,
            created_at: Time::from_timestamp(row.created_at),
            ended_at: row.ended_at.map(Time::from_timestamp),
        }
    }
}

/// A page of runs.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Runs {
    pub(crate) runs: Vec<RunSummary>,
    /// The cursor of the next page; null on the last one.
    pub(crate) next_cursor: Option<String>,
    /// How many runs were examined for this page. A request examines at most 10,000: a page may have fewer runs than its
    /// limit, or none, although more of them match.
    pub(crate) scanned: usize,
    /// Whether there may be more runs: request the next page.
    pub(crate) more: bool,
}

/// The response to a start.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Started {
    pub(crate) run: Run,
    /// False if a run with that idempotency key existed before.
    pub(crate) created: bool,
    /// A warning, for example that no worker serves the workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) warning: Option<String>,
}

/// The response to many starts, in their order.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct StartedBatch {
    pub(crate) runs: Vec<StartedOne>,
    /// A warning, for example that no worker serves the workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) warning: Option<String>,
}

/// The first event of a wait for many runs.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WaitingRuns {
    /// The number of runs for which the response waits.
    pub(crate) runs: usize,
}

/// A run that a wait cannot read.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct UnreadableRun {
    #[schemars(with = "Id")]
    id: RunId,
    error: Document,
}

impl UnreadableRun {
    pub(crate) fn new(id: RunId, problem: &Problem) -> Self {
        Self { id, error: problem.document() }
    }
}

/// The result of one start of many: a run, or an error.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct StartedOne {
    /// The run's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Id>")]
    id: Option<RunId>,
    /// False if a run with that idempotency key existed before.
    #[serde(skip_serializing_if = "Option::is_none")]
    created: Option<bool>,
    /// The status of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<AnyStatus>")]
    status: Option<&'static str>,
    /// Why it was not started.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Document>,
}

impl StartedOne {
    pub(crate) fn new(run: RunId, created: bool, status: Status) -> Self {
        Self { id: Some(run), created: Some(created), status: Some(status.as_str()), error: None }
    }

    pub(crate) fn from_result(started: Result<Self, Problem>) -> Self {
        started.unwrap_or_else(|problem| Self {
            id: None,
            created: None,
            status: None,
            error: Some(problem.document()),
        })
    }

    pub(crate) fn is_created(&self) -> bool {
        self.created == Some(true)
    }

    pub(crate) fn is_started(&self) -> bool {
        self.error.is_none()
    }
}

/// Why a step or a run failed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Error {
    code: String,
    message: String,
    /// The step at which a run of code failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    step: Option<StepKey>,
    /// The number of attempts of that step.
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<u32>,
    /// The stack trace of the error that a function has thrown. Lists leave it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    stack: Option<Box<str>>,
}

impl Error {
    pub(crate) fn from_failure(failure: Failure) -> Self {
        Self {
            code: failure.code,
            message: failure.message,
            step: failure.step,
            attempts: failure.attempts,
            stack: None,
        }
    }
}
