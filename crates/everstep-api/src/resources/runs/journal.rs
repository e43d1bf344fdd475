//! `/v1/runs/{id}/journal`: the entries of a run, in order.

use axum::Json;
use axum::extract::{Path, State};

use super::show;
use super::wire::{Entries, Entry};
use crate::auth::Caller;
use crate::http::openapi::Parameter;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::server::AppState;

const PAGE_SIZE_DEFAULT: u64 = 100;
const PAGE_SIZE_MAX: u64 = 1_000;
/// A page ends when it has this many bytes, whatever its limit: an entry may have a mebibyte.
const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

pub(crate) const PAGE: &[Parameter] = &[
    Parameter::whole("after", 0, i64::MAX as u64, "Entries after this one: `nextAfter` of the previous page."),
    Parameter::whole("limit", 1, PAGE_SIZE_MAX, "The maximum number of results; 100 by default."),
];

pub(crate) async fn get(
    State(app): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    query: Query,
) -> Result<Json<Entries>, Problem> {
    let id = show::read_id(&id)?;
    let after = query.number("after", 0..=i64::MAX as u64)?.unwrap_or(0);
    let limit = query.number("limit", 1..=PAGE_SIZE_MAX)?.unwrap_or(PAGE_SIZE_DEFAULT);
    let limit = usize::try_from(limit).expect("a page is small");
    show::row(&app, caller.workspace, id).await?;
    let page = app.engine.runs().journal(id, after, limit, PAGE_BYTES_MAX).await?;
    let entries = page.entries.into_iter().map(Entry::from_journal).collect();
    Ok(Json(Entries { entries, next_after: page.next_after }))
}
