//! The input of a new run of a machine, which becomes its context.

use serde_json::{Value, json};

use crate::evaluate::Fault;
use crate::schema::{CheckMode, Schema};

/// The faults of an input: the given values must fit the schema of the context. Required fields may be missing, because
/// later transitions can add them.
pub(crate) fn check_input(schema: Option<&Schema>, input: &Value) -> Vec<Fault> {
    if !input.is_object() && !input.is_null() {
        let message = "the input of a state machine is an object: it becomes the context".to_owned();
        return vec![Fault { pointer: String::new(), message }];
    }
    let empty = json!({});
    let context = if input.is_null() { &empty } else { input };
    schema.map(|schema| schema.check_context(context, CheckMode::Partial)).unwrap_or_default()
}
