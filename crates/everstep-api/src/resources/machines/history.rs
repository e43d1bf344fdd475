//! `GET /v1/runs/{id}/history`: transitions, votes, assignments and timers, oldest first.

use std::collections::{BTreeMap, BTreeSet};

use axum::Json;
use axum::extract::{Path, State};
use everstep_core::ids::FileId;
use everstep_core::machine::HistoryRow;
use everstep_engine::Error;
use everstep_store::{FileRow, RunRow};

use super::reader::{self, Reader};
use super::wire::{History, HistoryEntry};
use crate::auth::Caller;
use crate::http::openapi::Parameter;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::resources::runs::read_seq;
use crate::server::AppState;

const PAGE_SIZE_DEFAULT: u64 = 100;
const PAGE_SIZE_MAX: u64 = 500;
/// A page ends when its entries have this many bytes, whatever its limit.
const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

pub(crate) const PAGE: &[Parameter] = &[
    Parameter::text("cursor", "`nextCursor` of the previous page, unchanged."),
    Parameter::whole("limit", 1, PAGE_SIZE_MAX, "The maximum number of results; 100 by default."),
];

pub(crate) async fn get(
    State(app): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    query: Query,
) -> Result<Json<History>, Problem> {
    let after = read_seq(&query)?;
    let limit = query.number("limit").unwrap_or(PAGE_SIZE_DEFAULT);
    let limit = usize::try_from(limit).expect("a page is small");
    let reader = Reader::from_caller(&app, &caller).await?;
    let run = reader::load(&app, &caller, &reader, &id).await?;
    let page = app.engine.runs().history(run.row.id, after, limit, PAGE_BYTES_MAX).await?;
    let files = find_files(&app, &run.row, &page.rows).await?;
    let entries = page.rows.into_iter().map(|row| HistoryEntry::from_row(row, &files)).collect();
    Ok(Json(History { entries, next_cursor: page.next_after.map(|seq| seq.to_string()) }))
}

/// The files of a page that still exist, by their ids. Those of a fork are deleted with the run that bound them.
async fn find_files(app: &AppState, run: &RunRow, rows: &[HistoryRow]) -> Result<BTreeMap<FileId, FileRow>, Problem> {
    let ids: BTreeSet<FileId> = rows.iter().flat_map(|row| &row.files).filter_map(|id| id.parse().ok()).collect();
    if ids.is_empty() {
        return Ok(BTreeMap::new());
    }
    let ids: Vec<_> = ids.into_iter().collect();
    let found = app.engine.world().files.list_files(run.workspace, &ids).await?;
    let others: BTreeSet<_> = found.iter().filter_map(|file| file.run).filter(|other| *other != run.id).collect();
    let mut deleted = BTreeSet::new();
    for other in others {
        match app.engine.runs().glance(run.workspace, other).await {
            Ok(_) => {}
            Err(Error::RunNotFound(_)) => _ = deleted.insert(Some(other)),
            Err(error) => return Err(error.into()),
        }
    }
    let kept = found.into_iter().filter(|file| !deleted.contains(&file.run));
    Ok(kept.map(|file| (file.id, file)).collect())
}
