//! Events in the API.

use std::collections::BTreeMap;

use everstep_core::ids::{EventId, RunId, StepKey, SubscriptionId};
use everstep_core::payload::Payload;
use everstep_store::{ListedEvent, MatchCounts};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::draft::EventDraft;
use crate::http::problem::{Document, Problem};
use crate::http::schema::{Id, Json, Moment, Object, inline_schema};
use crate::http::time::Time;

inline_schema!(
    /// The topic of an event.
    TopicName,
    json_schema!({"type": "string", "minLength": 1, "maxLength": 255, "pattern": super::routes::TOPIC_PATTERN})
);

/// `POST /v1/events`: one event, or many.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "the schema of a body that is read in two steps")]
pub(crate) enum PublishRequest {
    One(PublishEvent),
    Many(PublishEvents),
}

/// An event to be published.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PublishEvent {
    #[schemars(with = "TopicName")]
    topic: String,
    /// Any JSON, at most 1 MiB; null by default.
    #[serde(default = "Payload::null")]
    #[schemars(with = "Json")]
    data: Payload,
    /// An event is published once per source and id, for as long as the event is kept.
    #[schemars(length(min = 1, max = 255))]
    id: Option<String>,
    /// The part of your system in which the fact occurred; `api` by default.
    #[schemars(length(min = 1, max = 255))]
    source: Option<String>,
    /// What the fact is about, within its source.
    #[schemars(length(min = 1, max = 255))]
    subject: Option<String>,
}

/// Events to be published together. Each is accepted or rejected separately.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PublishEvents {
    #[schemars(with = "Vec<PublishEvent>", length(min = 1, max = 1_000))]
    pub(super) events: Vec<Payload>,
}

impl PublishEvent {
    pub(super) fn into_draft(self) -> EventDraft {
        let Self { topic, data, id, source, subject } = self;
        EventDraft { topic, data, id, source, subject, extensions: serde_json::Map::new() }
    }
}

/// An event in the JSON format of CloudEvents 1.0. Its `type` is the topic.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "the schema of a body whose members are read one by one")]
pub(crate) struct CloudEvent {
    /// `1.0`.
    #[schemars(extend("enum" = ["1.0"]))]
    specversion: String,
    #[schemars(length(min = 1, max = 255))]
    id: String,
    #[schemars(length(min = 1, max = 255))]
    source: String,
    #[serde(rename = "type")]
    #[schemars(with = "TopicName")]
    kind: String,
    #[schemars(length(min = 1, max = 255))]
    subject: Option<String>,
    /// A media type of JSON; `application/json` by default.
    #[schemars(length(min = 1))]
    datacontenttype: Option<String>,
    #[schemars(length(min = 1))]
    dataschema: Option<String>,
    #[schemars(with = "Option<Moment>")]
    time: Option<String>,
    #[serde(default)]
    #[schemars(with = "Json")]
    data: Option<Payload>,
    /// All other attributes are kept: texts, booleans and whole numbers.
    #[serde(flatten)]
    #[schemars(with = "BTreeMap<String, ExtensionValue>")]
    extensions: BTreeMap<String, Value>,
}

inline_schema!(
    /// The value of an attribute of a CloudEvent.
    ExtensionValue,
    json_schema!({"type": ["string", "boolean", "integer", "null"]})
);

/// CloudEvents that are published together.
pub(crate) struct CloudEvents;

impl JsonSchema for CloudEvents {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "CloudEvents".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let event = generator.subschema_for::<CloudEvent>();
        json_schema!({"type": "array", "minItems": 1, "maxItems": 1_000, "items": event})
    }
}

/// An event that was published.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PublishedEvent {
    /// The id of the event on this server.
    #[schemars(with = "Id")]
    pub(super) id: EventId,
    pub(super) topic: String,
    /// False if an event with this source and id was published before.
    pub(super) created: bool,
    /// What the event has reached, once its fan-out is done. Absent before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) matched: Option<MatchedCounts>,
}

/// What an event has reached.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub(crate) struct MatchedCounts {
    /// Runs that it has started.
    pub(super) workflows: u64,
    /// Queues that have received it.
    pub(super) queues: u64,
    /// HTTP targets.
    pub(super) http: u64,
    /// Open waits that have received it.
    pub(super) waits: u64,
    /// Subscriptions that could not start a run, or whose expression failed.
    pub(super) failed: u64,
}

impl MatchedCounts {
    pub(super) fn from_counts(counts: MatchCounts) -> Self {
        let MatchCounts { workflows, queues, http, waits, failed } = counts;
        Self { workflows, queues, http, waits, failed }
    }
}

