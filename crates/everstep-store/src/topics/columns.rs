//! Columns of events and subscriptions, in the types of the core.

use everstep_core::ids::{EventId, SubscriptionId, WorkspaceId};
use everstep_core::payload::Payload;
use everstep_core::time::Timestamp;
use everstep_core::topics::{Filter, Origin, Pattern, Subscription, Target, TopicEvent};
use uuid::Uuid;

use super::rows::{EventQuery, EventResult, EventRow, FanOutPosition, MatchCounts, PublishOutcome};
use crate::access::first_id;
use crate::error::{Error, Result};
use crate::pack::{self, Codec};

/// The columns of an event, as a database returns them.
pub(crate) struct EventColumns {
    pub(crate) workspace: Uuid,
    pub(crate) id: Uuid,
    pub(crate) topic: String,
    pub(crate) source: String,
    pub(crate) event_id: String,
    pub(crate) at: Timestamp,
    pub(crate) depth: u32,
    pub(crate) subject: Option<String>,
    pub(crate) extensions: Option<Vec<u8>>,
    pub(crate) replay: Option<(Uuid, Uuid)>,
    /// The unpacked data.
    pub(crate) data: Vec<u8>,
    pub(crate) cursor: String,
    pub(crate) matched: MatchCounts,
    pub(crate) fanned_at: Option<Timestamp>,
}

impl EventColumns {
    pub(crate) fn into_row(self) -> Result<EventRow> {
        let position = FanOutPosition::from_text(&self.cursor)
            .ok_or_else(|| Error::Corrupt(format!("the cursor of the event {} is unknown to this build", self.id)))?;
        let event = TopicEvent {
            id: EventId::from_uuid(self.id),
            workspace: WorkspaceId::from_uuid(self.workspace),
            topic: self.topic,
            source: self.source,
            event_id: self.event_id,
            at: self.at,
            data: payload(self.data)?,
            depth: self.depth,
            subject: self.subject,
            extensions: self.extensions.map(payload).transpose()?,
            replay_of: self.replay.map(|(of, to)| (EventId::from_uuid(of), SubscriptionId::from_uuid(to))),
        };
        Ok(EventRow { event, position, fanned_at: self.fanned_at, matched: self.matched })
    }
}

/// The columns of a subscription, as a database returns them.
pub(crate) struct SubscriptionColumns {
    pub(crate) workspace: Uuid,
    pub(crate) id: Uuid,
    pub(crate) pattern: String,
    pub(crate) filter: Option<Vec<u8>>,
    pub(crate) target: String,
    pub(crate) input: Option<Vec<u8>>,
    pub(crate) origin: Option<String>,
    pub(crate) paused_at: Option<Timestamp>,
    pub(crate) created_at: Timestamp,
}

impl SubscriptionColumns {
    pub(crate) fn into_subscription(self) -> Result<Subscription> {
        let id = SubscriptionId::from_uuid(self.id);
        let corrupt =
            |what: &str, reason: &str| Error::Corrupt(format!("the {what} of the subscription {id}: {reason}"));
        let filter = self.filter.map(payload).transpose()?;
        let filter = filter.map(|filter| Filter::from_stored(&filter)).transpose();
        let target: Target =
            serde_json::from_str(&self.target).map_err(|error| corrupt("target", &error.to_string()))?;
        Ok(Subscription {
            id,
            workspace: WorkspaceId::from_uuid(self.workspace),
            pattern: Pattern::parse(&self.pattern).map_err(|reason| corrupt("pattern", &reason))?,
            filter: filter.map_err(|fault| corrupt("filter", &fault.message))?,
            target,
            input: self.input.map(payload).transpose()?,
            origin: self.origin.map_or(Origin::Api, Origin::Workflow),
            paused_at: self.paused_at,
            created_at: self.created_at,
        })
    }
}

/// The target of a subscription, as its column has it.
pub(crate) fn target_json(target: &Target) -> String {
    serde_json::to_string(target).expect("a target is plain data")
}

/// The filter of a subscription, as its column has it.
pub(crate) fn subscription_filter(subscription: &Subscription) -> Option<&[u8]> {
    subscription.filter.as_ref().map(|filter| filter.written().json().as_bytes())
}

/// A JSON document as the columns `codec` and bytes.
pub(crate) fn pack_json(json: &str) -> (Codec, Vec<u8>) {
    pack::pack(json.as_bytes().to_vec())
}

pub(crate) fn results_json(results: &[EventResult]) -> String {
    serde_json::to_string(results).expect("results are plain data")
}

/// The results of a slice. Kinds of results of a later release are left out.
pub(crate) fn read_results(bytes: &[u8]) -> Result<Vec<EventResult>> {
    let results: Vec<serde_json::Value> =
        serde_json::from_slice(bytes).map_err(|error| Error::Corrupt(format!("results of an event: {error}")))?;
    Ok(results.into_iter().filter_map(|result| serde_json::from_value(result).ok()).collect())
}

impl EventQuery {
    /// The range of ids of a page: from the first, before the second.
    pub(crate) fn bounds(&self) -> (Uuid, Uuid) {
        let from = self.since.map_or(Uuid::nil(), first_id);
        let until = self.until.map_or(Uuid::max(), first_id);
        (from, self.before.map_or(until, |before| before.uuid().min(until)))
    }
}

impl PublishOutcome {
    /// The outcome of an event that was not written, by the event that has its source and id.
    pub(crate) fn of_known(event: &TopicEvent, known: EventRow) -> Self {
        if known.event.id == event.id {
            return Self::Published;
        }
        let is_same = known.event.topic == event.topic
            && known.event.subject == event.subject
            && known.event.data.value() == event.data.value();
        if is_same { Self::Known(Box::new(known)) } else { Self::Reused(known.event.id) }
    }
}

pub(crate) fn payload(bytes: Vec<u8>) -> Result<Payload> {
    let text = String::from_utf8(bytes).map_err(|error| Error::Corrupt(error.to_string()))?;
    Payload::from_json(text).map_err(|error| Error::Corrupt(error.to_string()))
}
