//! Triggers that a definition declares: events that start runs of its workflow.
//!
//! A definition has `trigger` (one) or `triggers` (a list) beside its nodes or states; the registration of a code
//! workflow has a list too. They are stored in the definition as one list in canonical form, so that the store replaces
//! the subscriptions of a workflow when another version becomes active.

use serde_json::{Map, Value, json};

use super::{Filter, Pattern, Subscription};
use crate::definition::{Fields, Problem};
use crate::evaluate::{Evaluate, Fault};
use crate::payload::Payload;

/// Triggers of one definition.
pub const TRIGGERS_MAX: usize = 20;

const TOPIC_HINT: &str = "write for example \"user.signup\" or \"order.*\"";

/// An event trigger of a definition.
#[derive(Clone, Debug, PartialEq)]
pub struct DeclaredTrigger {
    pub pattern: Pattern,
    pub filter: Option<Filter>,
    /// The template of the run's input; the data of the event if there is none.
    pub input: Option<Payload>,
}

/// The types of triggers that definitions name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TriggerType {
    Event,
    Manual,
    /// A type that this build knows and does not support, with the reason.
    Unsupported(&'static str),
}

const TYPES: &[(&str, TriggerType)] = &[
    ("event", TriggerType::Event),
    ("manual", TriggerType::Manual),
    ("schedule", TriggerType::Unsupported("schedule triggers come with schedules")),
    ("recurring", TriggerType::Unsupported("recurring triggers come with schedules")),
    ("webhook", TriggerType::Unsupported("webhook triggers come with webhooks")),
];

impl DeclaredTrigger {
    /// Reads a trigger as a worker registers it: `{event, match}`.
    pub fn from_registration(value: &Value, evaluate: &dyn Evaluate) -> Result<Self, Fault> {
        let mut problems = Vec::new();
        let trigger = read_event(value, "", Some(evaluate), &["event", "topic"], &mut problems);
        match (trigger, problems.into_iter().next()) {
            (Some((trigger, _)), None) => Ok(trigger),
            (_, problem) => {
                let problem = problem.unwrap_or_else(|| Problem::at("", "is not a trigger"));
                Err(Fault { pointer: problem.path, message: problem.message })
            }
        }
    }

    /// The event triggers of a stored definition, of any style.
    pub fn of_definition(definition: &Payload) -> Vec<Self> {
        // Most definitions have none; they are not parsed to find that out.
        if !definition.json().contains("\"triggers\"") {
            return Vec::new();
        }
        let triggers = definition.value().get("triggers").and_then(Value::as_array);
        let is_event = |trigger: &&Value| trigger.get("type").and_then(Value::as_str) == Some("event");
        let read = |trigger| Some(read_event(trigger, "", None, &["topic"], &mut Vec::new())?.0);
        triggers.into_iter().flatten().filter(is_event).filter_map(read).collect()
    }

    /// The canonical form, as an element of the list `triggers` of a stored definition.
    pub fn to_json(&self) -> Value {
        let mut normal = Map::new();
        normal.insert("type".into(), "event".into());
        normal.insert("topic".into(), self.pattern.as_str().into());
        if let Some(filter) = &self.filter {
            normal.insert("match".into(), filter.written().value().clone());
        }
        if let Some(input) = &self.input {
            normal.insert("input".into(), input.value().clone());
        }
        normal.into()
    }
}

/// Reads the triggers of a definition. Returns them in canonical form, if there are any.
pub(crate) fn read_triggers(
    one: Option<&Value>,
    several: Option<&[Value]>,
    evaluate: &dyn Evaluate,
    problems: &mut Vec<Problem>,
) -> Option<Value> {
    if let (Some(_), Some(_)) = (one, several) {
        let problem = Problem::at("/trigger", "a definition has either `trigger` or `triggers`");
        problems.push(problem.hint("move it to the list `triggers`"));
    }
    if several.is_some_and(|several| several.len() > TRIGGERS_MAX) {
        let problem = Problem::at("/triggers", format!("a definition has at most {TRIGGERS_MAX} triggers"));
        problems.push(problem.hint("use patterns such as \"order.*\", or subscriptions"));
        return None;
    }
    let listed = (0..).zip(several.unwrap_or_default()).map(|(index, value)| (format!("/triggers/{index}"), value));
    let written = one.map(|value| ("/trigger".to_owned(), value)).into_iter().chain(listed);
    let triggers: Vec<Value> = written.filter_map(|(path, value)| read_one(value, &path, evaluate, problems)).collect();
    (!triggers.is_empty()).then(|| triggers.into())
}

fn read_one(value: &Value, path: &str, evaluate: &dyn Evaluate, problems: &mut Vec<Problem>) -> Option<Value> {
    let mut fields = Fields::from_value(value, path, None, problems)?;
    let kind = fields.choice(&["type"], TYPES);
    if kind.is_none() {
        fields.missing(&["type"], "a trigger needs a type", "write for example \"event\"");
    }
    match kind? {
        TriggerType::Event => {
            read_event(value, path, Some(evaluate), &["topic", "eventName"], problems).map(|(_, normal)| normal)
        }
        TriggerType::Manual => {
            fields.finish();
            Some(json!({"type": "manual"}))
        }
        TriggerType::Unsupported(reason) => {
            fields.problem("type", reason, "use an event trigger, or start the workflow by the API");
            None
        }
    }
}

/// Reads an event trigger. A stored one is not checked again.
fn read_event(
    value: &Value,
    path: &str,
    evaluate: Option<&dyn Evaluate>,
    topic_names: &[&'static str],
    problems: &mut Vec<Problem>,
) -> Option<(DeclaredTrigger, Value)> {
    let mut fields = Fields::from_value(value, path, None, problems)?;
    let _ = fields.text(&["type"]);
    let topic = fields.text(topic_names);
    let pattern = fields.any(&["match"]);
    let input = fields.any(&["input", "payloadMapping"]);
    if topic.is_none() {
        fields.missing(topic_names, "an event trigger needs a topic", TOPIC_HINT);
    }
    let topic = topic.and_then(|topic| match Pattern::parse(topic) {
        Ok(pattern) => Some(pattern),
        Err(message) => {
            fields.problem(topic_names[0], message, TOPIC_HINT);
            None
        }
    });
    fields.finish();
    let filter = match pattern {
        None => None,
        Some(written) => {
            let read = match evaluate {
                Some(evaluate) => Filter::parse(written, evaluate),
                None => Filter::from_stored(&Payload::from(written.clone())),
            };
            match read {
                Ok(filter) => Some(filter),
                Err(fault) => {
                    let problem = Problem::at(format!("{path}/match{}", fault.pointer), fault.message);
                    problems.push(problem.hint("write for example {\"plan\": \"pro\"}"));
                    return None;
                }
            }
        }
    };
    for fault in
        input.zip(evaluate).map(|(input, evaluate)| Subscription::check_template(input, evaluate)).unwrap_or_default()
    {
        let problem = Problem::at(format!("{path}/input{}", fault.pointer), fault.message);
        problems.push(problem.hint("write for example {\"user\": \"{{payload.id}}\"}"));
    }
    let trigger = DeclaredTrigger { pattern: topic?, filter, input: input.cloned().map(Payload::from) };
    let normal = trigger.to_json();
    Some((trigger, normal))
}
