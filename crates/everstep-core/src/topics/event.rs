//! A published event.

use serde::{Deserialize, Serialize};

use crate::ids::{EventId, SubscriptionId, WorkspaceId};
use crate::payload::Payload;
use crate::time::Timestamp;

/// An immutable fact that a publisher has published once.
#[derive(Clone, Debug, PartialEq)]
pub struct TopicEvent {
    pub id: EventId,
    pub workspace: WorkspaceId,
    pub topic: String,
    /// The publisher: the source that the caller names, or `run:` and the id of a run.
    pub source: String,
    /// The id that the publisher gave to the event: a source publishes it once.
    pub event_id: String,
    pub at: Timestamp,
    pub data: Payload,
    /// The number of events before it in its chain: a run that an event started publishes with the next number.
    pub depth: u32,
    pub subject: Option<String>,
    /// Attributes of a CloudEvent that have no field of their own, as an object.
    pub extensions: Option<Payload>,
    /// The event of which this one is a replay, and the only subscription that receives it.
    pub replay_of: Option<(EventId, SubscriptionId)>,
}

impl TopicEvent {
    /// The facts that a step keeps about the event.
    pub fn reference(&self) -> EventRef {
        EventRef { id: self.id, topic: self.topic.clone(), source: self.source.clone(), at: self.at }
    }

    /// The size of its texts and data in bytes.
    pub fn size(&self) -> usize {
        let texts = [&self.topic, &self.source, &self.event_id].map(String::len).iter().sum::<usize>();
        let extensions = self.extensions.as_ref().map_or(0, Payload::size);
        texts + self.data.size() + extensions + self.subject.as_ref().map_or(0, String::len)
    }
}

/// The facts about an event that the record of a step keeps, beside the data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EventRef {
    pub id: EventId,
    pub topic: String,
    pub source: String,
    pub at: Timestamp,
}

/// The beginning of the idempotency key of an event.
const KEY_PREFIX: &str = "evt:";

impl EventRef {
    /// The idempotency key under which a run takes the event once.
    pub fn key(&self) -> String {
        format!("{KEY_PREFIX}{}", self.id)
    }

    /// The event that has this idempotency key.
    pub(crate) fn id_of_key(key: &str) -> Option<EventId> {
        key.strip_prefix(KEY_PREFIX)?.parse().ok()
    }

    /// The facts as expressions and clients see them.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "id": self.id.to_string(),
            "topic": self.topic,
            "source": self.source,
            "at": self.at.to_string(),
        })
    }
}
