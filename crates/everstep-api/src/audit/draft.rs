//! The audit row of a request that changes a run. The engine writes it in the item of the run.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode};
use everstep_core::payload::Payload;
use everstep_core::time::Timestamp;
use everstep_store::AuditRow;
use serde_json::{Value, json};

use crate::auth::{Caller, Gate};
use crate::id;
use crate::server::AppState;
use crate::workers;

/// Characters of a text that a client determines. A longer text ends with a mark.
const TEXT_CHARS_MAX: usize = 128;

/// The facts about a request that its audit row contains. The request carries them.
pub(super) struct RequestFacts {
    caller: Caller,
    method: Method,
    target: String,
    idempotency_key: Option<String>,
    request_id: Option<String>,
    /// Whether the row was written with an item.
    is_written: AtomicBool,
}

impl RequestFacts {
    pub(super) fn from_parts(parts: &Parts) -> Self {
        Self {
            caller: parts.extensions.get::<Caller>().cloned().expect("a guarded route has a caller"),
            method: parts.method.clone(),
            target: shorten(&workers::redact(parts.uri.path())),
            idempotency_key: text(&parts.headers, "idempotency-key"),
            request_id: text(&parts.headers, "x-request-id"),
            is_written: AtomicBool::new(false),
        }
    }

    pub(super) fn is_written(&self) -> bool {
        self.is_written.load(Ordering::Relaxed)
    }

    /// The audit row of this request. `path` is that of the route, with its parameters as names.
    pub(super) fn row(&self, path: &str, mut details: Value, now: Timestamp) -> AuditRow {
        self.caller.describe(&mut details);
        if let Some(key) = &self.idempotency_key {
            details["idempotencyKey"] = key.as_str().into();
        }
        if let Some(id) = &self.request_id {
            details["requestId"] = id.as_str().into();
        }
        AuditRow {
            id: id::new_id(now),
            workspace: self.caller.workspace,
            at: now,
            actor: self.caller.audit_actor(),
            action: format!("{} {path}", self.method),
            target: self.target.clone(),
            details: Payload::from(details),
        }
    }
}

/// Makes the audit row of a request that changes runs, so that the row is written with an item.
///
/// A handler passes the row to the engine, and then records whether an item with the row was written. If none was,
/// `audit_request` writes the row, like that of a request that changes no run.
pub(crate) struct AuditDraft {
    facts: Arc<RequestFacts>,
    path: &'static str,
    now: Timestamp,
}

impl AuditDraft {
    pub(crate) fn caller(&self) -> &Caller {
        &self.facts.caller
    }

    /// The row for the item of one run. `status` is that of the response if the item is written.
    pub(crate) fn row(&self, status: StatusCode) -> Arc<AuditRow> {
        Arc::new(self.facts.row(self.path, json!({"status": status.as_u16()}), self.now))
    }

    /// The row that the items of several runs share. It has no status: that is not known when the first item is
    /// written.
    pub(crate) fn shared_row(&self) -> Arc<AuditRow> {
        Arc::new(self.facts.row(self.path, json!({}), self.now))
    }

    /// Records whether an item with the row was written.
    pub(crate) fn record(&self, is_written: bool) {
        self.facts.is_written.fetch_or(is_written, Ordering::Relaxed);
    }
}

impl FromRequestParts<AppState> for AuditDraft {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, Infallible> {
        let facts =
            parts.extensions.get::<Arc<RequestFacts>>().cloned().expect("a request that changes runs is audited");
        let gate = parts.extensions.get::<Gate>().expect("a guarded route has a gate");
        Ok(Self { facts, path: gate.path, now: app.engine.world().clock.now() })
    }
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(shorten)
}

/// A text of a client, as the audit contains it.
pub(crate) fn shorten(text: &str) -> String {
    if text.chars().nth(TEXT_CHARS_MAX).is_none() {
        return text.to_owned();
    }
    text.chars().take(TEXT_CHARS_MAX - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_with_a_mark() {
        let text = "é".repeat(TEXT_CHARS_MAX);
        assert_eq!(shorten(&text), text);
        let cut = shorten(&format!("{text}x"));
        assert_eq!((cut.chars().count(), cut.ends_with("é…")), (TEXT_CHARS_MAX, true));
    }
}
