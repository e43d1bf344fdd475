//! Namespaces.

use everstep_store::NamespaceRow;
use schemars::JsonSchema;
use serde::Serialize;

use crate::http::time::Time;

/// A named group of records and links.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Namespace {
    name: String,
    /// The number of its records. An expired one counts until it is swept.
    keys: u64,
    /// The number of its links.
    links: u64,
    /// Bytes of values and attributes.
    bytes: u64,
    /// The number of its last change. Changes are counted from 1 without a gap.
    changes: u64,
    /// The time of its last change.
    updated_at: Time,
}

impl Namespace {
    pub(crate) fn from_row(row: NamespaceRow) -> Self {
        Self {
            name: row.name,
            keys: row.counts.keys,
            links: row.counts.links,
            bytes: row.counts.bytes,
            changes: row.counts.changes,
            updated_at: Time::from_timestamp(row.updated_at),
        }
    }
}

/// A page of namespaces, by name.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Namespaces {
    pub(crate) namespaces: Vec<Namespace>,
    /// The cursor of the next page; null on the last one.
    pub(crate) next_cursor: Option<String>,
}

/// The answer to a request that empties a namespace.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct EmptiedNamespace {
    /// The number of records and links that were deleted.
    pub(crate) deleted: u64,
    /// Whether there are more: repeat the request.
    pub(crate) more: bool,
}
