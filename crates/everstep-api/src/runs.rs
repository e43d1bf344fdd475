//! `/v1/runs`: lists, and one run.

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, header};
use everstep_core::ids::{RunId, WorkspaceId};
use everstep_core::journal::codec;
use everstep_core::run;
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_core::workflow;
use everstep_engine::{Look, StartedRun};
use everstep_store::{Loaded, RunFilter, RunRow};

use crate::auth::Caller;
use crate::filter;
use crate::openapi::Parameter;
use crate::problem::Problem;
use crate::query::Query;
use crate::server::Served;
use crate::wire::{ForWorker, Run, RunSummary, Runs};

/// What a list of all runs is asked with.
pub(crate) const FILTERS: &[Parameter] = &[
    Parameter::text("workflow", "Runs of this workflow."),
    filter::STATUS,
    filter::VERSION,
    filter::PARENT,
    filter::SINCE,
    filter::UNTIL,
    filter::INPUT,
    filter::TAG,
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
    filter::TAG,
    filter::CURSOR,
    PAGE,
];
pub(crate) const WAIT: &[Parameter] =
    &[Parameter::whole("waitSeconds", 0, 30, "Answer when the run has ended, or after so many seconds.")];
const PAGE: Parameter = Parameter::whole("limit", 1, MOST, "How many at most; 50 if it is left out.");
const LIMIT: u64 = 50;
const MOST: u64 = 500;

type Shown = Result<([(header::HeaderName, HeaderValue); 1], Json<Run>), Problem>;

/// Runs, newest first. What is added meanwhile moves nothing.
pub(crate) async fn list(State(served): State<Served>, caller: Caller, query: Query) -> Result<Json<Runs>, Problem> {
    page(&served, caller.workspace, filter::from_query(&query)?, &query).await.map(Json)
}

/// The runs of one workflow.
pub(crate) async fn list_of_workflow(
    State(served): State<Served>,
    caller: Caller,
    Path(name): Path<String>,
    query: Query,
) -> Result<Json<Runs>, Problem> {
    let filter = RunFilter { workflow: Some(name.clone()), ..filter::from_query(&query)? };
    let page = page(&served, caller.workspace, filter, &query).await?;
    // A workflow that is gone may have runs; one that never was is a mistake.
    if page.runs.is_empty()
        && page.next_cursor.is_none()
        && query.is_empty()
        && served.workflows.workflow(caller.workspace, &name, None).await?.is_none()
    {
        return Err(everstep_engine::Error::WorkflowNotFound { name, version: None }.into());
    }
    Ok(Json(page))
}

async fn page(served: &Served, workspace: WorkspaceId, filter: RunFilter, query: &Query) -> Result<Runs, Problem> {
    let after = query.text("cursor").map(read_cursor).transpose()?;
    let limit = query.number("limit", 1..=MOST)?.unwrap_or(LIMIT);
    let limit = usize::try_from(limit).expect("a page is small");
    let page = served.engine.world().runs.list_runs(workspace, filter, after, limit).await?;
    let runs = page.runs.into_iter().map(RunSummary::of).collect();
    Ok(Runs { runs, next_cursor: page.next.map(write_cursor) })
}

/// One run; with `waitSeconds` as soon as it has ended, or when the time is over.
pub(crate) async fn get(State(served): State<Served>, caller: Caller, Path(id): Path<String>, query: Query) -> Shown {
    let row = row(&served, caller.workspace, read_id(&id)?).await?;
    show_when_ended(&served, row, &query).await
}

/// One run of a workflow.
pub(crate) async fn get_of_workflow(
    State(served): State<Served>,
    caller: Caller,
    Path((name, id)): Path<(String, String)>,
    query: Query,
) -> Shown {
    let row = row_of(&served, caller.workspace, &name, &id).await?;
    show_when_ended(&served, row, &query).await
}

