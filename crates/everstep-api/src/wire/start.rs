//! What a start asks for.

use everstep_core::payload::Payload;
use serde::Deserialize;
use serde_json::json;

/// `POST /v1/workflows/{name}/runs`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct OfWorkflow {
    #[serde(default = "nothing")]
    pub(crate) input: Payload,
    /// The active one when none is named.
    pub(crate) version: Option<u32>,
    pub(crate) idempotency_key: Option<String>,
    pub(crate) retention_days: Option<u32>,
}

impl Default for OfWorkflow {
    fn default() -> Self {
        Self { input: nothing(), version: None, idempotency_key: None, retention_days: None }
    }
}

/// `POST /v1/workflow-runs`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct OfDefinition {
    /// The workflow's name.
    pub(crate) definition_id: String,
    #[serde(default = "nothing")]
    pub(crate) input: Payload,
    pub(crate) idempotency_key: Option<String>,
}

fn nothing() -> Payload {
    Payload::from(json!({}))
}
