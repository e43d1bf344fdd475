//! `/v1/workflows`: definitions and their versions.
//!
//! * `routes` has their rows of the table; `list` reads them, `save` writes them, `versions` activates and deletes
//!   them, `portable` exports and imports them.
//! * `check` checks definitions, on threads of their own.

mod check;
mod list;
mod portable;
mod routes;
mod save;
mod versions;
pub(crate) mod wire;

use std::sync::Arc;

use axum::http::{HeaderValue, StatusCode, header};
use everstep_core::graph;
use everstep_core::ids::WorkspaceId;
use everstep_engine::{Error, SaveError, Version};
use everstep_store::Precondition;
use serde_json::{Value, json};

pub(crate) use check::{DefinitionBody, Examined, check_definition};
use list::{PAGE_PARAMETERS, VERSION_PARAMETERS, get, list};
use portable::{IMPORT_PARAMETERS, clone, export, import};
pub(crate) use routes::add;
pub(crate) use save::check;
use save::{ACTIVATE_PARAMETERS, create, put, validate};
use versions::{PAGE_PARAMETERS as VERSIONS_PARAMETERS, activate, delete, list as list_versions};

use crate::http::headers::IfMatch;
use crate::http::problem::Problem;
use crate::server::AppState;
use wire::Workflow;

/// Bytes of a definition.
pub(crate) const DEFINITION_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A version of a workflow, and the active version: the requested one, or the active one.
async fn find(
    app: &AppState,
    workspace: WorkspaceId,
    name: &str,
    version: Option<u32>,
) -> Result<(Workflow, Option<u32>), Problem> {
    let store = &app.workflows;
    let active = store.workflow(workspace, name, None).await?;
    let number = active.as_ref().map(|row| row.version);
    let row = match version {
        Some(version) if Some(version) != number => {
            let is_listed = is_listed(app, workspace, name, version).await?;
            if is_listed { store.workflow(workspace, name, Some(version)).await? } else { None }
        }
        _ => active,
    };
    match row {
        Some(row) => Ok((Workflow::from_row(row, number), number)),
        None => Err(missing(app, workspace, name, version).await),
    }
}

/// A version of a workflow, compiled: the requested one, or the active one.
pub(crate) async fn find_version(
    app: &AppState,
    workspace: WorkspaceId,
    name: &str,
    version: Option<u32>,
) -> Result<Arc<Version>, Problem> {
    if let Some(version) = version
        && !is_listed(app, workspace, name, version).await?
    {
        return Err(missing(app, workspace, name, Some(version)).await);
    }
    match app.engine.library().find(workspace, name, version).await {
        Err(Error::WorkflowNotFound { .. }) => Err(missing(app, workspace, name, version).await),
        found => Ok(found?),
    }
}

/// Whether a version may be shown and started. Versions of a deleted workflow are kept only for its runs.
pub(crate) async fn is_listed(
    app: &AppState,
    workspace: WorkspaceId,
    name: &str,
    version: u32,
) -> Result<bool, Problem> {
    let versions = app.workflows.list_versions(workspace, name, version.checked_add(1), 1).await?;
    Ok(versions.first().is_some_and(|row| row.version == version))
}

/// Why a workflow was not found.
pub(crate) async fn missing(app: &AppState, workspace: WorkspaceId, name: &str, version: Option<u32>) -> Problem {
    let versions = app.workflows.list_versions(workspace, name, None, 1).await;
    let newest = versions.ok().and_then(|versions| versions.first().map(|row| row.version));
    match (newest, version) {
        (Some(newest), Some(version)) => {
            let detail = format!("workflow {name:?} has no version {version}");
            Problem::not_found(detail).hint(format!("its newest version is {newest}"))
        }
        (Some(newest), None) => {
            let hint = format!("activate a version, or request ?version={newest}");
            Problem::not_found(format!("no version of workflow {name:?} is active")).hint(hint)
        }
        (None, _) => Problem::not_found(format!("workflow {name:?} was not found")),
    }
}

