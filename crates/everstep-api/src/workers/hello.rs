//! How a worker opens a session: its hello, and the welcome of the server.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::http::StatusCode;
use everstep_core::evaluate::Evaluate;
use everstep_core::ids::{RunId, WorkspaceId};
use everstep_core::schema::Schema;
use everstep_core::search;
use everstep_core::topics::{DeclaredTrigger, TRIGGERS_MAX};
use everstep_core::whole;
use everstep_core::workflow;
use everstep_engine::{self as engine, Engine, Session};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::limits::{REPORTS_MAX, REQUEST_BYTES_MAX};
use crate::http::problem::Problem;
use crate::http::schema::{Id, Object};
use crate::id::is_version;

/// The version of the worker protocol.
const PROTOCOL_VERSION: u32 = 1;
/// Characters of the name of a worker, and of its SDK.
const NAME_CHARS_MAX: usize = 256;
const WORKFLOWS_MAX: usize = 1_000;
/// The maximum number of runs that a worker executes at the same time, and of turns that it may continue in a new
/// session. These may be more than its own capacity, because blocked runs do not count against it.
const CAPACITY_MAX: usize = 10_000;
const RETENTION_DAYS_MAX: u32 = 36_500;
/// Optional parts of the protocol. A worker uses them only if the server names them.
const FEATURES: &[&str] = &["unawaited", "topics"];

/// `POST /v1/worker/sessions`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "WorkerHello")]
pub(crate) struct Hello {
    /// The version of the protocol: 1.
    #[schemars(range(min = 1, max = 1))]
    #[serde(deserialize_with = "whole::number")]
    pub(super) protocol: u32,
    /// A name for people, for example host and process id.
    #[schemars(length(min = 1, max = 256))]
    worker: String,
    /// The SDK and its version: `typescript/0.1.0`.
    #[schemars(length(max = 256))]
    sdk: Option<String>,
    /// The number of runs that the worker executes at the same time.
    #[schemars(range(max = 10_000))]
    #[serde(deserialize_with = "whole::number")]
    capacity: usize,
    /// The workflows that the worker serves.
    #[schemars(length(min = 1, max = 1_000))]
    workflows: Vec<ServedWorkflow>,
    /// Turns from an earlier session that the worker continues.
    #[serde(default)]
    #[schemars(length(max = 10_000))]
    holds: Vec<HeldTurn>,
}

/// A turn that the worker holds.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct HeldTurn {
    #[schemars(with = "Id")]
    run: RunId,
    #[serde(deserialize_with = "whole::number")]
    turn: u32,
}

/// A workflow that a worker serves.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ServedWorkflow {
    #[schemars(regex(pattern = "^[a-z0-9][a-z0-9_-]{0,127}$"))]
    name: String,
    #[serde(deserialize_with = "whole::number")]
    #[schemars(range(min = 1, max = 2_147_483_647))]
    version: u32,
    /// The number of days for which its runs are kept after their end. Default: 30.
    #[schemars(range(min = 1, max = 36_500))]
    #[serde(default, deserialize_with = "whole::optional")]
    retention_days: Option<u32>,
    /// The JSON Schema (2020-12) that the input of every new run fits, at most 64 KiB.
    #[schemars(with = "Option<Object>")]
    input_schema: Option<Value>,
    /// The events that start its runs, while this version is active.
    #[serde(default)]
    #[schemars(length(max = 20))]
    triggers: Vec<EventTrigger>,
    /// Search attributes: paths of the input, such as `order.id`, by which runs of the workflow are found in an index.
    #[serde(default)]
    #[schemars(length(max = 16))]
    index: Vec<String>,
}

/// An event that starts a run, whose input is the data of the event.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "WorkerTrigger")]
struct EventTrigger {
    /// A topic, or a pattern of topics: `*` is one segment, `#` is any number of segments.
    #[schemars(length(min = 1, max = 255))]
    event: String,
    /// An object that the data must contain; `$expr` in it is an expression over `event` and `payload`.
    #[serde(rename = "match")]
    #[schemars(with = "Option<Object>")]
    filter: Option<Value>,
}

impl Hello {
    pub(super) fn check(self, workspace: WorkspaceId, evaluate: &dyn Evaluate) -> Result<engine::Hello, Problem> {
        let Self { protocol, worker, sdk, capacity, workflows, holds } = self;
        if protocol != PROTOCOL_VERSION {
            let detail = format!("protocol: this server supports version {PROTOCOL_VERSION}, not {protocol}");
            return Err(wrong("protocol", detail).hint("use an SDK for this version of the server"));
        }
        check_name("worker", &worker)?;
        if worker.is_empty() {
            return Err(wrong("worker", "worker is empty; give the process a name"));
        }
        if let Some(sdk) = &sdk {
            check_name("sdk", sdk)?;
        }
        check_capacity(capacity)?;
        if workflows.is_empty() {
            return Err(wrong(
                "workflows",
                format!("workflows: a worker serves 1 to {WORKFLOWS_MAX} workflows, not 0"),
            ));
        }
        if workflows.len() > WORKFLOWS_MAX {
            let detail =
                format!("workflows: a worker serves at most {WORKFLOWS_MAX} workflows, not {}", workflows.len());
            let problem = Problem::new(StatusCode::CONFLICT, "QUOTA_REACHED", detail).with("quota", WORKFLOWS_MAX);
            return Err(problem.hint("divide the workflows between several workers"));
        }
        if holds.len() > CAPACITY_MAX {
            return Err(wrong(
                "holds",
                format!("holds: a worker continues at most {CAPACITY_MAX} turns, not {}", holds.len()),
            ));
        }
        let workflows = workflows.into_iter().enumerate().map(|(at, served)| served.check(at, evaluate));
        let workflows = workflows.collect::<Result<Vec<_>, _>>()?;
        let mut before = BTreeSet::new();
        for (at, served) in workflows.iter().enumerate() {
            if !before.insert((&served.name, served.version)) {
                let detail = format!("workflows[{at}]: {} version {} is listed twice", served.name, served.version);
                return Err(wrong(format!("workflows[{at}]"), detail));
            }
        }
        let holds = holds.into_iter().map(|hold| (hold.run, hold.turn)).collect();
        Ok(engine::Hello { workspace, worker, sdk, workflows, capacity, holds })
    }
}

