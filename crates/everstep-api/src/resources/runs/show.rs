//! `/v1/runs`: lists, and one run.

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, header};
use everstep_core::ids::{RunId, WorkspaceId};
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_core::workflow;
use everstep_engine::{self as engine, LoadedRun, RunSnapshot, StartedRun};
use everstep_store::{RunFilter, RunRow};

use super::filter;
use super::wire::{ForWorker, Run, RunSummary, Runs};
use crate::auth::Caller;
use crate::http::openapi::Parameter;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::server::AppState;

/// What a list of all runs is asked with.
pub(crate) const FILTERS: &[Parameter] = &[
    Parameter::text("workflow", "Runs of this workflow."),
    filter::STATUS,
    filter::VERSION,
    filter::PARENT,
    filter::SINCE,
    filter::UNTIL,
    filter::INPUT,
    filter::TAG_PARAMETER,
    filter::CURSOR,
    PAGE,
];
/// What a list of one workflow's runs is asked with.
pub(crate) const FILTERS_OF_WORKFLOW: &[Parameter] = &[
    filter::STATUS,
    filter::VERSION,
    filter::PARENT,
    filter::SINCE,
    filter::UNTIL,
    filter::INPUT,
    filter::TAG_PARAMETER,
    filter::CURSOR,
    PAGE,
];
pub(crate) const WAIT: &[Parameter] =
    &[Parameter::whole("waitSeconds", 0, 30, "Answer when the run has ended, or after so many seconds.")];
const PAGE: Parameter = Parameter::whole("limit", 1, PAGE_SIZE_MAX, "How many at most; 50 if it is left out.");
const PAGE_SIZE_DEFAULT: u64 = 50;
const PAGE_SIZE_MAX: u64 = 500;

type Shown = Result<([(header::HeaderName, HeaderValue); 1], Json<Run>), Problem>;

/// Runs, newest first. Paging is by keyset: runs created while you page do not shift later pages.
pub(crate) async fn list(State(app): State<AppState>, caller: Caller, query: Query) -> Result<Json<Runs>, Problem> {
    page(&app, caller.workspace, filter::from_query(&query)?, &query).await.map(Json)
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
    // A workflow that was deleted may have runs; a name without any run must be that of a workflow.
    let may_be_unknown = page.runs.is_empty() && page.next_cursor.is_none() && query.is_empty();
    if may_be_unknown && app.workflows.workflow(caller.workspace, &name, None).await?.is_none() {
        return Err(engine::Error::WorkflowNotFound { name, version: None }.into());
    }
    Ok(Json(page))
}

async fn page(app: &AppState, workspace: WorkspaceId, filter: RunFilter, query: &Query) -> Result<Runs, Problem> {
    let after = query.text("cursor").map(read_cursor).transpose()?;
    let limit = query.number("limit", 1..=PAGE_SIZE_MAX)?.unwrap_or(PAGE_SIZE_DEFAULT);
    let limit = usize::try_from(limit).expect("a page is small");
    let page = app.engine.runs().list(workspace, filter, after, limit).await?;
    let runs = page.runs.into_iter().map(RunSummary::from_row).collect();
    Ok(Runs { runs, next_cursor: page.next.map(write_cursor) })
}

/// One run; with `waitSeconds` as soon as it has ended, or when the time is over.
pub(crate) async fn get(State(app): State<AppState>, caller: Caller, Path(id): Path<String>, query: Query) -> Shown {
    let row = row(&app, caller.workspace, read_id(&id)?).await?;
    show_when_ended(&app, row, &query).await
}

/// One run of a workflow.
pub(crate) async fn get_of_workflow(
    State(app): State<AppState>,
    caller: Caller,
    Path((name, id)): Path<(String, String)>,
    query: Query,
) -> Shown {
    let row = row_of(&app, caller.workspace, &name, &id).await?;
    show_when_ended(&app, row, &query).await
}

async fn show_when_ended(app: &AppState, mut row: RunRow, query: &Query) -> Shown {
    let seconds = wait_seconds(query)?;
    if row.ended_at.is_none() && !seconds.is_zero() {
        let ended = app.engine.wait(row.workspace, row.id);
        row = match tokio::time::timeout(seconds, ended).await {
            Ok(Ok(row)) => row,
            // The time is over, or this node stops: the run is shown as it is.
            Ok(Err(_)) | Err(_) => self::row(app, row.workspace, row.id).await?,
        };
    }
    let run = show(app, row).await?;
    let version = HeaderValue::from_str(&format!("\"{}\"", run.version)).expect("a number is plain text");
    Ok(([(header::ETAG, version)], Json(run)))
}

/// How long a caller wants to wait for a run's end.
pub(crate) fn wait_seconds(query: &Query) -> Result<Duration, Problem> {
    Ok(Duration::from_secs(query.number("waitSeconds", 0..=30)?.unwrap_or(0)))
}

/// Reads the id of a run in a path.
pub(crate) fn read_id(id: &str) -> Result<RunId, Problem> {
    id.parse().map_err(|_| Problem::not_found(format!("run {id:?} was not found: it is no run's id")))
}

/// A run's row. Every route that names a run reads it first: a run of another workspace does not exist.
pub(crate) async fn row(app: &AppState, workspace: WorkspaceId, run: RunId) -> Result<RunRow, Problem> {
    Ok(app.engine.runs().row(workspace, run).await?)
}

