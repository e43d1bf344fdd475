//! The OpenAPI document of all routes, and the response to `GET /`.

use std::sync::LazyLock;

use axum::Json;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::Value;

use super::wire::Welcome;
use crate::http::openapi::{self, Info};
use crate::routes;

/// The groups of routes, in the order of the docs page.
const TAGS: &[(&str, &str)] = &[
    ("workflows", "Definitions and their versions."),
    ("catalogue", "The kinds of nodes of graphs."),
    ("runs", "Executions of workflows: start, follow and control them."),
    ("machines", "State machines: the actions of people in their runs."),
    ("files", "Files that people upload and name in transitions."),
    ("workers", "Workers: user processes that execute workflows written as code."),
    ("records", "Records and links: data of a workspace that outlives its runs."),
    ("events", "Events, the subscriptions that start runs for them, and their results."),
    ("dead letters", "Work that failed permanently: it can be requeued or discarded."),
    ("data", "Data sources, and saved queries for them."),
    ("access", "API keys, workspaces, tickets, the audit and secrets."),
    ("nodes", "The servers that share a database."),
    ("health", "Liveness, readiness and metrics of the server. Only the metrics need an API key."),
    ("documents", "Documents about this API. No API key is needed."),
];

const DESCRIPTION: &str = "All bodies are JSON in camelCase; times are RFC 3339 in UTC with microseconds. Unknown query parameters, fields \
     of a body and paths are rejected, not ignored. Errors are `application/problem+json` documents with a stable \
     `code`.";

/// The document of every route of this server.
pub fn openapi() -> Value {
    let info = Info {
        title: "Everstep",
        summary: "A durable workflow engine.",
        description: DESCRIPTION,
        version: env!("CARGO_PKG_VERSION"),
        license: "Apache-2.0",
        tags: TAGS,
    };
    openapi::document(&info, &routes::table())
}

/// `GET /v1/openapi.json`.
pub(crate) async fn document() -> ([(HeaderName, &'static str); 2], &'static str) {
    static TEXT: LazyLock<String> = LazyLock::new(|| openapi().to_string());
    ([(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-cache")], &TEXT)
}

/// `GET /`: links to the documents. A browser receives the console, or is redirected if the server does not serve it.
pub(crate) async fn welcome(headers: HeaderMap) -> Response {
    let accepts = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    if accepts.contains("text/html") {
        return (StatusCode::SEE_OTHER, [(header::LOCATION, "/docs")]).into_response();
    }
    let version = env!("CARGO_PKG_VERSION");
    Json(Welcome { name: "everstep", version, docs: "/docs", openapi: "/v1/openapi.json" }).into_response()
}
