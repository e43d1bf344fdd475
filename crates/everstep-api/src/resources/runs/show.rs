//! One run.

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, header};
use everstep_core::ids::{RunId, WorkspaceId};
use everstep_core::status::Status;
use everstep_core::workflow;
use everstep_engine::{AwaitedEnd, LoadedRun, MachineSnapshot, RunSnapshot, StartedRun};
use everstep_store::RunRow;

use super::wire::{ForWorker, Run};
use crate::auth::{Caller, Permission};
use crate::http::openapi::Parameter;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::resources::machines;
use crate::server::AppState;

pub(crate) const WAIT: &[Parameter] = &[Parameter::whole(
    "waitSeconds",
    0,
    30,
    "Respond when the run has ended or is paused, or after this many seconds. While too many requests of the workspace \
     wait, the response is sent earlier.",
)];

type Shown = Result<([(header::HeaderName, HeaderValue); 1], Json<Run>), Problem>;

/// One run; with `waitSeconds` when it has ended or is paused, or after that time.
pub(crate) async fn get(State(app): State<AppState>, caller: Caller, Path(id): Path<String>, query: Query) -> Shown {
    show_when_halted(&app, &caller, None, read_id(&id)?, &query).await
}

/// One run of a workflow.
pub(crate) async fn get_of_workflow(
    State(app): State<AppState>,
    caller: Caller,
    Path((name, id)): Path<(String, String)>,
    query: Query,
) -> Shown {
    show_when_halted(&app, &caller, Some(&name), read_id(&id)?, &query).await
}

async fn show_when_halted(app: &AppState, caller: &Caller, workflow: Option<&str>, id: RunId, query: &Query) -> Shown {
    let workspace = caller.workspace;
    if !caller.may(Permission::View) {
        // A run of another workspace, or of another workflow, does not exist; whether this one does is not disclosed.
        row_of(app, workspace, workflow, id).await?;
        machines::check_reader(app, caller, id).await?;
    }
    let (seconds, place) = app.wait_places.enter(workspace, wait_seconds(query));
    let mut run = None;
    if !seconds.is_zero()
        && let Ok(Ok(halt)) = tokio::time::timeout(seconds, app.engine.wait_for_halt(workspace, workflow, id)).await
    {
        run = Some(show_halted(app, halt).await?);
    }
    drop(place);
    let run = match run {
        Some(run) => run,
        // The time has passed, or this node stops: the present state of the run is returned.
        None => show(app, row_of(app, workspace, workflow, id).await?).await?,
    };
    let version = HeaderValue::from_str(&format!("\"{}\"", run.version)).expect("a number is plain text");
    Ok(([(header::ETAG, version)], Json(run)))
}

/// The time for which a caller waits until a run has ended or is paused.
pub(crate) fn wait_seconds(query: &Query) -> Duration {
    Duration::from_secs(query.number("waitSeconds").unwrap_or(0))
}

/// Reads the id of a run in a path.
pub(crate) fn read_id(id: &str) -> Result<RunId, Problem> {
    id.parse().map_err(|_| Problem::not_found(format!("run {id:?} was not found: this is not the id of a run")))
}

/// A run's row. Every route with a run reads it first: a run of another workspace does not exist.
pub(crate) async fn row(app: &AppState, workspace: WorkspaceId, run: RunId) -> Result<RunRow, Problem> {
    Ok(app.engine.runs().row(workspace, run).await?)
}

/// The row of a run, of a workflow if one is named. A run of another workflow is not found.
pub(crate) async fn row_of(
    app: &AppState,
    workspace: WorkspaceId,
    workflow: Option<&str>,
    run: RunId,
) -> Result<RunRow, Problem> {
    let row = row(app, workspace, run).await?;
    match workflow {
        Some(workflow) if row.workflow != workflow => {
            Err(Problem::not_found(format!("run {run} does not belong to workflow {workflow:?}")))
        }
        _ => Ok(row),
    }
}