/// The row of a run of a workflow. A run of another workflow is not found.
pub(crate) async fn row_of(
    app: &AppState,
    workspace: WorkspaceId,
    workflow: &str,
    id: &str,
) -> Result<RunRow, Problem> {
    let row = row(app, workspace, read_id(id)?).await?;
    if row.workflow != workflow {
        return Err(Problem::not_found(format!("run {} is no run of workflow {workflow:?}", row.id)));
    }
    Ok(row)
}

/// A run as its journal describes it, from memory where this node holds it. The row of an open run may be a little
/// behind.
pub(crate) async fn show(app: &AppState, row: RunRow) -> Result<Run, Problem> {
    if row.ended_at.is_some() {
        return Ok(Run::from_row(row));
    }
    if let Some(snapshot) = app.engine.snapshot(row.id).await {
        return Ok(show_snapshot(app, row, snapshot, Where::Here).await);
    }
    Ok(show_loaded(app, &app.engine.runs().load(row.id).await?).await)
}

/// A run that was read from the database. If this build cannot read its journal, its row describes it.
pub(crate) async fn show_loaded(app: &AppState, loaded: &LoadedRun) -> Run {
    let run = Run::from_row(loaded.row.clone());
    let Some((workflow, snapshot)) = loaded.workflow.as_ref().zip(loaded.snapshot()) else { return run };
    let for_worker = for_worker(app, &loaded.row, workflow, &snapshot, Where::Anywhere).await;
    run.with_snapshot(snapshot, for_worker)
}

/// A run as it was when its start was written.
pub(crate) async fn show_begun(app: &AppState, began: StartedRun) -> Run {
    let StartedRun { row, snapshot } = began;
    if row.ended_at.is_some() {
        return Run::from_row(row);
    }
    let place = if row.owner.is_some() { Where::Here } else { Where::Anywhere };
    show_snapshot(app, row, snapshot, place).await
}

async fn show_snapshot(app: &AppState, row: RunRow, snapshot: RunSnapshot, place: Where) -> Run {
    let for_worker = match may_want_worker(app, &row, &snapshot) {
        true => match app.engine.library().of_run(&row).await {
            Ok(workflow) => for_worker(app, &row, &workflow, &snapshot, place).await,
            Err(_) => None,
        },
        false => None,
    };
    Run::from_row(row).with_snapshot(snapshot, for_worker)
}

/// Where a snapshot of a run was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    /// In the memory of this node, which knows whether a worker has the run.
    Here,
    /// In the database, or at another node.
    Anywhere,
}

/// Whether a run needs a worker to continue, provided that its workflow is code: it has no open step, or it is due and
/// no node has claimed it.
fn may_want_worker(app: &AppState, row: &RunRow, snapshot: &RunSnapshot) -> bool {
    let is_left = row.owner.is_none() && row.wake_at <= app.engine.world().clock.now();
    let could_continue = match snapshot.status {
        Status::Pending | Status::Running => snapshot.open.is_empty() || is_left,
        Status::Waiting => is_left,
        Status::Paused | Status::Completed | Status::Failed | Status::Cancelled => false,
    };
    could_continue && snapshot.worker.is_none()
}

/// What a run of a code workflow waits for, if it needs a worker to continue.
async fn for_worker(
    app: &AppState,
    row: &RunRow,
    workflow: &workflow::Workflow,
    snapshot: &RunSnapshot,
    place: Where,
) -> Option<ForWorker> {
    if !workflow.needs_worker() || !may_want_worker(app, row, snapshot) {
        return None;
    }
    let (name, version) = (&*workflow.name, workflow.version);
    let is_served = app.hub.elsewhere.is_served(&app.engine, row.workspace, name, version).await.ok()?;
    match (is_served, place) {
        (false, _) => Some(ForWorker::Unserved),
        (true, Where::Here) => Some(ForWorker::Served),
        (true, Where::Anywhere) => None,
    }
}

/// The seq that a page of a journal begins after.
pub(crate) fn read_seq(query: &Query) -> Result<u64, Problem> {
    let Some(text) = query.text("cursor") else { return Ok(0) };
    let seq = text.parse().ok().filter(|seq| *seq <= i64::MAX as u64);
    seq.ok_or_else(unreadable_cursor)
}

fn unreadable_cursor() -> Problem {
    Problem::invalid("the cursor cannot be read").hint("send nextCursor of the page before as it is")
}

/// Where a page begins, in letters that mean nothing to a client.
pub(crate) fn write_cursor((at, run): (Timestamp, RunId)) -> String {
    format!("{:x}-{}", at.micros(), run.uuid().simple())
}

pub(crate) fn read_cursor(text: &str) -> Result<(Timestamp, RunId), Problem> {
    let parse = || {
        let (at, run) = text.split_once('-')?;
        let at = i64::from_str_radix(at, 16).ok()?;
        Some((Timestamp::from_micros(at), run.parse().ok()?))
    };
    parse().ok_or_else(unreadable_cursor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_back() {
        let place = (Timestamp::from_micros(1_763_251_200_000_001), RunId::new(Timestamp::EPOCH, 7));
        assert_eq!(read_cursor(&write_cursor(place)).unwrap(), place);
        for wrong in ["", "-", "1", "1-2", "x-00000000000000000000000000000001"] {
            assert!(read_cursor(wrong).is_err(), "{wrong}");
        }
    }
}
