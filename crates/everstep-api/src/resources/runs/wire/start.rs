//! The requests that start runs.

use std::collections::BTreeMap;

use everstep_core::payload::Payload;
use everstep_core::whole;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::http::schema::{Json, Moment, Object};

/// `POST /v1/workflows/{name}/runs`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct OfWorkflow {
    #[serde(default = "nothing")]
    #[schemars(with = "Json")]
    pub(crate) input: Payload,
    /// From 1 to 2,147,483,647; the active version by default.
    #[serde(default, deserialize_with = "whole::optional")]
    #[schemars(range(min = 1, max = 2_147_483_647))]
    pub(crate) version: Option<u32>,
    /// A workflow has one run per idempotency key, however often it is started. It has 1 to 255 characters.
    #[schemars(length(min = 1, max = 255))]
    pub(crate) idempotency_key: Option<String>,
    /// The number of days for which the run is kept after its end: at most the limit of the server; 0 means 1.
    #[serde(default, deserialize_with = "whole::optional")]
    pub(crate) retention_days: Option<u32>,
    /// Tags for finding the run.
    #[serde(default)]
    pub(crate) tags: BTreeMap<String, String>,
    /// When the run begins, at most 365 days from now; until then it is pending. A time in the past is now.
    #[schemars(with = "Option<Moment>")]
    pub(crate) start_at: Option<String>,
    /// The seconds after which the run begins, in place of `startAt`; at most 365 days.
    #[serde(default, deserialize_with = "whole::optional")]
    #[schemars(range(min = 0, max = 31_536_000))]
    pub(crate) delay_seconds: Option<u64>,
    /// Starts the run although no worker has ever registered the workflow: the run waits for a worker. Default: a start
    /// of an unknown name is rejected.
    #[serde(default)]
    pub(crate) allow_unserved: bool,
}

impl Default for OfWorkflow {
    fn default() -> Self {
        Self {
            input: nothing(),
            version: None,
            idempotency_key: None,
            retention_days: None,
            tags: BTreeMap::new(),
            start_at: None,
            delay_seconds: None,
            allow_unserved: false,
        }
    }
}

/// `POST /v1/workflows/{name}/runs/batch`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "StartBatch")]
pub(crate) struct Batch {
    #[schemars(length(min = 1, max = 1_000))]
    pub(crate) runs: Vec<OfWorkflow>,
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
    /// A workspace has one run per idempotency key, however often it is started.
    #[schemars(length(min = 1, max = 255))]
    pub(crate) idempotency_key: Option<String>,
    /// Starts the run although no worker has ever registered the workflow: the run waits for a worker. Default: a start
    /// of an unknown name is rejected.
    #[serde(default)]
    pub(crate) allow_unserved: bool,
}

fn nothing() -> Payload {
    Payload::from(json!({}))
}
