//! Test runs.

use everstep_core::payload::Payload;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::http::schema::{Json, Object};

/// `POST /v1/test-runs`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct TestRun {
    /// A graph or a state machine, as it would be saved.
    #[schemars(with = "Object")]
    pub(crate) definition: Payload,
    #[serde(default = "nothing")]
    #[schemars(with = "Json")]
    pub(crate) input: Payload,
}

fn nothing() -> Payload {
    Payload::from(json!({}))
}
