//! Tickets as clients see them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::http::time::Time;

/// What opens a live route in place of a key.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Ticket {
    /// `est_…`, for the header `Authorization: Bearer` or the query parameter `ticket`.
    pub(crate) ticket: String,
    pub(crate) expires_at: Time,
}

/// A body that says nothing.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Empty {}
