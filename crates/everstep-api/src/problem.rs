//! What a caller is told when a request cannot be answered: a problem document with a code that never changes.

use axum::Json;
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

pub(crate) struct Problem {
    status: StatusCode,
    code: &'static str,
    detail: String,
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = json!({
            "type": "about:blank",
            "title": self.status.canonical_reason(),
            "status": self.status.as_u16(),
            "code": self.code,
            "detail": self.detail,
        });
        (self.status, [(header::CONTENT_TYPE, "application/problem+json")], Json(body)).into_response()
    }
}

pub(crate) async fn not_found(uri: Uri) -> Problem {
    Problem {
        status: StatusCode::NOT_FOUND,
        code: "NOT_FOUND",
        detail: format!("there is nothing at {}; this server answers /livez and /readyz", uri.path()),
    }
}
