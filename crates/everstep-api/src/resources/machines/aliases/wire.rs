//! Instances and definitions in the API.

use everstep_core::definition::Problem;
use everstep_core::ids::RunId;
use everstep_core::payload::Payload;
use everstep_core::status::Status;
use everstep_core::strict::StrictValue;
use everstep_store::{WorkflowRow, WorkflowSummary};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::reader::MachineRun;
use super::super::wire::{Actions, Actor, AvailableAction};
use crate::http::schema::{Id, Json};
use crate::http::time::Time;
use crate::resources::workflows::wire::Definition;

/// A run of a state machine.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Instance {
    #[schemars(with = "Id")]
    id: RunId,
    workflow_code: String,
    workflow_version: u32,
    status: InstanceStatus,
    state: String,
    version_no: u32,
    /// The names of the actions that the caller can perform now.
    available_actions: Vec<String>,
    /// All actions of the state, with the reasons why the caller cannot perform them.
    actions: Vec<AvailableAction>,
    /// The persons to whom the state is assigned.
    assigned: Vec<String>,
    #[schemars(with = "Json")]
    context: Payload,
    /// The person or program that started it.
    started_by: Option<Actor>,
    /// When the state was entered.
    since: Time,
    /// When the next timer of the state is due.
    due: Option<Time>,
    created_at: Time,
    ended_at: Option<Time>,
}

/// The status of an instance. A run that has failed is terminated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
enum InstanceStatus {
    Active,
    Completed,
    Cancelled,
    Terminated,
}

impl InstanceStatus {
    fn from_status(status: Status) -> Self {
        match status {
            Status::Pending | Status::Running | Status::Waiting | Status::Paused => Self::Active,
            Status::Completed => Self::Completed,
            Status::Cancelled => Self::Cancelled,
            Status::Failed => Self::Terminated,
        }
    }
}

impl Instance {
    pub(super) fn from_run(run: MachineRun, shown: Actions) -> Self {
        let MachineRun { row, workflow, state } = run;
        let open = shown.actions.iter().filter(|action| action.open);
        Self {
            id: row.id,
            workflow_code: row.workflow,
            workflow_version: row.version,
            status: InstanceStatus::from_status(state.decided_status()),
            available_actions: open.map(|action| action.action.clone()).collect(),
            state: shown.state,
            version_no: shown.version_no,
            actions: shown.actions,
            assigned: shown.assigned,
            context: state.context(&workflow),
            started_by: state.started_by().cloned().map(Actor::from_core),
            since: shown.since,
            due: shown.due,
            created_at: Time::from_timestamp(row.created_at),
            ended_at: row.ended_at.map(Time::from_timestamp),
        }
    }
}

/// One version of a state machine.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct MachineDefinition {
    /// `name@version`.
    id: String,
    workflow_code: String,
    #[schemars(range(min = 1))]
    version: u32,
    /// Whether new runs use it.
    is_active: bool,
    /// The version that new runs use; null if none is active.
    #[schemars(range(min = 1))]
    active_version: Option<u32>,
    #[schemars(with = "Definition")]
    dsl: Payload,
    /// SHA-256 of the definition.
    digest: String,
    created_at: Time,
}

impl MachineDefinition {
    pub(super) fn from_row(row: WorkflowRow, active_version: Option<u32>) -> Self {
        Self {
            id: format!("{}@{}", row.name, row.version),
            workflow_code: row.name,
            version: row.version,
            is_active: active_version == Some(row.version),
            active_version,
            dsl: row.definition,
            digest: row.digest,
            created_at: Time::from_timestamp(row.created_at),
        }
    }
}

/// A page of state machines, by name.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct DefinitionPage {
    pub(super) definitions: Vec<DefinitionSummary>,
    /// The cursor of the next page; null on the last one.
    pub(super) next_cursor: Option<String>,
}

/// A state machine in lists.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct DefinitionSummary {
    /// `name@version` of the active version; of the newest one if none is active.
    id: String,
    workflow_code: String,
    #[schemars(range(min = 1))]
    version: u32,
    is_active: bool,
    #[schemars(range(min = 1))]
    latest_version: u32,
    updated_at: Time,
}

impl DefinitionSummary {
    pub(super) fn from_row(row: WorkflowSummary) -> Self {
        let is_active = row.active_version > 0;
        let version = if is_active { row.active_version } else { row.latest_version };
        Self {
            id: format!("{}@{version}", row.name),
            workflow_code: row.name,
            version,
            is_active,
            latest_version: row.latest_version,
            updated_at: Time::from_timestamp(row.updated_at),
        }
    }
}

/// `POST /workflow-engine/definitions`.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct CreateDefinitionRequest {
    /// The name of the workflow; the field `workflow` of the DSL by default. Also accepted as `workflow_code`.
    #[serde(alias = "workflow_code")]
    #[schemars(regex(pattern = r"^[a-z0-9][a-z0-9_-]{0,127}$"))]
    pub(super) workflow_code: Option<String>,
    #[schemars(with = "Definition")]
    pub(super) dsl: StrictValue,
    /// Whether new runs use this version from now on; the active version stays by default. Also accepted as
    /// `is_active`.
    #[serde(default, alias = "is_active")]
    pub(super) is_active: bool,
}

/// `PATCH /workflow-engine/definitions/{id}`.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct DefinitionChange {
    /// A changed definition is saved as a new version.
    #[schemars(with = "Option<Definition>")]
    pub(super) dsl: Option<StrictValue>,
    /// True: new runs use the version from now on. False: no version is active, and a start must name one. Also accepted
    /// as `is_active`.
    #[serde(default, alias = "is_active")]
    pub(super) is_active: Option<bool>,
}

/// The problems of a definition.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct DefinitionValidation {
    valid: bool,
    errors: Vec<DefinitionError>,
}

/// One problem of a definition.
#[derive(Debug, Serialize, JsonSchema)]
struct DefinitionError {
    /// The place in the definition, as a JSON pointer.
    path: String,
    message: String,
    /// A word for programs, where the problem has one of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
    /// The remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

impl DefinitionValidation {
    pub(super) fn valid() -> Self {
        Self { valid: true, errors: Vec::new() }
    }

    pub(super) fn from_problems(problems: Vec<Problem>) -> Self {
        let errors = problems.into_iter().map(|problem| {
            let Problem { code, path, message, hint, .. } = problem;
            DefinitionError { path, message, code, hint }
        });
        Self { valid: false, errors: errors.collect() }
    }
}
