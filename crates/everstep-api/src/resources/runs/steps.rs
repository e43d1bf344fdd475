//! `/v1/runs/{id}/steps`: the steps of a run with their attempts and times.

use axum::Json;
use axum::extract::{Path, State};
use everstep_store::RunRow;

use super::cursor::read_seq;
use super::show;
use super::wire::{Step, Steps};
use crate::auth::Caller;
use crate::http::openapi::Parameter;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::server::AppState;

const PAGE_SIZE_DEFAULT: u64 = 100;
const PAGE_SIZE_MAX: u64 = 500;

pub(crate) const PAGE: &[Parameter] = &[
    Parameter::text("cursor", "`nextCursor` of the previous page, unchanged."),
    Parameter::whole("limit", 1, PAGE_SIZE_MAX, "The maximum number of results; 100 by default."),
];

pub(crate) async fn get(
    State(app): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    query: Query,
) -> Result<Json<Steps>, Problem> {
    let row = show::row(&app, caller.workspace, show::read_id(&id)?).await?;
    show(&app, &row, &query).await
}

pub(crate) async fn of_workflow(
    State(app): State<AppState>,
    caller: Caller,
    Path((name, id)): Path<(String, String)>,
    query: Query,
) -> Result<Json<Steps>, Problem> {
    let row = show::row_of(&app, caller.workspace, &name, &id).await?;
    show(&app, &row, &query).await
}

async fn show(app: &AppState, row: &RunRow, query: &Query) -> Result<Json<Steps>, Problem> {
    let after = read_seq(query)?;
    let limit = query.number("limit", 1..=PAGE_SIZE_MAX)?.unwrap_or(PAGE_SIZE_DEFAULT);
    let limit = usize::try_from(limit).expect("a page is small");
    let page = app.engine.runs().story(row, after, limit).await?;
    let next_cursor = page.next_after.map(|seq| seq.to_string());
    Ok(Json(Steps { steps: page.steps.into_iter().map(Step::from_story).collect(), next_cursor }))
}
