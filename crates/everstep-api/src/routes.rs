//! The table of all routes. Each has a row with its access, its text and its handler.

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};

use crate::auth;
use crate::console::Console;
use crate::http::table::{self, Route};
use crate::http::{compress, problem};
use crate::server::AppState;
use crate::{audit, metrics, resources, stream, workers};

/// The rows of routes of this server.
pub(crate) type Table = table::Table<AppState>;

/// Every route of this server.
pub fn routes() -> Vec<Route> {
    table().routes
}

pub(crate) fn router(app: AppState) -> Router {
    let Table { open, guarded, segments, .. } = table();
    let guarded = guarded
        .fallback(problem::nothing_here)
        .method_not_allowed_fallback(problem::wrong_method)
        .layer(middleware::from_fn_with_state(app.clone(), guard));
    let console = app.serves_console.then(|| Console::new(segments));
    let router = open.method_not_allowed_fallback(problem::wrong_method).merge(guarded).with_state(app);
    router.layer(middleware::from_fn_with_state(console, serve))
}

/// Everything that happens around a guarded route. It is one layer, because each layer costs every request two
/// microseconds or more: it allocates, and copies the request and the response.
async fn guard(State(app): State<AppState>, request: Request, next: Next) -> Response {
    let request = match auth::authenticate(&app, request).await {
        Ok(request) => request,
        Err(problem) => return problem.into_response(),
    };
    let observed = app.clone();
    audit::audit_request(app, request, |request| resources::machines::observe_attempt(observed, request, next)).await
}

/// Serves the console before authentication, and compresses the responses of all other routes.
async fn serve(State(console): State<Option<Console>>, request: Request, next: Next) -> Response {
    match console.and_then(|console| console.answer(request.method(), request.uri().path(), request.headers())) {
        Some(page) => page,
        // Messages to workers are frequent, and pass through no browser.
        None => compress::compress(workers::is_uncounted, request, next).await,
    }
}

pub(crate) fn table() -> Table {
    use resources::{
        audit, catalog, data, dead_letters, documents, events, files, health, inbox, keys, links, machines, namespaces,
        nodes, runs, schemas, secrets, sign_ins, stats, store, subscriptions, tickets, workflows, workspaces,
    };
    Table::default()
        .with(health::add)
        .with(documents::add)
        .with(stream::add)
        .with(metrics::add)
        .with(nodes::add)
        .with(workflows::add)
        .with(catalog::add)
        .with(schemas::add)
        .with(runs::add)
        .with(machines::add)
        .with(files::add)
        .with(inbox::add)
        .with(stats::add)
        .with(workers::add)
        .with(namespaces::add)
        .with(store::add)
        .with(links::add)
        .with(events::add)
        .with(subscriptions::add)
        .with(dead_letters::add)
        .with(keys::add)
        .with(tickets::add)
        .with(sign_ins::add)
        .with(audit::add)
        .with(workspaces::add)
        .with(secrets::add)
        .with(data::add)
}
