//! What a start asks for.

use everstep_core::payload::Payload;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::wire::{Json, Object};

/// `POST /v1/workflows/{name}/runs`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct OfWorkflow {
    #[serde(default = "nothing")]
    #[schemars(with = "Json")]
    pub(crate) input: Payload,
    /// The active one when none is named.
    pub(crate) version: Option<u32>,
    /// There is one run per key, whatever is started again.
    #[schemars(length(min = 1, max = 255))]
    pub(crate) idempotency_key: Option<String>,
    /// How many days the run is kept after its end, at most 365.
    pub(crate) retention_days: Option<u32>,
}

impl Default for OfWorkflow {
    fn default() -> Self {
        Self { input: nothing(), version: None, idempotency_key: None, retention_days: None }
    }
}

/// `POST /v1/workflow-runs`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct OfDefinition {
    /// The workflow's name.
    #[schemars(length(min = 1))]
    pub(crate) definition_id: String,
    #[serde(default = "nothing")]
    #[schemars(with = "Object")]
    pub(crate) input: Payload,
    /// There is one run per key, whatever is started again.
    #[schemars(length(min = 1, max = 255))]
    pub(crate) idempotency_key: Option<String>,
}

fn nothing() -> Payload {
    Payload::from(json!({}))
}
