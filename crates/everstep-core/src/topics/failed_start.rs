//! A workflow that an event could not start, as its dead letter contains it.

use serde::{Deserialize, Serialize};

use super::{Origin, Pattern, Subscription, Target, TopicEvent};
use crate::dead_letter::{DeadLetter, DeadLetterAttempt, DeadLetterSource};
use crate::failure::Failure;
use crate::ids::{EventId, SubscriptionId, WorkspaceId};
use crate::payload::Payload;
use crate::time::Timestamp;

/// The kind of the dead letter.
const KIND: &str = "workflow";
/// The size of an event whose data the dead letter contains. An event can have thousands of dead letters; a larger event
/// is read again when the start is requeued, as long as it is kept.
const EVENT_BYTES_MAX: usize = 16 * 1024;

/// The event, and the subscription as it was, which need not exist when the start is requeued.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FailedStart {
    event: StoredEvent,
    subscription: SubscriptionId,
    target: Target,
    /// The template of the input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    input: Option<Payload>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredEvent {
    id: EventId,
    topic: String,
    source: String,
    event_id: String,
    at: Timestamp,
    /// None if the event is large.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<Payload>,
    depth: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    subject: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    extensions: Option<Payload>,
}

impl FailedStart {
    /// The dead letter of a start that failed at a time.
    pub fn dead_letter(
        subscription: &Subscription,
        event: &TopicEvent,
        failure: &Failure,
        at: Timestamp,
    ) -> DeadLetter {
        let Target::Workflow { name, .. } = &subscription.target;
        let (_, key) = subscription.start_key(event.id);
        DeadLetter {
            id: DeadLetter::id_of_start(event.id, subscription.id, at),
            workspace: event.workspace,
            source: DeadLetterSource::Start,
            kind: KIND.to_owned(),
            run: None,
            workflow: Some(name.clone()),
            step: None,
            delivery: key,
            history: None,
            event: Some(event.id),
            subscription: Some(subscription.id),
            target: name.clone(),
            config: Self::new(subscription, event).to_payload(),
            secrets: Vec::new(),
            written: None,
            attempts: vec![DeadLetterAttempt::failed(at, 0, failure)],
            created_at: at,
        }
    }

    fn new(subscription: &Subscription, event: &TopicEvent) -> Self {
        let is_small = event.size() <= EVENT_BYTES_MAX;
        Self {
            event: StoredEvent {
                id: event.id,
                topic: event.topic.clone(),
                source: event.source.clone(),
                event_id: event.event_id.clone(),
                at: event.at,
                data: is_small.then(|| event.data.clone()),
                depth: event.depth,
                subject: event.subject.clone(),
                extensions: event.extensions.clone().filter(|_| is_small),
            },
            subscription: subscription.id,
            target: subscription.target.clone(),
            input: subscription.input.clone(),
        }
    }

    fn to_payload(&self) -> Payload {
        let json = serde_json::to_string(self).expect("a failed start is plain data");
        Payload::from_json(json).expect("it is JSON")
    }

    /// The failed start of a config. The reason is for people.
    pub fn from_config(config: &Payload) -> Result<Self, String> {
        serde_json::from_str(config.json()).map_err(|error| error.to_string())
    }

    /// The event, which must be read if its data is not part of the dead letter.
    pub fn event_to_read(&self) -> Option<EventId> {
        self.event.data.is_none().then_some(self.event.id)
    }

    /// The event, and the subscription as it was. `read` is the event that was read.
    pub fn into_parts(
        self,
        workspace: WorkspaceId,
        read: Option<TopicEvent>,
    ) -> Result<(TopicEvent, Subscription), String> {
        let at = self.event.at;
        let event = match read {
            Some(event) => event,
            None => self.event.into_event(workspace).ok_or("the event is no longer stored")?,
        };
        let subscription = Subscription {
            id: self.subscription,
            workspace,
            pattern: Pattern::parse(&event.topic)?,
            filter: None,
            target: self.target,
            input: self.input,
            origin: Origin::Api,
            paused_at: None,
            created_at: at,
        };
        Ok((event, subscription))
    }
}

impl StoredEvent {
    /// The event; none if its data is not stored.
    fn into_event(self, workspace: WorkspaceId) -> Option<TopicEvent> {
        let Self { id, topic, source, event_id, at, data, depth, subject, extensions } = self;
        let (data, replay_of) = (data?, None);
        Some(TopicEvent { id, workspace, topic, source, event_id, at, data, depth, subject, extensions, replay_of })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_dead_letter_contains_the_event_and_the_subscription() {
        let (at, workspace) = (Timestamp::from_millis(5), WorkspaceId::DEFAULT);
        let event = TopicEvent {
            id: EventId::from_uuid(Uuid::from_u128(1)),
            workspace,
            topic: "order.paid".to_owned(),
            source: "till".to_owned(),
            event_id: "p-1".to_owned(),
            at,
            data: Payload::from(json!({"order": 7})),
            depth: 2,
            subject: Some("7".to_owned()),
            extensions: None,
            replay_of: None,
        };
        let target = Target::Workflow { name: "ship".to_owned(), version: Some(3), retention_days: None, key: None };
        let subscription = Subscription {
            id: SubscriptionId::from_uuid(Uuid::from_u128(2)),
            workspace,
            pattern: Pattern::parse("order.paid").unwrap_or_else(|error| panic!("{error}")),
            filter: None,
            target,
            input: Some(Payload::from(json!({"n": "{{payload.order}}"}))),
            origin: Origin::Api,
            paused_at: None,
            created_at: at,
        };
        let failure = Failure::fatal("WORKFLOW_NOT_FOUND", "no workflow ship");
        let letter = FailedStart::dead_letter(&subscription, &event, &failure, Timestamp::from_millis(9));
        assert_eq!((letter.error(), letter.target.as_str()), ("WORKFLOW_NOT_FOUND", "ship"));
        assert_eq!(letter.delivery, subscription.start_key(event.id).1);
        let failed = FailedStart::from_config(&letter.config).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(failed.event_to_read(), None);
        assert_eq!(failed.into_parts(workspace, None), Ok((event.clone(), subscription.clone())));

        // A large event is not copied.
        let large = TopicEvent { data: Payload::from(json!("x".repeat(20_000))), ..event };
        let letter = FailedStart::dead_letter(&subscription, &large, &failure, Timestamp::from_millis(9));
        assert!(letter.size() < 2_000);
        let failed = FailedStart::from_config(&letter.config).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(failed.event_to_read(), Some(large.id));
        assert!(failed.clone().into_parts(workspace, None).is_err());
        assert_eq!(failed.into_parts(workspace, Some(large.clone())), Ok((large, subscription)));
    }
}
