//! Which events of its topics a subscription receives.

use serde_json::{Map, Value};

use super::{EventView, TopicEvent};
use crate::contains::contains_within;
use crate::evaluate::{Evaluate, Fault, is_truthy};
use crate::failure::Failure;
use crate::meter::Meter;
use crate::payload::Payload;

const EXPRESSION_FIELD: &str = "$expr";

/// A filter: fields that the data of an event must contain, and an expression over `event` and `payload`. Both must
/// match; a filter without either matches every event.
#[derive(Clone, Debug, PartialEq)]
pub struct Filter {
    /// The filter as it was written.
    written: Payload,
    /// The fields that the data contains.
    fields: Map<String, Value>,
    expression: Option<String>,
}

impl Filter {
    /// Reads a filter that a caller has written, and checks its expression.
    pub fn parse(value: &Value, evaluate: &dyn Evaluate) -> Result<Self, Fault> {
        let filter = Self::read(value)?;
        let Some(expression) = &filter.expression else { return Ok(filter) };
        let pointer = format!("/{EXPRESSION_FIELD}");
        if let Some(fault) = evaluate.check_expression(expression) {
            return Err(Fault { pointer, message: fault.message });
        }
        let references = evaluate.expression_references(expression);
        match references.iter().find_map(EventView::refuse) {
            Some(message) => Err(Fault { pointer, message }),
            None => Ok(filter),
        }
    }

    /// Reads a filter that was checked when it was saved.
    pub fn from_stored(written: &Payload) -> Result<Self, Fault> {
        Self::read(written.value())
    }

    fn read(value: &Value) -> Result<Self, Fault> {
        let Value::Object(object) = value else {
            let message = "expected an object: the fields that the data must contain, and `$expr`".to_owned();
            return Err(Fault { pointer: String::new(), message });
        };
        let mut fields = object.clone();
        let expression = match fields.shift_remove(EXPRESSION_FIELD) {
            None => None,
            Some(Value::String(text)) => Some(text),
            Some(_) => {
                let message = "expected an expression as a string, such as \"payload.total > 100\"".to_owned();
                return Err(Fault { pointer: format!("/{EXPRESSION_FIELD}"), message });
            }
        };
        Ok(Self { written: Payload::from(value.clone()), fields, expression })
    }

    /// The filter as it was written.
    pub fn written(&self) -> &Payload {
        &self.written
    }

    /// Whether an event passes. An expression that fails is an error, which counts as no match.
    pub fn matches(&self, event: &TopicEvent, evaluate: &dyn Evaluate, meter: &Meter) -> Result<bool, Failure> {
        meter.begin_part();
        let data = event.data.value();
        let has_fields = self.fields.is_empty()
            || data.as_object().is_some_and(|data| {
                let is_match = |found: &Value, wanted: &Value| contains_within(found, wanted, meter);
                self.fields.iter().all(|(name, wanted)| data.get(name).is_some_and(|found| is_match(found, wanted)))
            });
        match &self.expression {
            Some(expression) if has_fields => {
                evaluate.expression(expression, &EventView::new(event), meter).map(|value| is_truthy(&value))
            }
            Some(_) | None => Ok(has_fields),
        }
    }
}
