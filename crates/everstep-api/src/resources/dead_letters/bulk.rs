//! `POST /v1/dead-letters/requeue` and `/discard`: one control for many dead letters.

use axum::Json;
use axum::extract::State;
use everstep_store::{ChangedLetters, DeadLetterFilter};

use super::filter;
use super::wire::{BulkDiscard, BulkRequeue, BulkResult, check_reason};
use crate::auth::Caller;
use crate::http::body::Body;
use crate::http::problem::Problem;
use crate::server::AppState;

/// The dead letters of one call.
const LETTERS_MAX: usize = 10_000;

pub(super) async fn requeue(
    State(app): State<AppState>,
    caller: Caller,
    body: Body<{ 64 * 1024 }>,
) -> Result<Json<BulkResult>, Problem> {
    let BulkRequeue { filter, all, dry_run, cursor } = body.json()?;
    let filter = filter::from_body(filter, all, cursor.as_deref())?;
    if dry_run {
        return count(&app, &caller, &filter).await;
    }
    let now = app.engine.world().clock.now();
    let letters = app.engine.dead_letters();
    let queued = letters.store().queue_letters(caller.workspace, &filter, now, LETTERS_MAX).await?;
    letters.wake();
    answer(&app, &caller, filter, queued).await
}

pub(super) async fn discard(
    State(app): State<AppState>,
    caller: Caller,
    body: Body<{ 64 * 1024 }>,
) -> Result<Json<BulkResult>, Problem> {
    let BulkDiscard { filter, all, dry_run, reason, cursor } = body.json()?;
    check_reason(reason.as_deref())?;
    let filter = filter::from_body(filter, all, cursor.as_deref())?;
    if dry_run {
        return count(&app, &caller, &filter).await;
    }
    let now = app.engine.world().clock.now();
    let store = app.engine.dead_letters().store();
    let reason = reason.as_deref();
    let discarded = store.discard_letters(caller.workspace, &filter, reason, now, LETTERS_MAX).await?;
    answer(&app, &caller, filter, discarded).await
}

/// Counts the dead letters that the call would change.
async fn count(app: &AppState, caller: &Caller, filter: &DeadLetterFilter) -> Result<Json<BulkResult>, Problem> {
    let store = app.engine.dead_letters().store();
    let counted = store.count_letters(caller.workspace, filter, LETTERS_MAX + 1).await?;
    let most = LETTERS_MAX as u64;
    Ok(Json(BulkResult { matched: counted.min(most), has_more: counted > most, next_cursor: None }))
}

async fn answer(
    app: &AppState,
    caller: &Caller,
    filter: DeadLetterFilter,
    ChangedLetters { count, last }: ChangedLetters,
) -> Result<Json<BulkResult>, Problem> {
    let is_full = count == LETTERS_MAX as u64;
    let store = app.engine.dead_letters().store();
    let rest = DeadLetterFilter { after: last, ..filter };
    let has_more = is_full && store.count_letters(caller.workspace, &rest, 1).await? > 0;
    let next_cursor = last.filter(|_| has_more).map(|last| last.to_string());
    Ok(Json(BulkResult { matched: count, has_more, next_cursor }))
}
