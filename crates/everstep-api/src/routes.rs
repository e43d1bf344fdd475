//! The table of routes. A route stands here with what it needs and its text, or it does not exist.

use axum::Router;
use axum::http::Method;
use axum::middleware;

use crate::auth::{self, Permission};
use crate::openapi::{self, doc};
use crate::server::Served;
use crate::table::{Route, Table};
use crate::wire::{
    Alive, Cancel, Control, Entries, Json, Nodes, Object, OfWorkflow, Outcome, Readiness, Run, Runs, Started, Welcome,
    Workflow,
};
use crate::{access, audit, controls, data, docs, health, journal, nodes, problem, runs, starts, workflows};

/// Every route of this server.
pub fn routes() -> Vec<Route> {
    table().routes
}

pub(crate) fn router(served: Served) -> Router {
    let Table { open, guarded, .. } = table();
    let guarded = guarded
        .fallback(problem::nothing_here)
        .method_not_allowed_fallback(problem::wrong_method)
        .layer(middleware::from_fn_with_state(served.clone(), audit::watch))
        .layer(middleware::from_fn_with_state(served.clone(), auth::authenticate));
    open.method_not_allowed_fallback(problem::wrong_method).merge(guarded).with_state(served)
}

fn table() -> Table {
    data::add(access::add(basic(Table::default())))
}

fn basic(table: Table) -> Table {
    use Permission::{Admin, Manage, Publish, Read, View};
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
        .guarded(
            Publish,
            Method::PUT,
            "/v1/workflows/{name}",
            doc("workflows", "Save a workflow")
                .about("Saves a definition and makes it the active version. The same again is the same version.")
                .takes::<Object>()
                .answers::<Workflow>(200),
            workflows::put,
        )
        .guarded(
            Read,
            Method::GET,
            "/v1/workflows/{name}",
            doc("workflows", "Show a workflow").query(workflows::VERSION).answers::<Workflow>(200),
            workflows::get,
        )
        .guarded(
            Manage,
            Method::POST,
            "/v1/workflows/{name}/runs",
            doc("runs", "Start a run")
                .about("The idempotency key belongs to the workflow: two workflows may use the same.")
                .keyed()
                .may_take::<OfWorkflow>()
                .answers::<Started>(201)
                .with_header("Location", "Where the run is.")
                .answers::<Started>(200)
                .with_header("Location", "Where the run is."),
            starts::of_workflow,
        )
        .guarded(Manage, Method::POST, "/v1/workflow-runs", starts::of_definition_doc(), starts::of_definition)
        .guarded(Manage, Method::POST, "/api/v1/workflow-runs", starts::of_definition_doc(), starts::of_definition)
        .guarded(
            View,
            Method::GET,
            "/v1/runs",
            doc("runs", "List runs")
                .about("Newest first. What is added meanwhile moves nothing.")
                .query(runs::FILTERS)
                .answers::<Runs>(200),
            runs::list,
        )
        .guarded(
            View,
            Method::GET,
            "/v1/runs/{id}",
            doc("runs", "Show a run")
                .query(runs::WAIT)
                .answers::<Run>(200)
                .with_header("ETag", "The run's version, for `If-Match`."),
            runs::get,
        )
        .guarded(
            View,
            Method::GET,
            "/v1/runs/{id}/journal",
            doc("runs", "Read the journal of a run")
                .about("What happened, in order.")
                .query(journal::PAGE)
                .answers::<Entries>(200),
            journal::get,
        )
        .guarded(
            Manage,
            Method::POST,
            "/v1/runs/{id}/signals/{event}",
            doc("runs", "Signal a run")
                .about("The body is the signal's payload: any JSON, or nothing.")
                .keyed()
                .matched()
                .may_take::<Json>()
                .answers::<Outcome>(200),
            controls::signal,
        )
        .guarded(
            Manage,
            Method::POST,
            "/v1/runs/{id}/cancel",
            doc("runs", "Cancel a run").keyed().matched().may_take::<Cancel>().answers::<Outcome>(200),
            controls::cancel,
        )
        .guarded(
            Manage,
            Method::POST,
            "/v1/runs/{id}/pause",
            doc("runs", "Pause a run")
                .about("Nothing more is dispatched until it is resumed.")
                .keyed()
                .matched()
                .may_take::<Control>()
                .answers::<Outcome>(200),
            controls::pause,
        )
        .guarded(
            Manage,
            Method::POST,
            "/v1/runs/{id}/resume",
            doc("runs", "Resume a run").keyed().matched().may_take::<Control>().answers::<Outcome>(200),
            controls::resume,
        )
        .guarded(
            Manage,
            Method::POST,
            "/v1/runs/{id}/retry",
            doc("runs", "Retry a run")
                .about("Tries the failed steps of a failed run again.")
                .keyed()
                .matched()
                .may_take::<Control>()
                .answers::<Outcome>(200),
            controls::retry,
        )
        .guarded(Admin, Method::GET, "/v1/nodes", doc("nodes", "List nodes").answers::<Nodes>(200), nodes::list)
}