/// The response to a publish of one event, or of many.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum PublishResponse {
    One(PublishedEvent),
    Many(PublishedEvents),
}

/// The response to a publish of many events, in their order.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PublishedEvents {
    pub(super) events: Vec<PublishedItem>,
}

/// The result of one event of many: the event, or an error.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PublishedItem {
    /// The id of the event on this server.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Id>")]
    id: Option<EventId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    topic: Option<String>,
    /// False if an event with this source and id was published before.
    #[serde(skip_serializing_if = "Option::is_none")]
    created: Option<bool>,
    /// What the event has reached, once its fan-out is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    matched: Option<MatchedCounts>,
    /// Why it was not published.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Document>,
}

impl PublishedItem {
    pub(super) fn from_result(published: Result<PublishedEvent, Problem>) -> Self {
        match published {
            Ok(PublishedEvent { id, topic, created, matched }) => {
                Self { id: Some(id), topic: Some(topic), created: Some(created), matched, error: None }
            }
            Err(problem) => {
                Self { id: None, topic: None, created: None, matched: None, error: Some(problem.document()) }
            }
        }
    }

    pub(super) fn is_published(&self) -> bool {
        self.error.is_none()
    }
}

/// A published event, without its data.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Event {
    #[schemars(with = "Id")]
    id: EventId,
    topic: String,
    /// The publisher: the source that it has named, `api` if it has named none, or `run:` and the id of a run.
    source: String,
    /// The id that the publisher has given to the event; otherwise `id`.
    event_id: String,
    subject: Option<String>,
    /// When it was published.
    at: Time,
    /// The number of events before it in its chain: a run that an event has started publishes with the next number.
    depth: u32,
    /// The event of which it is a replay.
    #[schemars(with = "Option<Id>")]
    replay_of: Option<EventId>,
    /// The other attributes of a CloudEvent.
    #[schemars(with = "Object")]
    extensions: Payload,
    /// When it had reached all subscriptions and waits; null while its fan-out continues.
    fanned_at: Option<Time>,
    /// What it has reached so far.
    matched: MatchedCounts,
}

impl Event {
    pub(super) fn from_listed(event: ListedEvent) -> Self {
        Self {
            id: event.id,
            topic: event.topic,
            source: event.source,
            event_id: event.event_id,
            subject: event.subject,
            at: Time::from_timestamp(event.at),
            depth: event.depth,
            replay_of: event.replay_of,
            extensions: event.extensions.unwrap_or_else(|| Payload::from(json!({}))),
            fanned_at: event.fanned_at.map(Time::from_timestamp),
            matched: MatchedCounts::from_counts(event.matched),
        }
    }
}

/// A page of events, newest first.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Events {
    pub(super) events: Vec<Event>,
    /// The cursor of the next page; null on the last one.
    pub(super) next_cursor: Option<String>,
}

/// A published event, and a page of its results.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventDetail {
    #[serde(flatten)]
    pub(super) event: Event,
    #[schemars(with = "Json")]
    pub(super) data: Payload,
    pub(super) results: Vec<EventResult>,
    /// The cursor of the next page of results; null on the last one.
    pub(super) next_cursor: Option<String>,
}

/// One result of an event's fan-out.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase")]
pub(crate) enum EventResult {
    /// The subscription has started a run.
    Run {
        #[schemars(with = "Id")]
        subscription: SubscriptionId,
        #[schemars(with = "Id")]
        run: RunId,
    },
    /// An open wait of a run has received the event.
    Wait {
        #[schemars(with = "Id")]
        run: RunId,
        #[schemars(with = "String")]
        step: StepKey,
    },
    /// The subscription could not start a run, or its expression failed.
    Failed {
        #[schemars(with = "Id")]
        subscription: SubscriptionId,
        code: String,
        message: String,
    },
}

impl EventResult {
    pub(super) fn from_store(result: everstep_store::EventResult) -> Self {
        match result {
            everstep_store::EventResult::Run { subscription, run } => Self::Run { subscription, run },
            everstep_store::EventResult::Wait { run, step } => Self::Wait { run, step },
            everstep_store::EventResult::Failed { subscription, code, message } => {
                Self::Failed { subscription, code, message }
            }
        }
    }
}

/// `POST /v1/events/{id}/replay`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReplayRequest {
    /// The only subscription that receives the event again.
    #[schemars(with = "Id")]
    pub(super) subscription: String,
}
