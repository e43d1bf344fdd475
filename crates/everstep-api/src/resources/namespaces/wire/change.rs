//! Changes.

use everstep_core::ids::{RunId, StepKey};
use everstep_core::payload::Payload;
use everstep_store::{ChangeRow, ChangeValue};
use schemars::JsonSchema;
use serde::Serialize;

use crate::http::schema::{Id, Json};
use crate::http::time::Time;
use crate::resources::store::ValueType;

/// The effect of a write on one record or link.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Change {
    /// Counted within the namespace, from 1.
    change: u64,
    at: Time,
    /// The verb: `store.set`, `store.delete`, `store.increment`, `store.expire`, `links.upsert` or `links.delete`.
    action: String,
    /// The key of the record; null for a link.
    key: Option<String>,
    /// The id of the link; null for a record.
    #[schemars(with = "Option<Id>")]
    link_id: Option<String>,
    /// The revision of a record that was written.
    revision: Option<u64>,
    /// The type of a value that was written.
    value_type: Option<ValueType>,
    /// When a record that was written expires.
    expires_at: Option<Time>,
    /// The value of a record; of a link, its sides, its relation and, unless it was deleted, its attributes. Absent if a
    /// record was deleted, and if the value has more than 16 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Json")]
    value: Option<Payload>,
    /// In place of a value of more than 16 KiB.
    omitted: Option<OmittedValue>,
    /// `key:` and the id of an API key; `person:`, the issuer, `/` and the id of a person; `run:` and the id of a run;
    /// or a part of the server.
    actor: String,
    /// The run whose step made the change.
    #[schemars(with = "Option<Id>")]
    run: Option<RunId>,
    /// The key of the step.
    #[schemars(with = "Option<String>")]
    step: Option<StepKey>,
}

/// A value that is too long for the history.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct OmittedValue {
    bytes: u64,
    /// SHA-256 of its JSON text, in hexadecimal digits.
    sha256: String,
}

impl Change {
    pub(crate) fn from_row(row: ChangeRow) -> Self {
        let is_link = row.action.starts_with("links.");
        let (key, link_id) = if is_link { (None, Some(row.subject)) } else { (Some(row.subject), None) };
        let (value, omitted) = match row.value {
            ChangeValue::None => (None, None),
            ChangeValue::Whole(value) => (Some(value), None),
            ChangeValue::Omitted { bytes, sha256 } => (None, Some(OmittedValue { bytes, sha256 })),
        };
        Self {
            change: row.number,
            at: Time::from_timestamp(row.at),
            action: row.action,
            key,
            link_id,
            revision: row.revision,
            value_type: row.value_type.map(Into::into),
            expires_at: row.value_expires_at.map(Time::from_timestamp),
            value,
            omitted,
            actor: row.author.actor,
            run: row.author.run,
            step: row.author.step,
        }
    }
}

/// A page of changes, oldest first.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Changes {
    pub(crate) changes: Vec<Change>,
    /// `after` of the next page; null on the last one.
    pub(crate) next_after: Option<u64>,
}
