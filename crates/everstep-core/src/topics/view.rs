//! The names that the expressions of a subscription read.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::TopicEvent;
use crate::evaluate::{Fields, Lookup, Reference};

/// An event as expressions see it: `event` is the whole event, `payload` is its data. The data is not copied: a slice of a
/// fan-out makes a view for each of hundreds of subscriptions.
pub struct EventView<'a>(&'a TopicEvent);

impl<'a> EventView<'a> {
    pub fn new(event: &'a TopicEvent) -> Self {
        Self(event)
    }

    /// Why an expression of a subscription cannot read a name.
    pub(super) fn refuse(reference: &Reference) -> Option<String> {
        let is_known = matches!(reference.root.as_str(), "event" | "payload");
        (!is_known).then(|| format!("{:?} is not known here: use `event` or `payload`", reference.root))
    }
}

impl Lookup for EventView<'_> {
    fn variable(&self, _name: &str) -> Option<Cow<'_, Value>> {
        None
    }

    fn names(&self) -> Vec<String> {
        Vec::new()
    }

    fn payload(&self) -> &Value {
        self.0.data.value()
    }

    fn local(&self, _name: &str) -> Option<Cow<'_, Value>> {
        None
    }

    fn local_fields(&self, name: &str) -> Option<Fields<'_>> {
        if name != "event" {
            return None;
        }
        let TopicEvent { id, topic, source, event_id, at, data, depth, subject, extensions, .. } = self.0;
        let owned = |name: &'static str, value: Value| (Cow::Borrowed(name), Cow::Owned(value));
        let mut fields = vec![
            owned("id", id.to_string().into()),
            owned("topic", topic.as_str().into()),
            owned("source", source.as_str().into()),
            owned("at", at.to_string().into()),
            owned("eventId", event_id.as_str().into()),
            owned("subject", subject.as_deref().into()),
            owned("depth", (*depth).into()),
            (Cow::Borrowed("data"), Cow::Borrowed(data.value())),
        ];
        fields.extend(extensions.as_ref().map(|value| (Cow::Borrowed("extensions"), Cow::Borrowed(value.value()))));
        Some(fields)
    }

    fn meta(&self) -> Value {
        json!({})
    }
}
