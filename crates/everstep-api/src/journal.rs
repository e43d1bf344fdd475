//! `/v1/runs/{id}/journal`: what happened, in order.

use axum::Json;
use axum::extract::{Path, State};

use crate::auth::Caller;
use crate::openapi::Parameter;
use crate::problem::Problem;
use crate::query::Query;
use crate::runs;
use crate::server::Served;
use crate::wire::{Entries, Entry};

const LIMIT: u64 = 100;
const MOST: u64 = 1_000;
/// A page ends once it holds this many bytes, whatever its limit: an entry may have a mebibyte.
const BYTES: usize = 4 * 1024 * 1024;
/// Entries that are read at once.
const PART: usize = 50;

pub(crate) const PAGE: &[Parameter] = &[
    Parameter::whole("after", 0, i64::MAX as u64, "Entries after this one: `nextAfter` of the page before."),
    Parameter::whole("limit", 1, MOST, "How many at most; 100 if it is left out."),
];

pub(crate) async fn get(
    State(served): State<Served>,
    caller: Caller,
    Path(id): Path<String>,
    query: Query,
) -> Result<Json<Entries>, Problem> {
    let id = runs::read_id(&id)?;
    let mut after = query.number("after", 0..=i64::MAX as u64)?.unwrap_or(0);
    let limit = query.number("limit", 1..=MOST)?.unwrap_or(LIMIT);
    let limit = usize::try_from(limit).expect("a page is small");
    runs::row(&served, caller.workspace, id).await?;
    let (mut entries, mut bytes, mut has_more) = (Vec::new(), 0, true);
    while has_more && entries.len() < limit && bytes < BYTES {
        let wanted = PART.min(limit - entries.len());
        let part = served.engine.world().runs.journal(id, after, wanted).await?;
        has_more = part.len() == wanted;
        after = part.last().map_or(after, |entry| entry.seq);
        bytes += part.iter().map(|entry| entry.row.payload.len()).sum::<usize>();
        entries.extend(part.into_iter().map(Entry::of));
    }
    Ok(Json(Entries { entries, next_after: has_more.then_some(after) }))
}
