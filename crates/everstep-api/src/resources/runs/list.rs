//! Lists of runs, newest first.

use axum::Json;
use axum::extract::{Path, State};
use everstep_core::ids::WorkspaceId;
use everstep_engine as engine;
use everstep_store::RunFilter;

use super::cursor::{read_cursor, write_cursor};
use super::filter;
use super::wire::{RunSummary, Runs};
use crate::auth::Caller;
use crate::http::openapi::Parameter;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::server::AppState;

/// The query parameters of the list of all runs.
pub(crate) const FILTERS: &[Parameter] = &[
    Parameter::text("workflow", "Runs of this workflow."),
    filter::STATUS,
    filter::VERSION,
    filter::STATE,
    filter::PARENT,
    filter::ORIGIN,
    filter::KEY,
    filter::ERROR_CODE,
    filter::TRIGGER,
    filter::TEXT,
    filter::SINCE,
    filter::UNTIL,
    filter::INPUT,
    filter::TAG_PARAMETER,
    filter::CURSOR,
    PAGE,
];
/// The query parameters of the list of a workflow's runs.
pub(crate) const FILTERS_OF_WORKFLOW: &[Parameter] = &[
    filter::STATUS,
    filter::VERSION,
    filter::STATE,
    filter::PARENT,
    filter::ORIGIN,
    filter::ERROR_CODE,
    filter::TRIGGER,
    filter::SINCE,
    filter::UNTIL,
    filter::INPUT,
    filter::TAG_PARAMETER,
    filter::CURSOR,
    PAGE,
];
const PAGE: Parameter = Parameter::whole("limit", 1, PAGE_SIZE_MAX, "The maximum number of results; 50 by default.");
const PAGE_SIZE_DEFAULT: u64 = 50;
const PAGE_SIZE_MAX: u64 = 500;

/// Runs, newest first. Paging is by keyset: runs created while you page do not shift later pages.
pub(crate) async fn list(State(app): State<AppState>, caller: Caller, query: Query) -> Result<Json<Runs>, Problem> {
    let filter = filter::from_query(&query)?;
    let filter = filter::with_text(&app, caller.workspace, filter, query.text("text")).await?;
    page(&app, caller.workspace, filter, &query).await.map(Json)
}

/// The runs of one workflow.
pub(crate) async fn list_of_workflow(
    State(app): State<AppState>,
    caller: Caller,
    Path(name): Path<String>,
    query: Query,
) -> Result<Json<Runs>, Problem> {
    let filter = RunFilter { workflow: Some(name.clone()), ..filter::from_query(&query)? };
    let page = page(&app, caller.workspace, filter, &query).await?;
    // A deleted workflow may have runs; a name without any run must be that of a workflow.
    let may_be_unknown = page.runs.is_empty() && page.next_cursor.is_none() && query.is_empty();
    if may_be_unknown && app.workflows.workflow(caller.workspace, &name, None).await?.is_none() {
        return Err(engine::Error::WorkflowNotFound { name, version: None }.into());
    }
    Ok(Json(page))
}

async fn page(app: &AppState, workspace: WorkspaceId, filter: RunFilter, query: &Query) -> Result<Runs, Problem> {
    let after = query.text("cursor").map(read_cursor).transpose()?;
    let limit = query.number("limit").unwrap_or(PAGE_SIZE_DEFAULT);
    let limit = usize::try_from(limit).expect("a page is small");
    let page = app.engine.runs().list(workspace, filter, after, limit).await?;
    let runs = page.runs.into_iter().map(RunSummary::from_row).collect();
    Ok(Runs { runs, scanned: page.scanned, more: page.next.is_some(), next_cursor: page.next.map(write_cursor) })
}
