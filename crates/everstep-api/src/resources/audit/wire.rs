//! The audit as clients see it.

use everstep_core::payload::Payload;
use everstep_store::AuditRow;
use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

use crate::http::schema::{Id, Object};
use crate::http::time::Time;

/// Something that was done.
#[derive(Serialize, JsonSchema)]
pub(crate) struct AuditEntry {
    #[schemars(with = "Id")]
    id: Uuid,
    at: Time,
    /// Who did it: `key:` and the key's id, or `command line`.
    actor: String,
    /// The method and the route, such as `POST /v1/runs/{id}/cancel`.
    action: String,
    /// What it was done to: the path of the request.
    target: String,
    #[schemars(with = "Object")]
    details: Payload,
}

impl AuditEntry {
    pub(crate) fn from_row(row: AuditRow) -> Self {
        Self {
            id: row.id,
            at: Time::from_timestamp(row.at),
            actor: row.actor,
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
    /// What to ask the next page with; null on the last one.
    pub(crate) next_cursor: Option<String>,
}