/// Why a workflow cannot be started, with the name that the caller may have meant.
pub(crate) async fn missing_to_start(
    app: &AppState,
    workspace: WorkspaceId,
    name: &str,
    version: Option<u32>,
) -> Problem {
    let not_found = |detail: String| Problem::new(StatusCode::NOT_FOUND, "WORKFLOW_NOT_FOUND", detail);
    let versions = app.workflows.list_versions(workspace, name, None, 1).await.unwrap_or_default();
    // A version without a digest was only named by a start.
    let saved = versions.first().filter(|newest| !newest.digest.is_empty()).map(|newest| newest.version);
    match (saved, version) {
        (Some(newest), Some(version)) => {
            let detail = format!("workflow {name:?} has no version {version}");
            not_found(detail).hint(format!("its newest version is {newest}"))
        }
        (Some(newest), None) => {
            let detail = format!("no version of workflow {name:?} is active");
            not_found(detail).hint(format!("activate a version, or start version {newest}"))
        }
        (None, _) => {
            let nearest = app.engine.library().nearest_name(workspace, name).await.ok().flatten();
            let question = nearest.map(|nearest| format!("did you mean {nearest:?}? ")).unwrap_or_default();
            not_found(format!(
                "workflow {name:?} was not found: no worker has registered it, and no definition is saved"
            ))
            .hint(format!(
                "{question}start a worker that serves it, or set allowUnserved to true: then the run waits for a worker"
            ))
        }
    }
}

/// The problem of a definition, with all its errors.
pub(crate) fn refuse(problems: Vec<graph::Problem>) -> Problem {
    let count = problems.len();
    let detail = format!("the definition has {count} {}", if count == 1 { "problem" } else { "problems" });
    let problems = serde_json::to_value(problems).unwrap_or(Value::Null);
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "VALIDATION_ERROR", detail).with("problems", problems)
}

impl From<SaveError> for Problem {
    fn from(error: SaveError) -> Self {
        match error {
            SaveError::Invalid(problems) => refuse(problems),
            SaveError::Engine(error) => error.into(),
        }
    }
}

/// The problem of a request that only a workflow with a definition supports.
fn is_code(name: &str) -> Problem {
    let detail =
        format!("workflow {name:?} is written as code: its function is in its workers, and it has no definition");
    let hint = "a worker registers new versions; choose another name for a graph";
    Problem::new(StatusCode::CONFLICT, "WORKFLOW_STYLE_CONFLICT", detail).hint(hint)
}

/// The active version that `If-Match` requires of a workflow; 0 for none.
fn precondition(expected: IfMatch) -> Result<Precondition, Problem> {
    let version = expected.into_inner().map(u32::try_from).transpose();
    let version = version.map_err(|_| Problem::invalid("the header If-Match is not a version of a workflow"))?;
    Ok(version.map_or(Precondition::Anything, Precondition::Active))
}

/// The header `ETag` of a workflow: its active version.
fn etag(active: Option<u32>) -> (header::HeaderName, HeaderValue) {
    let text = format!("\"{}\"", active.unwrap_or(0));
    (header::ETAG, HeaderValue::from_str(&text).expect("a number is plain text"))
}

fn place(name: &str) -> (header::HeaderName, HeaderValue) {
    let text = format!("/v1/workflows/{name}");
    (header::LOCATION, HeaderValue::from_str(&text).expect("a name is plain text"))
}

/// A definition for examples.
fn example() -> Value {
    json!({
        "nodes": [
            {"id": "start", "type": "start"},
            {"id": "total", "type": "transform", "config": {"value": {"total": "{{ ctx.input.amount }}"}}},
            {"id": "end", "type": "end"},
        ],
        "edges": [{"source": "start", "target": "total"}, {"source": "total", "target": "end"}],
    })
}