/// A run according to its journal, from memory if this node holds it. The row of an open run may be slightly behind.
pub(crate) async fn show(app: &AppState, row: RunRow) -> Result<Run, Problem> {
    if row.ended_at.is_some() {
        if row.machine.is_some() {
            let loaded = app.engine.runs().load(row.id).await?;
            let place = loaded
                .workflow
                .zip(loaded.state)
                .and_then(|(workflow, state)| MachineSnapshot::from_state(&workflow, &state));
            return Ok(Run::from_row(row).with_machine(place));
        }
        let end = app.engine.runs().function_end(&row).await?;
        return Ok(Run::from_row(row).with_end(end));
    }
    if let Some(snapshot) = app.engine.snapshot(row.id).await {
        return Ok(show_snapshot(app, row, snapshot, Where::Here).await);
    }
    if row.seq == 0 {
        return Ok(show_before_begin(app, row).await);
    }
    Ok(show_loaded(app, &app.engine.runs().load(row.id).await?).await)
}

/// A run that has ended or is paused.
pub(crate) async fn show_halted(app: &AppState, end: AwaitedEnd) -> Result<Run, Problem> {
    match end {
        AwaitedEnd::Ended(ended) => Ok(Run::from_row(ended.row).with_end(ended.function).with_machine(ended.machine)),
        AwaitedEnd::Read(row) => show(app, *row).await,
    }
}

/// A run without a journal, which begins later.
async fn show_before_begin(app: &AppState, row: RunRow) -> Run {
    let now = app.engine.world().clock.now();
    let for_worker = match (row.status, app.engine.library().of_run(&row).await) {
        (Status::Pending, Ok(workflow)) if workflow.needs_worker() && row.owner.is_none() && row.wake_at <= now => {
            let elsewhere = &app.hub.elsewhere;
            let is_served = elsewhere.is_served(&app.engine, row.workspace, &workflow.name, workflow.version).await;
            is_served.is_ok_and(|is_so| !is_so).then_some(ForWorker::Unserved)
        }
        _ => None,
    };
    Run::before_begin(row, for_worker, now)
}

/// A run that was read from the database. If this build cannot read its journal, the row is used.
pub(crate) async fn show_loaded(app: &AppState, loaded: &LoadedRun) -> Run {
    let run = Run::from_row(loaded.row.clone());
    let Some((workflow, mut snapshot)) = loaded.workflow.as_ref().zip(loaded.snapshot()) else { return run };
    app.engine.count_look_back(loaded.row.workspace, &mut snapshot).await;
    let for_worker = for_worker(app, &loaded.row, workflow, &snapshot, Where::Anywhere).await;
    run.with_snapshot(snapshot, for_worker)
}

/// A run as it was when its start was written.
pub(crate) async fn show_begun(app: &AppState, began: StartedRun) -> Run {
    let StartedRun { row, snapshot } = began;
    if row.ended_at.is_some() {
        return Run::from_row(row).with_machine(snapshot.machine);
    }
    if row.seq == 0 {
        return show_before_begin(app, row).await;
    }
    let place = if row.owner.is_some() { Where::Here } else { Where::Anywhere };
    show_snapshot(app, row, snapshot, place).await
}

async fn show_snapshot(app: &AppState, row: RunRow, mut snapshot: RunSnapshot, place: Where) -> Run {
    app.engine.count_look_back(row.workspace, &mut snapshot).await;
    let for_worker = match may_want_worker(app, &row, &snapshot) {
        true => match app.engine.library().of_run(&row).await {
            Ok(workflow) => for_worker(app, &row, &workflow, &snapshot, place).await,
            Err(_) => None,
        },
        false => None,
    };
    Run::from_row(row).with_snapshot(snapshot, for_worker)
}

/// The place where a snapshot of a run was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    /// In the memory of this node, which knows whether a worker holds the run.
    Here,
    /// In the database, or on another node.
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

/// Whether a run of a code workflow waits for a worker, and whether a worker serves the workflow.
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
