//! Events that start runs and resolve waits.

use everstep_core::ids::EventId;
use everstep_core::topics::{self, EventRef};
use schemars::JsonSchema;
use serde::Serialize;

use crate::http::schema::Id;
use crate::http::time::Time;

/// Why a run exists that no caller and no other run has started.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RunTrigger")]
pub(crate) struct Trigger {
    /// `event`: a published event.
    #[serde(rename = "type")]
    #[schemars(extend("enum" = ["event", "schedule", "webhook", "queue"]))]
    kind: &'static str,
    /// The id of the event.
    id: String,
    topic: Option<String>,
    /// The subscription that has received the event.
    #[schemars(with = "Option<Id>")]
    subscription: Option<String>,
    /// The source of the event.
    source: Option<String>,
    /// The number of events before this one in its chain: runs that events start publish events in turn.
    depth: u32,
    /// The time for which the run was planned; null for events.
    scheduled_for: Option<Time>,
}

impl Trigger {
    pub(crate) fn from_core(trigger: topics::Trigger) -> Self {
        Self {
            kind: trigger.kind.as_str(),
            id: trigger.id,
            topic: trigger.topic,
            subscription: trigger.subscription.map(|id| id.to_string()),
            source: trigger.source,
            depth: trigger.depth,
            scheduled_for: trigger.scheduled_for.map(Time::from_timestamp),
        }
    }
}

/// A published event that has resolved a wait.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct ResolvingEvent {
    #[schemars(with = "Id")]
    id: EventId,
    topic: String,
    source: String,
    /// When it was published.
    at: Time,
}

impl ResolvingEvent {
    pub(crate) fn from_core(event: EventRef) -> Self {
        Self { id: event.id, topic: event.topic, source: event.source, at: Time::from_timestamp(event.at) }
    }
}
