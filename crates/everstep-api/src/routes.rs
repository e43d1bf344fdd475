//! The table of all routes. Each has a row with its access, its text and its handler.

use axum::Router;
use axum::extract::Request;
use axum::middleware::{self, Next};

use crate::auth;
use crate::console::{self, Console};
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
        .layer(middleware::from_fn_with_state(app.clone(), resources::machines::observe_attempt))
        .layer(middleware::from_fn_with_state(app.clone(), audit::audit_request))
        .layer(middleware::from_fn_with_state(app.clone(), auth::authenticate));
    let serves_console = app.serves_console;
    // Messages to workers are frequent, and pass through no browser.
    let compress = |request: Request, next: Next| compress::compress(workers::is_uncounted, request, next);
    let router = open
        .method_not_allowed_fallback(problem::wrong_method)
        .merge(guarded)
        .with_state(app)
        .layer(middleware::from_fn(compress));
    if !serves_console {
        return router;
    }
    router.layer(middleware::from_fn_with_state(Console::new(segments), console::serve_console))
}

pub(crate) fn table() -> Table {
    use resources::{
        audit, catalog, data, documents, health, inbox, keys, links, machines, namespaces, nodes, runs, schemas,
        secrets, sign_ins, stats, store, tickets, workflows, workspaces,
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
        .with(inbox::add)
        .with(stats::add)
        .with(workers::add)
        .with(namespaces::add)
        .with(store::add)
        .with(links::add)
        .with(keys::add)
        .with(tickets::add)
        .with(sign_ins::add)
        .with(audit::add)
        .with(workspaces::add)
        .with(secrets::add)
        .with(data::add)
}
