//! Runs of state machines, as instances.

use axum::Json;
use axum::extract::{Path, State};

use super::super::attempt::AttemptFacts;
use super::super::reader::{self, Reader};
use super::super::transition::{Answer, BODY_BYTES_MAX, perform};
use super::super::{actions, history};
use super::wire::Instance;
use crate::audit::AuditDraft;
use crate::auth::Caller;
use crate::http::body::Body;
use crate::http::headers::IdempotencyKey;
use crate::http::problem::Problem;
use crate::server::AppState;

pub(super) use actions::get as actions;
pub(super) use history::get as history;

/// Performs an action. The idempotency key is required.
pub(super) async fn transition(
    State(app): State<AppState>,
    audit: AuditDraft,
    attempt: AttemptFacts,
    Path(id): Path<String>,
    key: IdempotencyKey,
    body: Body<BODY_BYTES_MAX>,
) -> Answer {
    let key = key.required()?;
    perform(&app, &audit, &attempt, &id, Some(key), body.json()?).await
}

/// An instance, with the actions that the caller can perform now.
pub(super) async fn get(
    State(app): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Instance>, Problem> {
    let reader = Reader::from_caller(&app, &caller).await?;
    let run = reader::load(&app, &caller, &reader, &id).await?;
    let (run, shown) = actions::show_checked(&app, &caller, reader, run).await?;
    Ok(Json(Instance::from_run(run, shown)))
}
