//! Subscriptions: patterns of topics with a target.

use serde::{Deserialize, Serialize};

use super::{EventView, Filter, Pattern, TopicEvent};
use crate::evaluate::{Evaluate, Fault};
use crate::failure::Failure;
use crate::ids::{EventId, SubscriptionId, WorkspaceId};
use crate::meter::Meter;
use crate::payload::Payload;
use crate::time::Timestamp;

/// A pattern of topics with a target that receives their events.
#[derive(Clone, Debug, PartialEq)]
pub struct Subscription {
    pub id: SubscriptionId,
    pub workspace: WorkspaceId,
    pub pattern: Pattern,
    pub filter: Option<Filter>,
    pub target: Target,
    /// The template of the input, with expressions over `event` and `payload`; the data if there is none.
    pub input: Option<Payload>,
    pub origin: Origin,
    /// While it is set, the subscription receives nothing.
    pub paused_at: Option<Timestamp>,
    pub created_at: Timestamp,
}

/// What receives an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Target {
    /// A run of the workflow starts.
    Workflow {
        name: String,
        /// `None` is the version that is active when the run is created.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<u32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retention_days: Option<u32>,
        /// The template of an idempotency key of the start, over `event` and `payload`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
}

/// Where a subscription comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A caller has created it.
    Api,
    /// The active version of a workflow declares it.
    Workflow(String),
}

impl Subscription {
    /// Whether the subscription receives an event, apart from its filter.
    ///
    /// 1. Its pattern matches the topic, and it is not paused.
    /// 2. It was created before the event was published.
    /// 3. A replay reaches only the subscription that it names, whenever that was created.
    pub fn receives(&self, event: &TopicEvent) -> bool {
        let is_addressed = match event.replay_of {
            Some((_, subscription)) => subscription == self.id,
            None => self.created_at <= event.at,
        };
        is_addressed && self.paused_at.is_none() && self.pattern.matches(&event.topic)
    }

    /// The input of the run that an event starts.
    pub fn resolve_input(
        &self,
        event: &TopicEvent,
        evaluate: &dyn Evaluate,
        meter: &Meter,
    ) -> Result<Payload, Failure> {
        meter.begin_part();
        match &self.input {
            None => Ok(event.data.clone()),
            Some(template) => evaluate.resolve(template.value(), &EventView::new(event), meter).map(Payload::from),
        }
    }

    /// The key of the start for an event, in the scope `event`: a second guard against a second run.
    pub fn start_key(&self, event: EventId) -> (String, String) {
        (Self::KEY_SCOPE.to_owned(), format!("{}:{event}", self.id))
    }

    /// The scope of the keys of starts by events.
    pub const KEY_SCOPE: &'static str = "event";

    /// The faults of a template over `event` and `payload`.
    pub fn check_template(template: &serde_json::Value, evaluate: &dyn Evaluate) -> Vec<Fault> {
        let mut faults = evaluate.check(template);
        let references = evaluate.references(template);
        faults.extend(references.iter().filter_map(|reference| {
            let message = EventView::refuse(reference)?;
            Some(Fault { pointer: reference.pointer.clone(), message })
        }));
        faults
    }
}
