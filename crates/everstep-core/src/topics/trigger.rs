//! The trigger of a run: why a run exists that no caller and no other run started.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::ids::SubscriptionId;
use crate::time::Timestamp;

/// The trigger of a run, as its row, its journal and clients have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Trigger {
    #[serde(rename = "type")]
    pub kind: TriggerKind,
    /// The id of the event, of the fire of a schedule, of a webhook's request or of a message.
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscription: Option<SubscriptionId>,
    /// The publisher of the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The number of events before this one in its chain.
    #[serde(default)]
    pub depth: u32,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "write_time",
        deserialize_with = "read_time"
    )]
    pub scheduled_for: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TriggerKind {
    Event,
    Schedule,
    Webhook,
    Queue,
}

impl TriggerKind {
    pub const ALL: [Self; 4] = [Self::Event, Self::Schedule, Self::Webhook, Self::Queue];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::Schedule => "schedule",
            Self::Webhook => "webhook",
            Self::Queue => "queue",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

impl Trigger {
    /// The trigger as JSON, as a run's row holds it.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a trigger is plain data")
    }
}

fn write_time<S: Serializer>(time: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => serializer.collect_str(time),
        None => serializer.serialize_none(),
    }
}

fn read_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    text.map(|text| text.parse().map_err(serde::de::Error::custom)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trigger_is_written_as_clients_read_it() {
        let trigger = Trigger {
            kind: TriggerKind::Event,
            id: "e1".to_owned(),
            topic: Some("user.signup".to_owned()),
            subscription: None,
            source: Some("shop".to_owned()),
            depth: 2,
            scheduled_for: None,
        };
        let json = trigger.to_json();
        assert_eq!(json, r#"{"type":"event","id":"e1","topic":"user.signup","source":"shop","depth":2}"#);
        assert_eq!(serde_json::from_str::<Trigger>(&json).unwrap(), trigger);
        let fired = Trigger { scheduled_for: Some(Timestamp::from_millis(1_000)), ..trigger };
        assert!(fired.to_json().ends_with(r#""scheduledFor":"1970-01-01T00:00:01Z"}"#));
        assert_eq!(serde_json::from_str::<Trigger>(&fired.to_json()).unwrap(), fired);
    }
}
