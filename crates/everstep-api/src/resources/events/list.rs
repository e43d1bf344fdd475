//! `GET /v1/events`: events, newest first.

use axum::Json;
use axum::extract::State;
use everstep_core::topics::check_topic;
use everstep_store::{EventQuery, ListedEvent};

use super::wire::{Event, Events};
use crate::auth::Caller;
use crate::http::openapi::Parameter;
use crate::http::page::{CURSOR_PARAMETER, LIMIT_PARAMETER, Page};
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::server::AppState;

pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter::sized("topic", 1, 255, "Events of exactly this topic."),
    Parameter::time("since", "Published at this time or later; a day begins at midnight in UTC."),
    Parameter::time("until", "Published before this time, or this day."),
    CURSOR_PARAMETER,
    LIMIT_PARAMETER,
];

pub(super) async fn list(State(app): State<AppState>, caller: Caller, query: Query) -> Result<Json<Events>, Problem> {
    let page = Page::read(&query);
    let topic = query.text("topic").map(str::to_owned);
    if let Some(topic) = &topic {
        let wrong = |error| Problem::invalid(format!("the query parameter \"topic\" is not valid: {error}"));
        check_topic(topic).map_err(wrong)?;
    }
    let filter = EventQuery {
        topic,
        since: query.time("since")?,
        until: query.time("until")?,
        before: page.cursor()?,
        limit: page.limit + 1,
    };
    let listed = app.engine.world().topics.list_events(caller.workspace, &filter).await?;
    let (listed, next_cursor) = page.cut(listed, |event: &ListedEvent| event.id.to_string());
    Ok(Json(Events { events: listed.into_iter().map(Event::from_listed).collect(), next_cursor }))
}
