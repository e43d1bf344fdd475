//! `POST /v1/events/{id}/replay`: an event reaches one subscription again.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use everstep_core::topics::TopicEvent;

use super::publish::{commit, new_event, status, wait_seconds};
use super::show;
use super::wire::{PublishedEvent, ReplayRequest};
use crate::auth::Caller;
use crate::http::body::Body;
use crate::http::headers::IdempotencyKey;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::id::keyed_id;
use crate::resources::subscriptions;
use crate::server::AppState;

pub(super) async fn post(
    State(app): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    query: Query,
    key: IdempotencyKey,
    body: Body<{ 16 * 1024 }>,
) -> Result<(StatusCode, Json<PublishedEvent>), Problem> {
    let (wait, _place) = app.wait_places.enter(caller.workspace, wait_seconds(&query));
    let ReplayRequest { subscription } = body.json()?;
    let original = show::row(&app, caller.workspace, &id).await?.event;
    let subscription = subscriptions::find(&app, caller.workspace, &subscription).await?;
    if subscription.paused_at.is_some() {
        let detail = format!("subscription {} is paused and receives no events", subscription.id);
        return Err(Problem::new(StatusCode::CONFLICT, "SUBSCRIPTION_PAUSED", detail).hint("resume it first"));
    }
    if !subscription.pattern.matches(&original.topic) {
        let detail = format!("pattern {:?} does not match topic {:?}", subscription.pattern.as_str(), original.topic);
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "VALIDATION_ERROR", detail));
    }
    let (new_id, at) = new_event(&app);
    let unique = match key.into_inner() {
        Some(key) => {
            let key = format!("{} {} {key}", original.id, subscription.id);
            keyed_id("replay", caller.workspace.uuid(), &key)
        }
        None => new_id.uuid(),
    };
    let event = TopicEvent {
        id: new_id,
        event_id: format!("replay:{unique}"),
        at,
        replay_of: Some((original.id, subscription.id)),
        ..original
    };
    let published = commit(&app, event, wait).await?;
    Ok((status(&published), Json(published)))
}
