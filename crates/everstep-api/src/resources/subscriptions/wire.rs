//! Subscriptions in the API.

use everstep_core::ids::SubscriptionId;
use everstep_core::payload::Payload;
use everstep_core::topics::{self, Origin, Target};
use everstep_core::whole;
use schemars::{JsonSchema, json_schema};
use serde::{Deserialize, Deserializer, Serialize};

use crate::http::schema::{Id, Json, Object, inline_schema};
use crate::http::time::Time;

inline_schema!(
    /// A pattern of topics.
    PatternText,
    json_schema!({"type": "string", "minLength": 1, "maxLength": 255, "pattern": super::routes::PATTERN_FORM})
);

/// A pattern of topics, and the workflow that their events start.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Subscription {
    #[schemars(with = "Id")]
    id: SubscriptionId,
    pattern: String,
    #[serde(rename = "type")]
    kind: TargetType,
    /// The name of the workflow.
    name: String,
    /// The version of the workflow; null for the active version at the time of the event.
    version: Option<u32>,
    /// What the data of an event must contain, and the expression `$expr` that must be true.
    #[schemars(with = "Option<Object>")]
    filter: Option<Payload>,
    /// The input of the runs, with expressions over `event` and `payload`. Absent if the data of the event is the input.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Json")]
    input: Option<Payload>,
    /// The idempotency key of the runs, with expressions over `event` and `payload`.
    key: Option<String>,
    /// The number of days for which its runs are kept; null for that of the workflow.
    retention_days: Option<u32>,
    /// `api`: a caller has created it. `workflow`: the active version of the workflow declares it as a trigger.
    #[schemars(extend("enum" = ["api", "workflow"]))]
    origin: &'static str,
    /// Since when it is paused; null if it receives events.
    paused_at: Option<Time>,
    created_at: Time,
}

impl Subscription {
    pub(super) fn from_core(subscription: topics::Subscription) -> Self {
        let Target::Workflow { name, version, retention_days, key } = subscription.target;
        Self {
            id: subscription.id,
            pattern: subscription.pattern.into(),
            kind: TargetType::Workflow,
            name,
            version,
            filter: subscription.filter.map(|filter| filter.written().clone()),
            input: subscription.input,
            key,
            retention_days,
            origin: match subscription.origin {
                Origin::Api => "api",
                Origin::Workflow(_) => "workflow",
            },
            paused_at: subscription.paused_at.map(Time::from_timestamp),
            created_at: Time::from_timestamp(subscription.created_at),
        }
    }
}

/// A page of subscriptions, oldest first.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Subscriptions {
    pub(super) subscriptions: Vec<Subscription>,
    /// The cursor of the next page; null on the last one.
    pub(super) next_cursor: Option<String>,
}

/// What receives the events of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TargetType {
    /// A run of a workflow starts.
    Workflow,
    /// Not available on this server.
    Queue,
    /// Not available on this server.
    Http,
    /// Not available on this server.
    Https,
}

/// `POST /v1/topics/{pattern}/subscriptions`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SubscribeRequest {
    #[serde(rename = "type")]
    #[expect(dead_code, reason = "it was read before the other fields, which depend on it")]
    kind: TargetType,
    /// The name of the workflow. It may be saved or registered later.
    #[schemars(length(min = 1, max = 128))]
    pub(super) name: String,
    /// A version of the workflow; the active one at the time of the event by default.
    #[serde(default, deserialize_with = "whole::optional")]
    #[schemars(range(min = 1, max = 2_147_483_647))]
    pub(super) version: Option<u32>,
    /// What the data of an event must contain, at any depth; and `$expr`, an expression over `event` and `payload` that
    /// must be true. All events by default.
    #[schemars(with = "Option<Object>")]
    pub(super) filter: Option<Payload>,
    /// The input of the runs, with expressions over `event` and `payload`; the data of the event by default.
    #[serde(default)]
    #[schemars(with = "Json")]
    pub(super) input: Option<Payload>,
    /// The idempotency key of the runs, with expressions over `event` and `payload`: the workflow has one run per key.
    #[schemars(length(min = 1, max = 1_024))]
    pub(super) key: Option<String>,
    /// The number of days for which the runs are kept after their end.
    #[serde(default, deserialize_with = "whole::optional")]
    pub(super) retention_days: Option<u32>,
}

/// `PATCH /v1/subscriptions/{id}`: an absent field does not change; null removes its value.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "SubscriptionChange")]
pub(crate) struct ChangeRequest {
    #[schemars(with = "Option<PatternText>")]
    pub(super) pattern: Option<String>,
    /// The name of the workflow.
    #[schemars(length(min = 1, max = 128))]
    pub(super) name: Option<String>,
    #[serde(default, deserialize_with = "given_number")]
    #[schemars(with = "Option<u32>", range(min = 1, max = 2_147_483_647))]
    pub(super) version: Option<Option<u32>>,
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "Option<Object>")]
    pub(super) filter: Option<Option<Payload>>,
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "Json")]
    pub(super) input: Option<Option<Payload>>,
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "Option<String>", length(min = 1, max = 1_024))]
    pub(super) key: Option<Option<String>>,
    #[serde(default, deserialize_with = "given_number")]
    #[schemars(with = "Option<u32>")]
    pub(super) retention_days: Option<Option<u32>>,
}

/// The value of a field that the request contains, which may be null.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

fn given_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<u32>>, D::Error> {
    whole::optional(deserializer).map(Some)
}
