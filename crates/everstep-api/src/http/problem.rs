//! The response to a request that cannot be served: a problem document with a stable code.

use std::borrow::Cow;
use std::collections::BTreeMap;

use axum::Json;
use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// The remedy for a body or a part of it that is too large.
const TOO_LARGE_HINT: &str =
    "send less at once, or store large data elsewhere and send a reference to it, such as a URL or an id";

/// Why a request was not served.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    code: Cow<'static, str>,
    detail: String,
    /// Further members of the document: a hint, the problems of a definition.
    more: Vec<(&'static str, Value)>,
    /// Seconds after which the same request may succeed.
    retry_after: Option<u32>,
}

impl Problem {
    /// Whether it concerns a resource that no longer exists.
    pub(crate) fn is_gone(&self) -> bool {
        self.status == StatusCode::GONE
    }

    /// Whether it concerns a resource that does not exist.
    pub(crate) fn is_not_found(&self) -> bool {
        self.status == StatusCode::NOT_FOUND
    }

    pub(crate) fn has_code(&self, code: &str) -> bool {
        self.code == code
    }

    /// Its code, and its text.
    pub(crate) fn into_words(self) -> (String, String) {
        (self.code.into_owned(), self.detail)
    }

    pub(crate) fn new(status: StatusCode, code: impl Into<Cow<'static, str>>, detail: impl Into<String>) -> Self {
        Self { status, code: code.into(), detail: detail.into(), more: Vec::new(), retry_after: None }
    }

    /// The request is not valid.
    pub(crate) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "VALIDATION_ERROR", detail)
    }

    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "NOT_FOUND", detail)
    }

    /// Nothing was written; the same request may be repeated.
    pub(crate) fn unavailable(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE", detail).retry_after(1)
    }

    pub(crate) fn too_large(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "PAYLOAD_TOO_LARGE", detail).hint(TOO_LARGE_HINT)
    }

    /// Adds the remedy.
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        self.with("hint", hint.into())
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.more.push((name, value.into()));
        self
    }

    pub(crate) fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }
}

/// Why a request was not served (RFC 9457).
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub(crate) struct Document {
    #[serde(rename = "type")]
    kind: &'static str,
    title: Option<&'static str>,
    status: u16,
    /// A stable code for programs.
    code: Cow<'static, str>,
    /// What happened, for people.
    detail: String,
    /// The `hint`, and members of certain codes, such as the `problems` of a definition.
    #[serde(flatten)]
    more: BTreeMap<&'static str, Value>,
}

impl Problem {
    /// The document itself, also for transports other than HTTP.
    pub(crate) fn document(&self) -> Document {
        Document {
            kind: "about:blank",
            title: self.status.canonical_reason(),
            status: self.status.as_u16(),
            code: self.code.clone(),
            detail: self.detail.clone(),
            more: self.more.iter().cloned().collect(),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = self.document();
        let kind = [(header::CONTENT_TYPE, "application/problem+json")];
        let mut response = (self.status, kind, Json(body)).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// The response for an unknown path.
pub(crate) async fn nothing_here(uri: Uri) -> Problem {
    Problem::not_found(format!("{} does not exist", uri.path()))
}

/// The response for a known path with an unsupported method.
pub(crate) async fn wrong_method(method: Method, uri: Uri) -> Problem {
    let detail = format!("{} does not support {method}; the header Allow lists the supported methods", uri.path());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", detail)
}
