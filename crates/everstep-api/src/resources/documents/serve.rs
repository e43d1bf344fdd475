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
    ("catalogue", "The kinds of nodes that a graph may be made of."),
    ("runs", "Executions of workflows: started, followed, steered."),
    ("workers", "Users' processes that run workflows written as code."),
    ("data", "Data sources, and the saved queries that ask them."),
    ("access", "Who may do what: keys, workspaces, tickets, the audit, secrets."),
    ("nodes", "The servers that share a database."),
    ("health", "Whether the server lives and can work. Asked without a key."),
    ("documents", "What this API says about itself. Asked without a key."),
];

const DESCRIPTION: &str = "\
Everything is JSON in camelCase; times are RFC 3339 in UTC with microseconds. \
What a route does not know is refused, not ignored: query parameters, fields of a body, paths. \
What cannot be answered as asked is answered with `application/problem+json`; its `code` never changes.";

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

/// `GET /`: where to go from here. A browser is led there.
pub(crate) async fn welcome(headers: HeaderMap) -> Response {
    let accepts = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    if accepts.contains("text/html") {
        return (StatusCode::SEE_OTHER, [(header::LOCATION, "/docs")]).into_response();
    }
    let version = env!("CARGO_PKG_VERSION");
    Json(Welcome { name: "everstep", version, docs: "/docs", openapi: "/v1/openapi.json" }).into_response()
}
