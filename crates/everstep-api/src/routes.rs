//! The table of routes. A route stands here with what it needs and its text, or it does not exist.

use axum::Router;
use axum::http::Method;
use axum::middleware;

use crate::auth::{self, Permission};
use crate::openapi::{self, doc};
use crate::server::AppState;
use crate::table::{Route, Table};
use crate::wire::{Alive, Nodes, Object, Readiness, Welcome};
use crate::{
    access, audit, catalogue, data, docs, health, live, metrics, nodes, problem, run_routes, worker, workflows,
};

/// Every route of this server.
pub fn routes() -> Vec<Route> {
    table().routes
}

pub(crate) fn router(app: AppState) -> Router {
    let Table { open, guarded, .. } = table();
    let guarded = guarded
        .fallback(problem::nothing_here)
        .method_not_allowed_fallback(problem::wrong_method)
        .layer(middleware::from_fn_with_state(app.clone(), audit::audit_request))
        .layer(middleware::from_fn_with_state(app.clone(), auth::authenticate));
    open.method_not_allowed_fallback(problem::wrong_method).merge(guarded).with_state(app)
}

fn table() -> Table {
    basic(Table::default())
        .with(workflows::add)
        .with(catalogue::add)
        .with(run_routes::add)
        .with(worker::add)
        .with(access::add)
        .with(data::add)
}

fn basic(table: Table) -> Table {
    use Permission::{Admin, View};
    table
        .open(Method::GET, "/livez", doc("health", "Does it live").answers::<Alive>(200), health::live)
        .open(
            Method::GET,
            "/readyz",
            doc("health", "Can it work")
                .about("200 while the node can work, else 503, with the reason in the same body.")
                .answers::<Readiness>(200)
                .answers::<Readiness>(503),
            health::ready,
        )
        .open(
            Method::GET,
            "/v1/openapi.json",
            doc("documents", "Show this document").answers::<Object>(200),
            openapi::serve,
        )
        .open(
            Method::GET,
            "/docs",
            doc("documents", "Show the docs page")
                .about("The document of this API for people. It asks this server alone.")
                .sends(200, "text/html"),
            docs::page,
        )
        .open(
            Method::GET,
            "/",
            doc("documents", "Say where to go from here")
                .about("A browser is led to `/docs`.")
                .answers::<Welcome>(200)
                .answers_nothing(303)
                .with_header("Location", "The docs page."),
            docs::welcome,
        )
        .protocol(&Method::GET, "/socket.io/", live::socket::open)
        .protocol(&Method::POST, "/socket.io/", live::socket::hear)
        .guarded(
            View,
            Method::GET,
            "/v1/runs/{id}/events",
            doc("runs", "Follow a run")
                .about(
                    "Server-sent events: a `snapshot`, an `entry` for every entry of the journal, a `status` whenever \
                     it changes, and an `end`. The header `Last-Event-ID` says from where; 204 says that nothing \
                     will follow.",
                )
                .query(live::sse::PARAMETERS)
                .sends(200, "text/event-stream")
                .answers_nothing(204)
                .refuses(429, "`TOO_MANY_STREAMS`: the key has as many streams open as it may."),
            live::sse::events,
        )
        .guarded(
            Admin,
            Method::GET,
            "/metrics",
            doc("health", "Show the figures of this node")
                .about("For Prometheus, and for keys of the default workspace.")
                .sends(200, metrics::CONTENT_TYPE_TEXT),
            metrics::get,
        )
        .guarded(Admin, Method::GET, "/v1/nodes", doc("nodes", "List nodes").answers::<Nodes>(200), nodes::list)
}