impl ServedWorkflow {
    fn check(self, at: usize, evaluate: &dyn Evaluate) -> Result<engine::ServedWorkflow, Problem> {
        let Self { name, version, retention_days, input_schema, triggers, index } = self;
        if !workflow::is_name(&name) {
            let detail = format!("workflows[{at}].name: {name:?} is not a valid name of a workflow");
            let hint = "a name has 1 to 128 lowercase letters, digits, - and _, and begins with a letter or a digit";
            return Err(wrong(format!("workflows[{at}].name"), detail).hint(hint));
        }
        if !is_version(version) {
            let detail =
                format!("workflows[{at}].version: {version} is not valid; versions are from 1 to {}", i32::MAX);
            return Err(wrong(format!("workflows[{at}].version"), detail));
        }
        if retention_days.is_some_and(|days| !(1..=RETENTION_DAYS_MAX).contains(&days)) {
            let detail = format!("workflows[{at}].retentionDays: runs are kept for 1 to {RETENTION_DAYS_MAX} days");
            return Err(wrong(format!("workflows[{at}].retentionDays"), detail));
        }
        if let Err((place, message)) = search::check_paths(index.iter().map(String::as_str)) {
            let place = place.map(|place| format!("[{place}]")).unwrap_or_default();
            let path = format!("workflows[{at}].index{place}");
            let hint = "index lists up to 16 paths of the input, such as \"customer\" or \"order.id\"";
            return Err(wrong(path.clone(), format!("{path}: {message}")).hint(hint));
        }
        let input_schema = input_schema.map(|schema| check_input_schema(&schema, at)).transpose()?;
        if triggers.len() > TRIGGERS_MAX {
            let detail = format!("workflows[{at}].triggers: a workflow has at most {TRIGGERS_MAX} triggers");
            return Err(wrong(format!("workflows[{at}].triggers"), detail));
        }
        let triggers = triggers.into_iter().enumerate();
        let triggers =
            triggers.map(|(index, trigger)| trigger.check(&format!("workflows[{at}].triggers[{index}]"), evaluate));
        let triggers = triggers.collect::<Result<_, _>>()?;
        Ok(engine::ServedWorkflow { name, version, retention_days, input_schema, triggers, index })
    }
}

impl EventTrigger {
    fn check(self, path: &str, evaluate: &dyn Evaluate) -> Result<DeclaredTrigger, Problem> {
        let Self { event, filter } = self;
        let mut written = json!({"event": event});
        if let Some(filter) = filter {
            written["match"] = filter;
        }
        DeclaredTrigger::from_registration(&written, evaluate).map_err(|fault| {
            let path = format!("{path}{}", fault.pointer);
            wrong(path.clone(), format!("{path}: {}", fault.message))
                .hint("a trigger is {\"event\": \"user.signup\", \"match\": {\"plan\": \"pro\"}}")
        })
    }
}

fn check_input_schema(source: &Value, at: usize) -> Result<Arc<Schema>, Problem> {
    Schema::for_input(source).map(Arc::new).map_err(|faults| {
        let first = faults.into_iter().next().expect("a schema that does not compile has a fault");
        let path = format!("workflows[{at}].inputSchema{}", first.pointer);
        let hint = "inputSchema is a JSON Schema (2020-12); docs/reference/graph.md lists the keywords";
        wrong(path.clone(), format!("{path}: {}", first.message)).hint(hint)
    })
}

pub(super) fn check_capacity(capacity: usize) -> Result<(), Problem> {
    if capacity > CAPACITY_MAX {
        return Err(wrong("capacity", format!("capacity: the limit is {CAPACITY_MAX} runs")));
    }
    Ok(())
}

fn check_name(path: &'static str, text: &str) -> Result<(), Problem> {
    if text.chars().count() > NAME_CHARS_MAX || text.contains('\0') {
        return Err(wrong(path, format!("{path} has more than {NAME_CHARS_MAX} characters, or a NUL")));
    }
    Ok(())
}

/// A problem with the path of the wrong member.
fn wrong(path: impl Into<String>, detail: impl Into<String>) -> Problem {
    Problem::invalid(detail).with("path", path.into())
}

/// A session that was opened.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "WorkerSession")]
pub(crate) struct Welcome {
    /// The id of the session. A request with this id and an API key of the workspace counts as a request of
    /// the worker.
    session: String,
    /// After this many seconds without a request of the worker the session ends, and other workers get its runs.
    lease_seconds: f64,
    /// Bytes of a request or a frame of the worker.
    max_message_bytes: usize,
    /// Reports in a request or a frame.
    max_reports: usize,
    /// Extensions of the first protocol version that this server accepts: `unawaited` is the field of `returned` and
    /// `threw`; `topics` are triggers, the report `publish`, and the field `since` of `wait`.
    features: &'static [&'static str],
}

impl Welcome {
    pub(super) fn to(engine: &Engine, session: &Session) -> Self {
        Self {
            session: session.id.to_string(),
            lease_seconds: engine.worker_lease().as_secs_f64(),
            max_message_bytes: REQUEST_BYTES_MAX,
            max_reports: REPORTS_MAX,
            features: FEATURES,
        }
    }
}
