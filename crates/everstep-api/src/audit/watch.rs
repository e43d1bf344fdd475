//! Observes every request and its response.

use std::sync::Arc;

use axum::extract::Request;
use axum::response::Response;
use everstep_core::payload::Payload;
use everstep_core::time::Timestamp;
use everstep_store::AuditRow;
use serde_json::{Value, json};

use super::draft::RequestFacts;
use crate::auth::{Access, Caller, Gate, Permission};
use crate::id;
use crate::server::AppState;
use crate::workers;

/// Records requests that succeed and change something. `run` is the rest of the route.
pub(crate) async fn audit_request<F>(app: AppState, request: Request, run: impl FnOnce(Request) -> F) -> Response
where
    F: Future<Output = Response> + Send + 'static,
{
    // The frequent reports of workers are in the journals of their runs.
    if request.method().is_safe() || workers::is_uncounted(request.uri().path()) {
        return run(request).await;
    }
    let (mut parts, body) = request.into_parts();
    let facts = Arc::new(RequestFacts::from_parts(&parts));
    parts.extensions.insert(Arc::clone(&facts));
    let running = run(Request::from_parts(parts, body));
    // A client that disconnects ends its request, but a completed action must have its row.
    match tokio::spawn(answer(app, facts, running)).await {
        Ok(response) => response,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

async fn answer(app: AppState, facts: Arc<RequestFacts>, running: impl Future<Output = Response>) -> Response {
    let response = running.await;
    if facts.is_written() {
        return response;
    }
    // A request that passed no gate was not for a route.
    let gate = response.extensions().get::<Gate>().copied().filter(|_| response.status().is_success());
    let Some(Gate { path, access, is_audited_per_minute, .. }) = gate.filter(|gate| !gate.is_dry) else {
        return response;
    };
    let details = json!({"status": response.status().as_u16()});
    let mut row = facts.row(path, details, app.engine.world().clock.now());
    if is_audited_per_minute {
        share_in_minute(&mut row);
    }
    match access {
        // A caller that may only read has changed nothing, whatever the method.
        Access::Permission(Permission::Read | Permission::View)
        | Access::OrAct(Permission::Read | Permission::View) => {}
        Access::Permission(Permission::Publish | Permission::Admin) => app.audit.write(row).await,
        Access::Permission(Permission::Act | Permission::Manage | Permission::Serve)
        | Access::OrAct(_)
        | Access::Key
        | Access::Public => {
            app.audit.enqueue(row).await;
        }
    }
    response
}

/// Gives a row the time and the id that all rows of its actor and action in the same minute have: a row that exists does
/// not change, so that the first one stays, on any node.
fn share_in_minute(row: &mut AuditRow) {
    const MINUTE_MICROS: i64 = 60_000_000;
    row.at = Timestamp::from_micros(row.at.micros() - row.at.micros().rem_euclid(MINUTE_MICROS));
    row.id = id::derived_id(row.at, &format!("{} {}", row.actor.to_text(), row.action));
}

/// Records an action that has no request of its own.
pub(crate) async fn write_action(app: &AppState, caller: &Caller, action: &str, target: &str, mut details: Value) {
    caller.describe(&mut details);
    let now = app.engine.world().clock.now();
    let row = AuditRow {
        id: id::new_id(now),
        workspace: caller.workspace,
        at: now,
        actor: caller.audit_actor(),
        action: action.to_owned(),
        target: target.to_owned(),
        details: Payload::from(details),
    };
    app.audit.enqueue(row).await;
}
