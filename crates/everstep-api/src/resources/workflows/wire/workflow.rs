//! Workflows in the API.

use std::collections::BTreeMap;

use everstep_core::graph;
use everstep_core::payload::Payload;
use everstep_core::status::Status;
use everstep_core::strict::StrictValue;
use everstep_core::style::StyleName;
use everstep_core::whole;
use everstep_store::{VersionRow, WorkflowRow};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Definition;
use crate::http::schema::Object;
use crate::http::time::Time;

/// One version of a workflow.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Workflow {
    pub(crate) name: String,
    #[schemars(range(min = 1))]
    pub(crate) version: u32,
    /// The version that new runs use; null if none is active.
    #[schemars(range(min = 1))]
    active_version: Option<u32>,
    /// How it is written: `graph`, `machine`, or `code`, whose function is in a worker.
    pub(crate) style: String,
    description: Option<String>,
    /// In canonical form: older names of fields are replaced. Null for code.
    #[schemars(with = "Option<Definition>")]
    pub(crate) definition: Option<Payload>,
    /// The JSON Schema that the input of every new run fits; null if there is none. A state machine has a context schema
    /// in its definition instead.
    #[schemars(with = "Option<Object>")]
    input_schema: Option<Value>,
    /// SHA-256 of the definition.
    digest: String,
    /// The number of days for which runs are kept after their end, unless their start sets it.
    retention_days: u32,
    created_at: Time,
    /// Problems to correct before a run is started, such as a secret that does not exist. Only in responses to a save.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) warnings: Vec<Fault>,
}

impl Workflow {
    pub(crate) fn from_row(row: WorkflowRow, active_version: Option<u32>) -> Self {
        let has_definition = StyleName::parse(&row.style).is_none_or(StyleName::has_definition);
        Self {
            name: row.name,
            version: row.version,
            active_version,
            style: row.style,
            description: row.definition.value()["description"].as_str().map(str::to_owned),
            input_schema: row.definition.value().get("inputSchema").cloned(),
            definition: Some(row.definition).filter(|_| has_definition),
            digest: row.digest,
            retention_days: row.retention_days,
            created_at: Time::from_timestamp(row.created_at),
            warnings: Vec::new(),
        }
    }
}

/// A workflow in lists, with the number of its runs in each status. Counts are at most a second old.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WorkflowSummary {
    name: String,
    style: String,
    /// The version that new runs use; null if none is active.
    #[schemars(range(min = 1))]
    active_version: Option<u32>,
    #[schemars(range(min = 1))]
    latest_version: u32,
    updated_at: Time,
    pending: u64,
    running: u64,
    waiting: u64,
    paused: u64,
    completed: u64,
    failed: u64,
    cancelled: u64,
}

impl WorkflowSummary {
    pub(crate) fn from_row(row: everstep_store::WorkflowSummary, counts: &BTreeMap<Status, u64>) -> Self {
        let count = |status| counts.get(&status).copied().unwrap_or(0);
        Self {
            name: row.name,
            style: row.style,
            active_version: Some(row.active_version).filter(|version| *version > 0),
            latest_version: row.latest_version,
            updated_at: Time::from_timestamp(row.updated_at),
            pending: count(Status::Pending),
            running: count(Status::Running),
            waiting: count(Status::Waiting),
            paused: count(Status::Paused),
            completed: count(Status::Completed),
            failed: count(Status::Failed),
            cancelled: count(Status::Cancelled),
        }
    }
}

/// A page of versions, newest first.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Versions {
    pub(crate) versions: Vec<Version>,
    /// The cursor of the next page; null on the last one.
    pub(crate) next_cursor: Option<String>,
}

/// A version in lists.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Version {
    #[schemars(range(min = 1))]
    version: u32,
    /// Whether new runs use it.
    is_active: bool,
    /// SHA-256 of the definition.
    digest: String,
    retention_days: u32,
    created_at: Time,
}

impl Version {
    pub(crate) fn from_row(row: VersionRow) -> Self {
        Self {
            version: row.version,
            is_active: row.is_active,
            digest: row.digest,
            retention_days: row.retention_days,
            created_at: Time::from_timestamp(row.created_at),
        }
    }
}

