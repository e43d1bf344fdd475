//! Sees every request and its answer.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method};
use axum::middleware::Next;
use axum::response::Response;
use everstep_core::payload::Payload;
use everstep_core::time::Timestamp;
use everstep_store::AuditRow;
use serde_json::{Value, json};

use crate::auth::{Access, Caller, Gate, Permission};
use crate::id;
use crate::server::AppState;
use crate::workers;

/// Characters of a field that a client determines.
const FIELD_CHARS_MAX: usize = 1_024;

/// Writes down what succeeds and is more than a look.
pub(crate) async fn audit_request(State(app): State<AppState>, request: Request, next: Next) -> Response {
    // What workers say all the time is in the journals of their runs.
    if request.method().is_safe() || workers::is_uncounted(request.uri().path()) {
        return next.run(request).await;
    }
    // A client that goes away ends its request, but what was done must not go without its row.
    match tokio::spawn(answer(app, request, next)).await {
        Ok(response) => response,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

async fn answer(app: AppState, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let (method, target) = (parts.method.clone(), shorten(&workers::redact(parts.uri.path())));
    let (key, id) = (text(&parts.headers, "idempotency-key"), text(&parts.headers, "x-request-id"));
    let caller = parts.extensions.get::<Caller>().cloned().expect("a guarded route has a caller");
    let response = next.run(Request::from_parts(parts, body)).await;
    // What passed no gate was no route.
    let gate = response.extensions().get::<Gate>().copied().filter(|_| response.status().is_success());
    let Some(Gate { path, access, .. }) = gate else { return response };
    let mut details = json!({"status": response.status().as_u16(), "keyName": &*caller.name});
    if let Some(key) = key {
        details["idempotencyKey"] = key.into();
    }
    if let Some(id) = id {
        details["requestId"] = id.into();
    }
    let row = row(&caller, &method, path, target, Payload::from(details), app.engine.world().clock.now());
    match access {
        // Whoever may look alone has changed nothing, whatever the method.
        Access::Permission(Permission::Read | Permission::View) => {}
        Access::Permission(Permission::Publish | Permission::Admin) => app.audit.write(row).await,
        Access::Permission(Permission::Manage | Permission::Serve) | Access::Key | Access::Public => {
            app.audit.enqueue(row).await;
        }
    }
    response
}

/// Writes down what was done otherwise than by a request of its own.
pub(crate) async fn write_action(app: &AppState, caller: &Caller, action: &str, target: &str, mut details: Value) {
    details["keyName"] = (*caller.name).into();
    let now = app.engine.world().clock.now();
    let row = AuditRow {
        id: id::new_id(now),
        workspace: caller.workspace,
        at: now,
        actor: format!("key:{}", caller.key),
        action: action.to_owned(),
        target: target.to_owned(),
        details: Payload::from(details),
    };
    app.audit.enqueue(row).await;
}

fn row(caller: &Caller, method: &Method, path: &str, target: String, details: Payload, now: Timestamp) -> AuditRow {
    AuditRow {
        id: id::new_id(now),
        workspace: caller.workspace,
        at: now,
        actor: format!("key:{}", caller.key),
        action: format!("{method} {path}"),
        target,
        details,
    }
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(shorten)
}

fn shorten(text: &str) -> String {
    text.chars().take(FIELD_CHARS_MAX).collect()
}
