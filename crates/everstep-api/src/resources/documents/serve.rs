//! The OpenAPI document of all routes, and the response to `GET /`.

use std::sync::LazyLock;

use axum::Json;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::Value;

use super::wire::Welcome;
use crate::http::openapi;
use crate::routes;

/// The document of every route of this server.
pub fn openapi() -> Value {
    openapi::document(&routes::routes())
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
