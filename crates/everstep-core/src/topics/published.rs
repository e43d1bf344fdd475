//! The events that a run has published, by the ids that it gave them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::Publication;
use crate::ids::EventId;
use crate::journal::{Entry, Event, Outcome};

/// The memory of an event beside the bytes of its id.
const EVENT_WEIGHT: usize = 96;

/// The published events of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct PublishedEvents {
    events: BTreeMap<String, PublishedEvent>,
    /// The approximate memory, in bytes.
    bytes: usize,
}

/// An event that a run has published.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PublishedEvent {
    pub(super) id: EventId,
    /// Of its topic, data and subject.
    digest: [u64; 2],
}

impl PublishedEvents {
    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    pub(crate) fn weight(&self) -> usize {
        self.bytes
    }

    /// The first event that the run has published under an id.
    pub(super) fn find(&self, event_id: &str) -> Option<&PublishedEvent> {
        self.events.get(event_id)
    }

    /// Folds an entry. The output of a step names the event that it has published, also in the journal of a fork.
    pub(crate) fn apply(&mut self, entry: &Entry) {
        let Event::StepCompleted { step, outcome: Outcome { published: Some(published), output, .. }, .. } =
            &entry.event
        else {
            return;
        };
        let Some(id) = output.value()["id"].as_str().and_then(|id| id.parse().ok()) else { return };
        let event_id = published.id.as_deref().unwrap_or(step.as_str());
        if !self.events.contains_key(event_id) {
            self.bytes += EVENT_WEIGHT + event_id.len();
            self.events.insert(event_id.to_owned(), PublishedEvent { id, digest: digest(published) });
        }
    }
}

impl PublishedEvent {
    /// Whether the event has the topic, the data and the subject of a publication.
    pub(super) fn is_same(&self, publication: &Publication) -> bool {
        self.digest == digest(publication)
    }
}

fn digest(publication: &Publication) -> [u64; 2] {
    let mut hasher = Sha256::new();
    hash_text(&mut hasher, &publication.topic);
    hasher.update([u8::from(publication.subject.is_some())]);
    hash_text(&mut hasher, publication.subject.as_deref().unwrap_or_default());
    hash_value(&mut hasher, publication.data.value());
    let digest = hasher.finalize();
    let half = |from: usize| u64::from_be_bytes(digest[from..from + 8].try_into().expect("a digest has 32 bytes"));
    [half(0), half(8)]
}

/// Equal documents have one hash, whatever the order of their fields is.
fn hash_value(hasher: &mut Sha256, value: &Value) {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            hasher.update(b"o");
            hasher.update((fields.len() as u64).to_be_bytes());
            for (name, value) in fields {
                hash_text(hasher, name);
                hash_value(hasher, value);
            }
        }
        Value::Array(items) => {
            hasher.update(b"a");
            hasher.update((items.len() as u64).to_be_bytes());
            for item in items {
                hash_value(hasher, item);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            hasher.update(b"s");
            hash_text(hasher, &value.to_string());
        }
    }
}

fn hash_text(hasher: &mut Sha256, text: &str) {
    hasher.update((text.len() as u64).to_be_bytes());
    hasher.update(text);
}
