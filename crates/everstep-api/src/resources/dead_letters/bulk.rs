//! `POST /v1/dead-letters/requeue` and `/discard`: one control for many dead letters.

use axum::Json;
use axum::extract::State;
use everstep_store::DeadLetterFilter;

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
    let BulkRequeue { filter, all, dry_run } = body.json()?;
    let filter = filter::from_body(filter, all)?;
    if dry_run {
        return count(&app, &caller, &filter).await;
    }
    let now = app.engine.world().clock.now();
    let letters = app.engine.dead_letters();
    let matched = letters.store().queue_letters(caller.workspace, &filter, now, LETTERS_MAX).await?;
    letters.wake();
    answer(&app, &caller, &filter, matched).await
}

pub(super) async fn discard(
    State(app): State<AppState>,
    caller: Caller,
    body: Body<{ 64 * 1024 }>,
) -> Result<Json<BulkResult>, Problem> {
    let BulkDiscard { filter, all, dry_run, reason } = body.json()?;
    check_reason(reason.as_deref())?;
    let filter = filter::from_body(filter, all)?;
    if dry_run {
        return count(&app, &caller, &filter).await;
    }
    let now = app.engine.world().clock.now();
    let store = app.engine.dead_letters().store();
    let reason = reason.as_deref();
    let matched = store.discard_letters(caller.workspace, &filter, reason, now, LETTERS_MAX).await?;
    answer(&app, &caller, &filter, matched).await
}

/// Counts the dead letters that the call would change.
async fn count(app: &AppState, caller: &Caller, filter: &DeadLetterFilter) -> Result<Json<BulkResult>, Problem> {
    let store = app.engine.dead_letters().store();
    let counted = store.count_letters(caller.workspace, filter, LETTERS_MAX + 1).await?;
    let most = LETTERS_MAX as u64;
    Ok(Json(BulkResult { matched: counted.min(most), has_more: counted > most }))
}

async fn answer(
    app: &AppState,
    caller: &Caller,
    filter: &DeadLetterFilter,
    matched: u64,
) -> Result<Json<BulkResult>, Problem> {
    let is_full = matched == LETTERS_MAX as u64;
    let store = app.engine.dead_letters().store();
    let has_more = is_full && store.count_letters(caller.workspace, filter, 1).await? > 0;
    Ok(Json(BulkResult { matched, has_more }))
}
