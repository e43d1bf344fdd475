//! `POST /v1/dead-letters/{id}/requeue` and `/discard`.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use everstep_core::dead_letter::DeadLetterStatus;
use everstep_store::{DeadLetterFilter, DeadLetterRow};

use super::read::{find, read_id};
use super::wire::{DeadLetter, DiscardRequest, check_reason};
use crate::auth::Caller;
use crate::http::body::Body;
use crate::http::problem::Problem;
use crate::server::AppState;

/// Queues a dead letter. One that is queued already stays queued.
pub(super) async fn requeue(
    State(app): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<(StatusCode, Json<DeadLetter>), Problem> {
    let id = read_id(&id)?;
    let now = app.engine.world().clock.now();
    let letters = app.engine.dead_letters();
    let queued = letters.store().queue_letters(caller.workspace, &DeadLetterFilter::by_id(id), now, 1).await?;
    let row = find(&app, caller.workspace, id).await?;
    if queued.count == 0 && row.status != DeadLetterStatus::Queued {
        return Err(not_dead(&row, "requeued"));
    }
    letters.wake();
    Ok((StatusCode::ACCEPTED, Json(DeadLetter::from_row(row))))
}

/// Discards a dead letter. One that is discarded already stays as it is.
pub(super) async fn discard(
    State(app): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    body: Body<{ 16 * 1024 }>,
) -> Result<Json<DeadLetter>, Problem> {
    let id = read_id(&id)?;
    let DiscardRequest { reason } = body.json_or_default()?;
    check_reason(reason.as_deref())?;
    let now = app.engine.world().clock.now();
    let store = app.engine.dead_letters().store();
    let filter = DeadLetterFilter::by_id(id);
    let discarded = store.discard_letters(caller.workspace, &filter, reason.as_deref(), now, 1).await?;
    let row = find(&app, caller.workspace, id).await?;
    if discarded.count == 0 && row.status != DeadLetterStatus::Discarded {
        return Err(not_dead(&row, "discarded"));
    }
    Ok(Json(DeadLetter::from_row(row)))
}

fn not_dead(row: &DeadLetterRow, verb: &str) -> Problem {
    let status = row.status.as_str();
    let detail = format!("dead letter {} is {status}; only one that is dead can be {verb}", row.letter.id);
    Problem::new(StatusCode::CONFLICT, "DEAD_LETTER_NOT_DEAD", detail).with("deadLetterStatus", status)
}
