//! Inputs of a run from clients, and their outcomes.

use everstep_core::whole;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `POST /v1/runs/{id}/pause`, `resume` and `retry`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Control {
    #[serde(default, deserialize_with = "whole::optional")]
    pub(crate) expected_version: Option<u64>,
}

/// `POST /v1/runs/{id}/cancel`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Cancel {
    pub(crate) reason: Option<String>,
    #[serde(default, deserialize_with = "whole::optional")]
    pub(crate) expected_version: Option<u64>,
}

/// The outcome of a signal or a control.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Outcome {
    /// `accepted`: it is in the journal. `buffered`: it is stored until a wait for it is opened. `repeated`: it was
    /// accepted before, under the same idempotency key. `ignored`: it changes nothing.
    #[schemars(extend("enum" = ["accepted", "buffered", "repeated", "ignored"]))]
    pub(crate) outcome: &'static str,
    /// Why nothing was changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
}
