//! Fields that the configs of several kinds have, as JSON Schema.

use everstep_core::records::{NAME_CHARS_MAX, PAGE_ITEMS_DEFAULT, PAGE_ITEMS_MAX, TTL_SECONDS_MAX};
use serde_json::{Map, Value, json};

/// The schema of a config: an object without other fields.
pub(crate) fn object(description: &str, required: &[&str], fields: &[(&str, Value)]) -> Value {
    let properties: Map<String, Value> =
        fields.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect();
    let mut schema = json!({
        "type": "object",
        "description": description,
        "properties": properties,
        "additionalProperties": false,
    });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

/// A name of 1 to 256 characters.
pub(crate) fn name(description: &str) -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": NAME_CHARS_MAX, "description": description})
}

pub(crate) fn namespace() -> (&'static str, Value) {
    ("namespace", name("The namespace, which the first write creates."))
}

pub(crate) fn key() -> (&'static str, Value) {
    ("key", name("The key of the record in its namespace."))
}

/// Any JSON value.
pub(crate) fn any(description: &str) -> Value {
    json!({"description": description})
}

pub(crate) fn whole(minimum: u64, description: &str) -> Value {
    json!({"type": "integer", "minimum": minimum, "description": description})
}

pub(crate) fn ttl(description: &str) -> (&'static str, Value) {
    let schema = json!({"type": "integer", "minimum": 1, "maximum": TTL_SECONDS_MAX, "description": description});
    ("ttl_seconds", schema)
}

pub(crate) fn if_revision() -> (&'static str, Value) {
    ("if_revision", whole(0, "The revision that the record must have; 0: the record must be absent."))
}

pub(crate) fn if_change() -> (&'static str, Value) {
    ("if_change", whole(0, "The change that must have written the record; 0: the record must be absent."))
}

pub(crate) fn idempotency_key() -> (&'static str, Value) {
    (
        "idempotency_key",
        name(
            "A key under which the write is applied once in the workspace, whichever run performs it. Without it, the \
             write is applied once per run and step.",
        ),
    )
}

pub(crate) fn limit() -> (&'static str, Value) {
    let description = "The maximum number of items of the page. A page may be shorter and still have a next one.";
    let schema = json!({
        "type": "integer", "minimum": 1, "maximum": PAGE_ITEMS_MAX, "default": PAGE_ITEMS_DEFAULT,
        "description": description,
    });
    ("limit", schema)
}

pub(crate) fn cursor() -> (&'static str, Value) {
    ("cursor", json!({"type": "string", "description": "`next_cursor` of the previous page, unchanged."}))
}

/// One side of a link.
pub(crate) fn identifier(description: &str) -> Value {
    let kind = name("The type of the identified thing, such as `task`.");
    object(description, &["type", "id"], &[("type", kind), ("id", name("Its id, as text."))])
}

pub(crate) fn relation(description: &str) -> (&'static str, Value) {
    ("relation", name(description))
}

/// The fields of a set, without the namespace.
pub(crate) fn set() -> Vec<(&'static str, Value)> {
    let value_type = json!({
        "type": "string", "enum": ["string", "number", "boolean", "json"],
        "description": "The type of the value, for readers. By default it follows from the value.",
    });
    vec![
        key(),
        ("value", any("Any JSON value. It is returned exactly as it was written.")),
        ("value_type", value_type),
        ttl("The seconds after which the record expires. Without it, the record does not expire."),
        if_revision(),
        if_change(),
    ]
}

/// The fields of a delete, without the namespace.
pub(crate) fn delete() -> Vec<(&'static str, Value)> {
    vec![key(), if_revision(), if_change()]
}

/// The fields of an increment, without the namespace.
pub(crate) fn increment() -> Vec<(&'static str, Value)> {
    let number =
        |default: u32, description: &str| json!({"type": "number", "default": default, "description": description});
    vec![
        key(),
        ("by", number(1, "The number that is added. It may be negative.")),
        ("initial", number(0, "The value before the first increment, if the record is absent.")),
        ttl("The seconds after which a record that this step creates expires. The expiry of an existing record does \
             not change."),
    ]
}

/// The fields of an upsert, without the namespace.
pub(crate) fn upsert() -> Vec<(&'static str, Value)> {
    let mut relation = name("What the link expresses, such as `mirrors`.");
    relation["default"] = json!("related");
    let attributes = json!({
        "type": "object", "default": {},
        "description": "Data of the link, at most 64 KiB. It replaces the attributes of an existing link.",
    });
    vec![
        ("from", identifier("The side from which the link leads.")),
        ("to", identifier("The side to which the link leads.")),
        ("relation", relation),
        ("attributes", attributes),
    ]
}

/// The fields of a deletion of links, without the namespace.
pub(crate) fn unlink() -> Vec<(&'static str, Value)> {
    vec![
        ("from", identifier("The side from which the links lead.")),
        ("to", identifier("The side to which the links lead. At least one of the two sides is required.")),
        relation("The relation of the links. Without it, links of every relation are deleted."),
    ]
}
