//! Tickets in the API.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::http::time::Time;

/// A credential for live routes, instead of an API key.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Ticket {
    /// `est_…`, for the header `Authorization: Bearer` or the query parameter `ticket`.
    pub(crate) ticket: String,
    pub(crate) expires_at: Time,
}

/// An empty body.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Empty {}
