//! `GET /v1/events/{id}`: one event with its results.

use axum::Json;
use axum::extract::{Path, State};
use everstep_core::ids::{EventId, WorkspaceId};
use everstep_store::EventRow;

use super::wire::{Event, EventDetail, EventResult};
use crate::auth::Caller;
use crate::http::openapi::Parameter;
use crate::http::page::{CURSOR_PARAMETER, Page};
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::server::AppState;

pub(super) const PARAMETERS: &[Parameter] = &[
    CURSOR_PARAMETER,
    Parameter::whole(
        "limit",
        1,
        500,
        "The number of results after which a page ends; 50 by default. A page contains whole slices of the fan-out, so it \
         can have up to 499 results more.",
    ),
];

pub(super) async fn get(
    State(app): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    query: Query,
) -> Result<Json<EventDetail>, Problem> {
    let page = Page::read(&query);
    let row = row(&app, caller.workspace, &id).await?;
    let topics = &app.engine.world().topics;
    let found = topics.event_results(caller.workspace, row.event.id, page.cursor()?, page.limit).await?;
    let results = found.results.into_iter().map(EventResult::from_store).collect();
    let (data, event) = (row.event.data.clone(), Event::from_listed(row.into()));
    Ok(Json(EventDetail { event, data, results, next_cursor: found.next.map(|slice| slice.to_string()) }))
}

/// The row of an event. An event of another workspace does not exist.
pub(super) async fn row(app: &AppState, workspace: WorkspaceId, id: &str) -> Result<EventRow, Problem> {
    let missing = || Problem::not_found(format!("event {id:?} was not found")).hint("events are kept for some days");
    let event: EventId = id.parse().map_err(|_| missing())?;
    app.engine.world().topics.event(workspace, event).await?.ok_or_else(missing)
}
