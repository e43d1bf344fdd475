//! Finds the expressions inside a value.

use everstep_core::limits::JSON_DEPTH;
use serde_json::{Map, Value};

use crate::template;

/// A part of a value that is not plain data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found<'v> {
    /// A string with braces.
    Text(&'v str),
    /// The content of `{"$expr": …}`.
    Expression(&'v Value),
    /// `$expr` in an object with other fields, which would be treated as data.
    ExtraFields,
    TooDeep,
}

/// Visits everything that is not plain data, with its JSON pointer.
pub(crate) fn walk<'v>(value: &'v Value, visit: &mut dyn FnMut(String, Found<'v>)) {
    visit_value(value, "", 0, visit);
}

fn visit_value<'v>(value: &'v Value, pointer: &str, depth: usize, visit: &mut dyn FnMut(String, Found<'v>)) {
    if depth > JSON_DEPTH {
        return visit(pointer.to_owned(), Found::TooDeep);
    }
    match value {
        Value::String(text) if template::has_expressions(text) => visit(pointer.to_owned(), Found::Text(text)),
        Value::Object(object) => {
            if let Some(source) = expression_of(object) {
                return visit(format!("{pointer}/$expr"), Found::Expression(source));
            }
            if is_secret(object) {
                return;
            }
            if object.contains_key("$expr") {
                visit(format!("{pointer}/$expr"), Found::ExtraFields);
            }
            for (key, value) in object {
                let pointer = format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"));
                visit_value(value, &pointer, depth + 1, visit);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                visit_value(item, &format!("{pointer}/{index}"), depth + 1, visit);
            }
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The source in `{"$expr": …}`, an object with only that key.
pub(crate) fn expression_of(object: &Map<String, Value>) -> Option<&Value> {
    if object.len() == 1 { object.get("$expr") } else { None }
}

/// Whether an object names a secret. It is passed on as written, and nothing in it is computed.
pub(crate) fn is_secret(object: &Map<String, Value>) -> bool {
    object.len() == 1 && object.contains_key("$secret")
}