async fn show_when_ended(served: &Served, mut row: RunRow, query: &Query) -> Shown {
    let seconds = wait_seconds(query)?;
    if row.ended_at.is_none() && !seconds.is_zero() {
        let ended = served.engine.wait(row.workspace, row.id);
        row = match tokio::time::timeout(seconds, ended).await {
            Ok(Ok(row)) => row,
            // The time is over, or this node stops: the run is shown as it is.
            Ok(Err(_)) | Err(_) => self::row(served, row.workspace, row.id).await?,
        };
    }
    let run = show(served, row).await?;
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

/// A run's row. Whoever asks for a run asks here first: a run of another workspace does not exist.
pub(crate) async fn row(served: &Served, workspace: WorkspaceId, run: RunId) -> Result<RunRow, Problem> {
    let row = served.engine.world().runs.get_run(workspace, run).await?;
    row.ok_or_else(|| everstep_engine::Error::RunNotFound(run).into())
}

/// The row of a run of a workflow: one of another workflow is not there.
pub(crate) async fn row_of(
    served: &Served,
    workspace: WorkspaceId,
    workflow: &str,
    id: &str,
) -> Result<RunRow, Problem> {
    let row = row(served, workspace, read_id(id)?).await?;
    if row.workflow != workflow {
        return Err(Problem::not_found(format!("run {} is no run of workflow {workflow:?}", row.id)));
    }
    Ok(row)
}

/// A run as its journal tells it: from memory where this node holds it. The row of one that goes on may be a little
/// behind.
pub(crate) async fn show(served: &Served, row: RunRow) -> Result<Run, Problem> {
    if row.ended_at.is_some() {
        return Ok(Run::of(row));
    }
    if let Some(look) = served.engine.look(row.id).await {
        return Ok(show_seen(served, row, look, Where::Here).await);
    }
    let Some(loaded) = served.engine.world().runs.load_run(row.id).await? else {
        return Err(everstep_engine::Error::RunNotFound(row.id).into());
    };
    let workflow = served.engine.library().of_run(&loaded.run).await;
    // What a later build has written is shown as that build has summed it up.
    let state = workflow.ok().and_then(|workflow| fold(&loaded, &workflow).map(|state| (workflow, state)));
    Ok(match state {
        Some((workflow, state)) => {
            let look = Look::of(&state);
            let for_worker = for_worker(served, &loaded.run, &workflow, &look, Where::Anywhere).await;
            Run::of(loaded.run).seen(look, for_worker)
        }
        None => Run::of(loaded.run),
    })
}

/// A run as it was when its start was written.
pub(crate) async fn show_begun(served: &Served, began: StartedRun) -> Run {
    let StartedRun { row, look } = began;
    if row.ended_at.is_some() {
        return Run::of(row);
    }
    let place = if row.owner.is_some() { Where::Here } else { Where::Anywhere };
    show_seen(served, row, look, place).await
}

async fn show_seen(served: &Served, row: RunRow, look: Look, place: Where) -> Run {
    let for_worker = match may_want_worker(served, &row, &look) {
        true => match served.engine.library().of_run(&row).await {
            Ok(workflow) => for_worker(served, &row, &workflow, &look, place).await,
            Err(_) => None,
        },
        false => None,
    };
    Run::of(row).seen(look, for_worker)
}

/// Where a run is that was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    /// In the memory of this node, which knows whether a worker has it.
    Here,
    /// In the database, or at another node.
    Anywhere,
}

/// Whether a run could go on if a worker had it, provided that it is one of code: nothing of it is open, or it is due
/// and nobody has taken it.
fn may_want_worker(served: &Served, row: &RunRow, look: &Look) -> bool {
    let is_left = row.owner.is_none() && row.wake_at <= served.engine.world().clock.now();
    let could_go_on = match look.status {
        Status::Pending | Status::Running => look.open.is_empty() || is_left,
        Status::Waiting => is_left,
        Status::Paused | Status::Completed | Status::Failed | Status::Cancelled => false,
    };
    could_go_on && look.worker.is_none()
}

/// Whether a run of code could go on if a worker had it, and what it waits for then.
pub(crate) async fn for_worker(
    served: &Served,
    row: &RunRow,
    workflow: &workflow::Workflow,
    look: &Look,
    place: Where,
) -> Option<ForWorker> {
    if !workflow.needs_worker() || !may_want_worker(served, row, look) {
        return None;
    }
    let (name, version) = (&*workflow.name, workflow.version);
    let is_served = served.live.elsewhere.is_served(&served.engine, row.workspace, name, version).await.ok()?;
    match (is_served, place) {
        (false, _) => Some(ForWorker::Unserved),
        (true, Where::Here) => Some(ForWorker::Served),
        (true, Where::Anywhere) => None,
    }
}

/// The state that a journal tells; none when this build cannot read all of it.
pub(crate) fn fold(loaded: &Loaded, workflow: &workflow::Workflow) -> Option<run::State> {
    let mut state = match &loaded.snapshot {
        Some(snapshot) if snapshot.format != run::SNAPSHOT_FORMAT => return None,
        Some(snapshot) => run::State::from_snapshot(workflow, &snapshot.state).ok()?,
        None => run::State::new(loaded.run.id, workflow),
    };
    for stored in &loaded.entries {
        let entry = codec::decode(stored.seq, stored.at, stored.row.clone()).ok()?;
        state.apply(workflow, &entry).ok()?;
    }
    loaded.unreadable.is_none().then_some(state)
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
