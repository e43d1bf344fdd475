//! `POST /v1/subscriptions/{id}/pause` and `/resume`.

use axum::Json;
use axum::extract::{Path, State};
use everstep_core::time::Timestamp;

use super::read::{missing, read_id};
use super::wire::Subscription;
use crate::auth::Caller;
use crate::http::problem::Problem;
use crate::server::AppState;

type Answer = Result<Json<Subscription>, Problem>;

pub(super) async fn pause(State(app): State<AppState>, caller: Caller, Path(id): Path<String>) -> Answer {
    let now = app.engine.world().clock.now();
    set(&app, &caller, &id, Some(now)).await
}

pub(super) async fn resume(State(app): State<AppState>, caller: Caller, Path(id): Path<String>) -> Answer {
    set(&app, &caller, &id, None).await
}

async fn set(app: &AppState, caller: &Caller, id: &str, paused_at: Option<Timestamp>) -> Answer {
    let topics = &app.engine.world().topics;
    let found = topics.pause_subscription(caller.workspace, read_id(id)?, paused_at).await?;
    found.map(|found| Json(Subscription::from_core(found))).ok_or_else(|| missing(id))
}
