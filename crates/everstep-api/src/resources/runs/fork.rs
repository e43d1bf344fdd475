//! `/v1/runs/{id}/fork`: a new run that continues from another.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use everstep_core::ids::RunId;
use everstep_engine::ForkError;
use everstep_store::SideWrites;

use super::show;
use super::wire::{Fork, Forked, NotUndone, StartedChild};
use crate::audit::AuditDraft;
use crate::http::body::Body;
use crate::http::headers::IdempotencyKey;
use crate::http::problem::Problem;
use crate::run_deadline::within_store_deadline;
use crate::server::AppState;

pub(crate) async fn post(
    State(app): State<AppState>,
    audit: AuditDraft,
    Path(id): Path<String>,
    key: IdempotencyKey,
    body: Body<{ 16 * 1024 }>,
) -> Result<(StatusCode, [(header::HeaderName, HeaderValue); 1], Json<Forked>), Problem> {
    let Fork { at } = body.json_or_default()?;
    let source = show::read_id(&id)?;
    let key = key.into_inner();
    let workspace = audit.caller().workspace;
    let side = SideWrites::with_audit(audit.row(StatusCode::CREATED));
    let by = Some(audit.caller().actor());
    let forking = app.engine.fork(workspace, source, everstep_engine::Fork { at, key: key.as_deref(), by, side });
    let forked =
        within_store_deadline(&app, async { forking.await.map_err(|error| refuse(source, at, error)) }).await?;
    audit.record(forked.created);
    let run = show::show(&app, show::row(&app, workspace, forked.run).await?).await?;
    let children = forked.children.into_iter().map(|(step, run)| StartedChild { step, run }).collect();
    let not_undone = NotUndone { children, steps: forked.repeated, writes: forked.writes };
    let status = if forked.created { StatusCode::CREATED } else { StatusCode::OK };
    let place = HeaderValue::from_str(&format!("/v1/runs/{}", forked.run)).expect("an id is plain text");
    let answer = Forked { run, created: forked.created, forked_at: forked.at, not_undone };
    Ok((status, [(header::LOCATION, place)], Json(answer)))
}

fn refuse(run: RunId, at: Option<u64>, error: ForkError) -> Problem {
    match error {
        ForkError::Engine(error) => error.into(),
        ForkError::NoEntry { last } => {
            let at = at.unwrap_or(last);
            Problem::invalid(format!("run {run} has no entry {at}")).hint(format!("its last entry is {last}"))
        }
        ForkError::Ended { usable: Some(usable) } => {
            Problem::new(StatusCode::CONFLICT, "RUN_ENDED", format!("run {run} had ended by then and cannot continue"))
                .hint(format!("the last entry at which it can be forked is {usable}"))
        }
        ForkError::Ended { usable: None } => {
            let detail = format!("run {run} began and ended in one item: there is no entry to continue from");
            Problem::new(StatusCode::CONFLICT, "RUN_ENDED", detail).hint("start a new run with the same input")
        }
        ForkError::Unreadable { seq } => {
            let detail = format!("entry {seq} of run {run} was written by a newer release");
            Problem::unavailable(detail).hint("send the request to a node of that release")
        }
    }
}
