//! The inbox in the API.

use everstep_core::ids::{RunId, StepKey};
use everstep_core::payload::Payload;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::http::schema::{Id, Json, Object};
use crate::http::time::Time;

/// A page of the inbox, oldest run first.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Inbox {
    pub(crate) inbox: Vec<InboxItem>,
    /// The cursor of the next page; null on the last one.
    pub(crate) next_cursor: Option<String>,
}

/// One decision that the caller can make.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InboxItem {
    /// `wait`: an approval, which is answered by the signal with `{"approved": true}` or `{"approved": false}`. Later
    /// releases add kinds.
    pub(crate) kind: &'static str,
    #[schemars(with = "Id")]
    pub(crate) run: RunId,
    pub(crate) workflow: String,
    #[schemars(with = "String")]
    pub(crate) step: StepKey,
    /// The name of the signal.
    pub(crate) signal: String,
    /// The JSON that the payload of the signal must contain.
    #[serde(rename = "match")]
    #[schemars(with = "Json")]
    pub(crate) pattern: Payload,
    /// The name of the step in the definition.
    pub(crate) title: Option<String>,
    pub(crate) since: Option<Time>,
    /// When the wait ends without a decision.
    pub(crate) due: Option<Time>,
    /// The config of the wait, as it was evaluated.
    #[schemars(with = "Option<Object>")]
    pub(crate) about: Option<Value>,
}