/// `POST /v1/workflows`.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "CreateWorkflowRequest")]
pub(crate) struct NewWorkflow {
    #[schemars(regex(pattern = r"^[a-z0-9][a-z0-9_-]{0,127}$"))]
    pub(crate) name: String,
    #[schemars(with = "Definition")]
    pub(crate) definition: StrictValue,
    /// Whether new runs use this version from now on.
    #[serde(default = "yes")]
    pub(crate) activate: bool,
    /// Its purpose; the same as `description` in the definition.
    #[schemars(length(max = 1000))]
    pub(crate) description: Option<String>,
}

/// `POST /v1/workflows/{name}/activate`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Activate {
    #[serde(deserialize_with = "whole::number")]
    #[schemars(range(min = 1, max = 2_147_483_647))]
    pub(crate) version: u32,
}

/// `POST /v1/workflows/{name}/clone`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Clone {
    /// The new workflow's name.
    #[schemars(regex(pattern = r"^[a-z0-9][a-z0-9_-]{0,127}$"))]
    pub(crate) name: String,
    /// The version to clone; the active one by default.
    #[serde(default, deserialize_with = "whole::optional")]
    #[schemars(range(min = 1, max = 2_147_483_647))]
    pub(crate) version: Option<u32>,
    /// Whether runs of the new workflow use this version.
    #[serde(default = "yes")]
    pub(crate) activate: bool,
}

fn yes() -> bool {
    true
}

/// The problems of a definition.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Validation {
    valid: bool,
    /// All problems.
    problems: Vec<Fault>,
    /// Problems to correct before a run is started, such as a secret that does not exist. A definition with warnings
    /// is valid.
    warnings: Vec<Fault>,
}

/// One problem of a definition.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Fault {
    /// A code for programs, if the kind of problem has one: `UNKNOWN_VARIABLE`, `SYNTAX_ERROR`, `UNKNOWN_SECRET`.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
    /// The node that the problem concerns, if it concerns one.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    /// The place in the definition, as a JSON pointer.
    path: String,
    message: String,
    /// The remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

impl Validation {
    pub(crate) fn from_problems(problems: Vec<graph::Problem>) -> Self {
        let problems: Vec<_> = problems.into_iter().map(Fault::from_problem).collect();
        Self { valid: problems.is_empty(), problems, warnings: Vec::new() }
    }

    /// A definition that can be saved.
    pub(crate) fn with_warnings(warnings: Vec<Fault>) -> Self {
        Self { valid: true, problems: Vec::new(), warnings }
    }
}

impl Fault {
    pub(crate) fn from_problem(problem: graph::Problem) -> Self {
        let graph::Problem { code, node, path, message, hint } = problem;
        Self { code, node, path, message, hint }
    }
}

/// A version as a document that any server can import.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Exported {
    /// The document's format.
    everstep: u32,
    /// `workflow`.
    kind: &'static str,
    name: String,
    style: String,
    /// The exported version.
    #[schemars(range(min = 1))]
    version: u32,
    #[schemars(with = "Definition")]
    definition: Payload,
    /// SHA-256 of the definition.
    digest: String,
}

impl Exported {
    pub(crate) const FORMAT: u32 = 1;

    pub(crate) fn from_workflow(workflow: Workflow, definition: Payload) -> Self {
        Self {
            everstep: Self::FORMAT,
            kind: "workflow",
            name: workflow.name,
            style: workflow.style,
            version: workflow.version,
            definition,
            digest: workflow.digest,
        }
    }
}

/// `POST /v1/workflows/import`: an exported document.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, reason = "the other fields of a document are for people")]
pub(crate) struct Portable {
    /// The document's format: 1.
    #[serde(deserialize_with = "whole::number")]
    #[schemars(range(min = 1, max = 1))]
    everstep: u32,
    /// `workflow`.
    #[schemars(extend("enum" = ["workflow"]))]
    kind: String,
    #[schemars(regex(pattern = r"^[a-z0-9][a-z0-9_-]{0,127}$"))]
    pub(crate) name: String,
    /// How it is written.
    style: Option<Style>,
    /// The version in the exporting server; the importing server assigns a new number.
    #[serde(default, deserialize_with = "whole::optional")]
    #[schemars(range(min = 1, max = 2_147_483_647))]
    pub(crate) version: Option<u32>,
    #[schemars(with = "Definition")]
    pub(crate) definition: Value,
    digest: Option<String>,
}

/// How a workflow is written.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "camelCase")]
enum Style {
    Graph,
    Machine,
}
