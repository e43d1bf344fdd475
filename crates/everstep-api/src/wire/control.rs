//! What a run is told from outside, and what became of it.

use serde::{Deserialize, Serialize};

/// `POST /v1/runs/{id}/pause`, `resume` and `retry`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Control {
    pub(crate) expected_version: Option<u64>,
}

/// `POST /v1/runs/{id}/cancel`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Cancel {
    pub(crate) reason: Option<String>,
    pub(crate) expected_version: Option<u64>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Outcome {
    pub(crate) outcome: &'static str,
    /// Why nothing was changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
}
