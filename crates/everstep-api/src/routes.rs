//! The table of routes. A route stands here with what it needs and its text, or it does not exist.

use axum::Router;
use axum::http::Method;
use axum::middleware;
use serde_json::json;

use crate::auth::{self, Permission};
use crate::openapi::{self, doc};
use crate::server::Served;
use crate::table::{Route, Table};
use crate::wire::{
    Activate, Alive, Clone, Definition, Exported, NewWorkflow, Nodes, Object, Portable, Readiness, Validation,
    Versions, Welcome, Workflow, WorkflowSummary,
};
use crate::{access, audit, docs, health, live, metrics, nodes, problem, run_routes, workflows};

/// What the header `ETag` of a workflow says.
const ACTIVE: &str = "The active version, for `If-Match`.";

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
    access::add(run_routes::add(basic(Table::default())))
}

fn basic(table: Table) -> Table {
    use Permission::{Admin, Publish, Read, View};
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
            Read,
            Method::GET,
            "/v1/workflows",
            doc("workflows", "List workflows")
                .about("By name, with how many runs of each have each status.")
                .query(workflows::PAGE)
                .answers::<Vec<WorkflowSummary>>(200)
                .with_header("Link", "The next page, `rel=\"next\"`; it is missing on the last one."),
            workflows::list,
        )
        .guarded(
            Publish,
            Method::POST,
            "/v1/workflows",
            doc("workflows", "Create a workflow")
                .about(
                    "Saves the first version. There must be no workflow of that name, \
                     but for one thing: with an `Idempotency-Key`, a workflow whose newest version has this very \
                     definition is taken for the one that this request has made before, and answered 200. \
                     The key itself is not kept.",
                )
                .keyed()
                .takes::<NewWorkflow>()
                .example(json!({"name": "order", "definition": workflows::example()}))
                .answers::<Workflow>(201)
                .with_header("Location", "Where the workflow is.")
                .with_header("ETag", ACTIVE)
                .answers::<Workflow>(200)
                .refuses(409, "`WORKFLOW_EXISTS`: there is a workflow of that name."),
            workflows::create,
        )
        .guarded(
            Read,
            Method::POST,
            "/v1/workflows/validate",
            doc("workflows", "Validate a definition")
                .about("Tells everything that is wrong with a definition, without saving it.")
                .takes::<Definition>()
                .example(workflows::example())
                .answers::<Validation>(200),
            workflows::validate,
        )
        .guarded(
            Publish,
            Method::POST,
            "/v1/workflows/import",
            doc("workflows", "Import a workflow")
                .about(
                    "Saves what was exported: a new workflow, or another version of one. \
                     The same definition as the newest version's is that version.",
                )
                .query(workflows::IMPORT)
                .takes::<Portable>()
                .example(json!({
                    "everstep": 1, "kind": "workflow", "name": "order", "definition": workflows::example(),
                }))
                .answers::<Workflow>(201)
                .with_header("Location", "Where the workflow is.")
                .with_header("ETag", ACTIVE)
                .answers::<Workflow>(200),
            workflows::import,
        )
        .guarded(
            Admin,
            Method::GET,
            "/metrics",
            doc("health", "Show the figures of this node")
                .about("For Prometheus, and for keys of the default workspace.")
                .sends(200, metrics::KIND),
            metrics::get,
        )
        .guarded(
            Publish,
            Method::PUT,
            "/v1/workflows/{name}",
            doc("workflows", "Save a workflow")
                .about(
                    "Saves a definition as a version; 201 when the workflow is new. \
                     The same definition as the newest version's is that version.",
                )
                .query(workflows::ACTIVATE)
                .matched()
                .takes::<Definition>()
                .example(workflows::example())
                .answers::<Workflow>(201)
                .with_header("Location", "Where the workflow is.")
                .with_header("ETag", ACTIVE)
                .answers::<Workflow>(200)
                .with_header("ETag", ACTIVE),
            workflows::put,
        )
        .guarded(
            Read,
            Method::GET,
            "/v1/workflows/{name}",
            doc("workflows", "Show a workflow")
                .query(workflows::VERSION)
                .answers::<Workflow>(200)
                .with_header("ETag", ACTIVE),
            workflows::get,
        )
        .guarded(
            Publish,
            Method::DELETE,
            "/v1/workflows/{name}",
            doc("workflows", "Delete a workflow")
                .about("With all its versions. A workflow of the same name goes on counting its versions.")
                .answers_nothing(204)
                .refuses(409, "`WORKFLOW_IN_USE`: `runs` of its runs have not ended."),
            workflows::delete,
        )
        .guarded(
            Read,
            Method::GET,
            "/v1/workflows/{name}/versions",
            doc("workflows", "List versions of a workflow")
                .about("Newest first.")
                .query(workflows::VERSIONS)
                .answers::<Versions>(200),
            workflows::list_versions,
        )
        .guarded(
            Publish,
            Method::POST,
            "/v1/workflows/{name}/activate",
            doc("workflows", "Activate a version")
                .about("New runs take this version from now on, on every node at once.")
                .matched()
                .takes::<Activate>()
                .example(json!({"version": 1}))
                .answers::<Workflow>(200)
                .with_header("ETag", ACTIVE),
            workflows::activate,
        )
        .guarded(
            Read,
            Method::GET,
            "/v1/workflows/{name}/export",
            doc("workflows", "Export a workflow")
                .about("A version as a document that any server can import.")
                .query(workflows::VERSION)
                .answers::<Exported>(200)
                .with_header("Content-Disposition", "A name for the file."),
            workflows::export,
        )
        .guarded(
            Publish,
            Method::POST,
            "/v1/workflows/{name}/clone",
            doc("workflows", "Clone a workflow")
                .about(
                    "Saves a version as the first version of another workflow. \
                     An `Idempotency-Key` means what it means for creating a workflow.",
                )
                .keyed()
                .takes::<Clone>()
                .example(json!({"name": "order-copy"}))
                .answers::<Workflow>(201)
                .with_header("Location", "Where the workflow is.")
                .with_header("ETag", ACTIVE)
                .answers::<Workflow>(200)
                .refuses(409, "`WORKFLOW_EXISTS`: there is a workflow of that name."),
            workflows::clone,
        )
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
        .guarded(Admin, Method::GET, "/v1/nodes", doc("nodes", "List nodes").answers::<Nodes>(200), nodes::list)
}
