//! `/v1/runs`: lists, and one run.

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, header};
use everstep_core::event::FORMAT;
use everstep_core::ids::{RunId, WorkspaceId};
use everstep_core::state;
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_core::{codec, workflow};
use everstep_store::{Loaded, RunFilter, RunRow};

use crate::auth::Caller;
use crate::problem::Problem;
use crate::query::Query;
use crate::server::Served;
use crate::wire::{Run, RunSummary, Runs};

pub(crate) const FILTERS: &[&str] = &["workflow", "status", "since", "until", "cursor", "limit"];
const LIMIT: u64 = 50;
const MOST: u64 = 500;

/// Runs, newest first. What is added meanwhile moves nothing.
pub(crate) async fn list(State(served): State<Served>, caller: Caller, query: Query) -> Result<Json<Runs>, Problem> {
    let filter = RunFilter {
        workflow: query.text("workflow").map(str::to_owned),
        status: query.value("status")?,
        since: query.value("since")?,
        until: query.value("until")?,
    };
    let after = query.text("cursor").map(read_cursor).transpose()?;
    let limit = query.number("limit", 1..=MOST)?.unwrap_or(LIMIT);
    let limit = usize::try_from(limit).expect("a page is small");
    let page = served.engine.world().store.list_runs(caller.workspace, filter, after, limit).await?;
    let runs = page.runs.into_iter().map(RunSummary::of).collect();
    Ok(Json(Runs { runs, next_cursor: page.next.map(write_cursor) }))
}

/// One run; with `waitSeconds` as soon as it has ended, or when the time is over.
pub(crate) async fn get(
    State(served): State<Served>,
    caller: Caller,
    Path(id): Path<String>,
    query: Query,
) -> Result<([(header::HeaderName, HeaderValue); 1], Json<Run>), Problem> {
    let seconds = wait_seconds(&query)?;
    let id = read_id(&id)?;
    let mut row = row(&served, caller.workspace, id).await?;
    if row.ended_at.is_none() && !seconds.is_zero() {
        let ended = served.engine.wait(caller.workspace, id);
        row = match tokio::time::timeout(seconds, ended).await {
            Ok(Ok(row)) => row,
            // The time is over, or this node stops: the run is shown as it is.
            Ok(Err(_)) | Err(_) => self::row(&served, caller.workspace, id).await?,
        };
    }
    let run = show(&served, row).await?;
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
    let row = served.engine.world().store.get_run(workspace, run).await?;
    row.ok_or_else(|| everstep_engine::Error::RunNotFound(run).into())
}

/// A run as its journal tells it. The row of one that goes on may be a little behind.
pub(crate) async fn show(served: &Served, row: RunRow) -> Result<Run, Problem> {
    if row.ended_at.is_some() {
        let status = row.status;
        return Ok(Run::of(row, status));
    }
    let version = served.engine.library().find(row.workspace, &row.workflow, Some(row.version)).await;
    let Some(loaded) = served.engine.world().store.load_run(row.id).await? else {
        return Err(everstep_engine::Error::RunNotFound(row.id).into());
    };
    // What a later build has written is shown as that build has summed it up.
    let folded = version.ok().and_then(|version| fold(&loaded, &version.workflow));
    let status = folded.unwrap_or(loaded.run.status);
    Ok(Run::of(loaded.run, status))
}

/// The status that a journal tells; none when this build cannot read all of it.
fn fold(loaded: &Loaded, workflow: &workflow::Workflow) -> Option<Status> {
    let mut state = match &loaded.snapshot {
        Some(snapshot) if snapshot.format != FORMAT => return None,
        Some(snapshot) => serde_json::from_slice(&snapshot.state).ok()?,
        None => state::State::new(loaded.run.id),
    };
    for stored in &loaded.entries {
        let entry = codec::decode(stored.seq, stored.at, stored.row.clone()).ok()?;
        state.apply(workflow, &entry).ok()?;
    }
    loaded.unreadable.is_none().then(|| state.status())
}

/// Where a page begins, in letters that mean nothing to a client.
fn write_cursor((at, run): (Timestamp, RunId)) -> String {
    format!("{:x}-{}", at.micros(), run.uuid().simple())
}

fn read_cursor(text: &str) -> Result<(Timestamp, RunId), Problem> {
    let parse = || {
        let (at, run) = text.split_once('-')?;
        let at = i64::from_str_radix(at, 16).ok()?;
        Some((Timestamp::from_micros(at), run.parse().ok()?))
    };
    let hint = "send nextCursor of the page before as it is";
    parse().ok_or_else(|| Problem::invalid("the query parameter \"cursor\" cannot be read").hint(hint))
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
