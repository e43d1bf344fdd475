//! `/v1/runs/{id}/logs`: the log lines of a run's steps, in order.

use axum::Json;
use axum::extract::{Path, State};

use super::cursor::read_seq;
use super::show;
use super::wire::{Line, Logs};
use crate::auth::Caller;
use crate::http::openapi::Parameter;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::server::AppState;

const PAGE_LINES_DEFAULT: u64 = 500;
const PAGE_LINES_MAX: u64 = 5_000;

pub(crate) const PARAMETERS: &[Parameter] = &[
    Parameter::text("step", "Lines of this step."),
    Parameter::text("cursor", "`nextCursor` of the previous page, unchanged."),
    Parameter::whole(
        "limit",
        1,
        PAGE_LINES_MAX,
        "The maximum number of lines, not counting those of the last attempt; 500 by default.",
    ),
];

pub(crate) async fn get(
    State(app): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    query: Query,
) -> Result<Json<Logs>, Problem> {
    let row = show::row(&app, caller.workspace, show::read_id(&id)?).await?;
    let limit = query.number("limit").unwrap_or(PAGE_LINES_DEFAULT);
    let limit = usize::try_from(limit).expect("a page is small");
    let page = app.engine.runs().logs(row.id, read_seq(&query)?, limit, query.text("step")).await?;
    let next_cursor = page.next_after.map(|after| after.to_string());
    Ok(Json(Logs { logs: page.lines.into_iter().map(Line::from_line).collect(), next_cursor }))
}
