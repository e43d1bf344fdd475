//! Versions of a workflow: the list, and the one that new runs use.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use everstep_engine::Error;
use everstep_store::{ActivationOutcome, Deletion};

use super::save::unexpected;
use super::wire::{Activate, Version, Versions, Workflow};
use super::{etag, find, missing};
use crate::auth::Caller;
use crate::http::body::Body;
use crate::http::headers::IfMatch;
use crate::http::openapi::Parameter;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::run_deadline::within_store_deadline;
use crate::server::AppState;

pub(crate) const PAGE_PARAMETERS: &[Parameter] = &[
    Parameter::whole("cursor", 1, u32::MAX as u64, "`nextCursor` of the previous page."),
    Parameter::whole("limit", 1, PAGE_SIZE_MAX, "The maximum number of results; 50 by default."),
];
const PAGE_SIZE_DEFAULT: u64 = 50;
const PAGE_SIZE_MAX: u64 = 500;
/// Bytes of an activation.
const ACTIVATION_BYTES_MAX: usize = 16 * 1024;

/// Versions, newest first.
pub(crate) async fn list(
    State(app): State<AppState>,
    caller: Caller,
    Path(name): Path<String>,
    query: Query,
) -> Result<Json<Versions>, Problem> {
    let before = query.number("cursor").and_then(|version| u32::try_from(version).ok());
    let limit = query.number("limit").unwrap_or(PAGE_SIZE_DEFAULT);
    let limit = usize::try_from(limit).expect("a page is small");
    let store = &app.workflows;
    let mut rows = store.list_versions(caller.workspace, &name, before, limit + 1).await?;
    // The first version is the last of the list; a missing workflow has no versions either.
    if rows.is_empty() && (before.is_none() || store.list_versions(caller.workspace, &name, None, 1).await?.is_empty())
    {
        return Err(missing(&app, caller.workspace, &name, None).await);
    }
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    let next_cursor = rows.last().filter(|_| has_more).map(|row| row.version.to_string());
    Ok(Json(Versions { versions: rows.into_iter().map(Version::from_row).collect(), next_cursor }))
}

/// Makes a version the one that new runs use, on every node at once: a start reads it from the database.
pub(crate) async fn activate(
    State(app): State<AppState>,
    caller: Caller,
    Path(name): Path<String>,
    expected: IfMatch,
    body: Body<ACTIVATION_BYTES_MAX>,
) -> Result<([(HeaderName, HeaderValue); 1], Json<Workflow>), Problem> {
    let Activate { version } = body.json()?;
    let (store, precondition) = (&app.workflows, super::precondition(expected)?);
    let choosing = store.choose_version(caller.workspace, &name, Some(version), precondition, None);
    match within_store_deadline(&app, async { choosing.await.map_err(Error::from) }).await? {
        ActivationOutcome::Chosen => {}
        ActivationOutcome::NotFound => return Err(missing(&app, caller.workspace, &name, Some(version)).await),
        ActivationOutcome::Unexpected { active } => return Err(unexpected(&name, precondition, active)),
    }
    let (workflow, active) = find(&app, caller.workspace, &name, Some(version)).await?;
    Ok(([etag(active)], Json(workflow)))
}

/// Deletes a workflow without unfinished runs.
pub(crate) async fn delete(
    State(app): State<AppState>,
    caller: Caller,
    Path(name): Path<String>,
    _: Query,
) -> Result<StatusCode, Problem> {
    let store = &app.workflows;
    let deleting = async { store.delete_workflow(caller.workspace, &name).await.map_err(Error::from) };
    match within_store_deadline(&app, deleting).await? {
        Deletion::Deleted => Ok(StatusCode::NO_CONTENT),
        Deletion::NotFound => Err(Problem::not_found(format!("workflow {name:?} was not found"))),
        Deletion::InUse(runs) => {
            let count = if runs == 1 { "1 run".to_owned() } else { format!("{runs} runs") };
            let detail = format!("workflow {name:?} still has {count} in progress");
            let hint = "wait until its runs have ended, or cancel them, and try again";
            Err(Problem::new(StatusCode::CONFLICT, "WORKFLOW_IN_USE", detail).hint(hint).with("runs", runs))
        }
    }
}
