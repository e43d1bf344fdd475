//! The audit in the API.

use everstep_core::payload::Payload;
use everstep_store::AuditRow;
use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

use crate::http::schema::{Id, Object};
use crate::http::time::Time;

/// An action.
#[derive(Serialize, JsonSchema)]
pub(crate) struct AuditEntry {
    #[schemars(with = "Id")]
    id: Uuid,
    at: Time,
    /// The actor: `key:` and the id of an API key; `person:`, the issuer, `/` and the id of a person; or `command line`.
    actor: String,
    /// The method and the route, such as `POST /v1/runs/{id}/cancel`.
    action: String,
    /// The target of the action: the path of the request.
    target: String,
    #[schemars(with = "Object")]
    details: Payload,
}

impl AuditEntry {
    pub(crate) fn from_row(row: AuditRow) -> Self {
        Self {
            id: row.id,
            at: Time::from_timestamp(row.at),
            actor: row.actor.to_text(),
            action: row.action,
            target: row.target,
            details: row.details,
        }
    }
}

/// A page of the audit, newest first.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AuditEntries {
    pub(crate) entries: Vec<AuditEntry>,
    /// The cursor of the next page; null on the last one.
    pub(crate) next_cursor: Option<String>,
}
