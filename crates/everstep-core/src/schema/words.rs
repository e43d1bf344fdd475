//! Types and values, as messages name them.

use serde_json::Value;

use super::rule::Type;

/// Characters of a value that a message repeats.
const SHOWN_CHARS_MAX: usize = 60;

pub(super) fn type_name(kind: Type) -> &'static str {
    match kind {
        Type::Null => "null",
        Type::Boolean => "true or false",
        Type::Integer => "a whole number",
        Type::Number => "a number",
        Type::String => "a string",
        Type::Array => "an array",
        Type::Object => "an object",
    }
}

pub(super) fn found(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// A value of a schema, shortened.
pub(super) fn shown(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// "1 item", "2 items".
pub(super) fn count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// A field's name as a part of a JSON pointer.
pub(super) fn escape(field: &str) -> String {
    field.replace('~', "~0").replace('/', "~1")
}
