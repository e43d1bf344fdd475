//! The names that the expressions of a subscription read.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::TopicEvent;
use crate::evaluate::{Lookup, Reference};

/// An event as expressions see it: `event` is the whole event, `payload` is its data.
pub struct EventView<'a> {
    event: &'a TopicEvent,
    /// The event as JSON.
    value: Value,
}

impl<'a> EventView<'a> {
    pub fn new(event: &'a TopicEvent) -> Self {
        let mut value = event.reference().to_json();
        value["eventId"] = event.event_id.as_str().into();
        value["subject"] = event.subject.as_deref().into();
        value["depth"] = event.depth.into();
        value["data"] = event.data.value().clone();
        if let Some(extensions) = &event.extensions {
            value["extensions"] = extensions.value().clone();
        }
        Self { event, value }
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
        self.event.data.value()
    }

    fn local(&self, name: &str) -> Option<Cow<'_, Value>> {
        (name == "event").then_some(Cow::Borrowed(&self.value))
    }

    fn meta(&self) -> Value {
        json!({})
    }
}
