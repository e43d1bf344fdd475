//! Makes schemas that every generator of clients accepts.
//!
//! 1. No schema is `true`: generators that know only OpenAPI 3.0 expect an object, `{}`.
//! 2. A choice between constant words is an `enum`; the texts of the words are one description.
//! 3. Formats are those of OpenAPI. schemars uses the names of Rust's types, such as `uint32`, which generators read as
//!    signed 32 bits, or do not support.
//! 4. A default of `null` is left out: an absent optional field means the same. A default of an object, a list or a
//!    component is left out too: some generators copy its JSON unchanged into the code of another language.
//! 5. An object that is one part of a choice is a component of its own: generators name its type by the component, and
//!    some fail on objects without a name.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// Keywords whose value is a schema, a list of schemas, or an object with schemas as values.
const OF_SCHEMA: &[&str] = &["items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else"];
const OF_LIST: &[&str] = &["oneOf", "anyOf", "allOf", "prefixItems"];
const OF_MAP: &[&str] = &["properties", "patternProperties", "$defs"];

/// Normalizes a schema of a response. `name` is the name of the component, or of the operation and the described part.
pub(super) fn sent(name: &str, schema: Value) -> Value {
    normalize(name, schema)
}

/// Normalizes a schema of a request, and adds the maximum that the Rust type of an integer sets.
pub(super) fn received(name: &str, schema: Value) -> Value {
    normalize(name, with_maximum(schema))
}

/// Makes components of the titled objects in choices.
///
/// # Panics
/// When a title is the name of another component.
pub(super) fn name_parts(components: &mut BTreeMap<String, Value>) {
    let mut parts = BTreeMap::new();
    components.values_mut().for_each(|schema| take_parts(schema, &mut parts));
    for (name, schema) in parts {
        assert!(components.insert(name.clone(), schema).is_none(), "two schemas have the name {name}");
    }
}

fn take_parts(value: &mut Value, parts: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(fields) => fields.values_mut().for_each(|field| take_parts(field, parts)),
        Value::Array(items) => items.iter_mut().for_each(|item| take_parts(item, parts)),
        _ => return,
    }
    for list in ["oneOf", "anyOf"] {
        let choice = value.get_mut(list).and_then(Value::as_array_mut);
        for part in choice.into_iter().flatten().filter(|part| part.get("properties").is_some()) {
            let Some(Value::String(name)) = part.as_object_mut().and_then(|part| part.shift_remove("title")) else {
                continue;
            };
            let reference = json!({"$ref": format!("#/components/schemas/{name}")});
            let other = parts.insert(name.clone(), std::mem::replace(part, reference));
            assert!(other.is_none(), "two schemas have the name {name}");
        }
    }
}

fn normalize(name: &str, schema: Value) -> Value {
    let mut fields = match schema {
        Value::Bool(true) => Map::new(),
        Value::Object(fields) => fields,
        other => return other,
    };
    join_words(&mut fields);
    let is_reference = fields.contains_key("$ref");
    let is_plain = |value: &Value| !(is_reference || value.is_null() || value.is_object() || value.is_array());
    if fields.get("default").is_some_and(|value| !is_plain(value)) {
        fields.shift_remove("default");
    }
    if let Some(format) = fields.get("format").and_then(Value::as_str).and_then(format_of) {
        fields["format"] = format.into();
    }
    for (keyword, value) in &mut fields {
        let keyword = keyword.as_str();
        match value {
            value if OF_SCHEMA.contains(&keyword) => change(value, |schema| normalize(name, schema)),
            Value::Array(parts) if OF_LIST.contains(&keyword) => {
                for part in parts {
                    change(part, |schema| with_title(name, normalize(name, schema)));
                }
            }
            Value::Object(parts) if OF_MAP.contains(&keyword) => {
                for (field, part) in parts {
                    change(part, |schema| normalize(&format!("{name}{}", pascal(field)), schema));
                }
            }
            _ => {}
        }
    }
    Value::Object(fields)
}

/// Gives an object of a choice a title: the name of the choice, and the word that distinguishes the object.
fn with_title(name: &str, mut schema: Value) -> Value {
    let has_title = schema.get("title").is_some();
    let Some(properties) = schema.get("properties").and_then(Value::as_object).filter(|_| !has_title) else {
        return schema;
    };
    let word = properties.values().find_map(|property| property.get("const").and_then(Value::as_str));
    let word = word.or_else(|| properties.keys().next().map(String::as_str)).unwrap_or("nothing");
    schema["title"] = format!("{name}{}", pascal(word)).into();
    schema
}

/// Makes an `enum` of a choice between constant words.
fn join_words(fields: &mut Map<String, Value>) {
    let Some(parts) = fields.get("oneOf").and_then(Value::as_array) else { return };
    let words: Option<Vec<_>> = parts.iter().map(|part| part.get("const").filter(|word| word.is_string())).collect();
    let Some(words) = words.filter(|words| !words.is_empty()) else { return };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let about = parts.iter().zip(&words).filter_map(|(part, word)| {
        let about = part.get("description")?;
        Some(format!("* `{}`: {}", text(word), text(about)))
    });
    let own = fields.get("description").map(text);
    let list = about.collect::<Vec<_>>().join("\n");
    let texts: Vec<_> = own.into_iter().chain(Some(list)).filter(|text| !text.is_empty()).collect();
    let words = json!(words);
    fields.shift_remove("oneOf");
    fields.insert("type".to_owned(), "string".into());
    fields.insert("enum".to_owned(), words);
    if !texts.is_empty() {
        fields.insert("description".to_owned(), texts.join("\n\n").into());
    }
}

/// The format of OpenAPI that holds all values of a Rust type.
fn format_of(format: &str) -> Option<&'static str> {
    match format {
        "uint8" | "int8" | "uint16" | "int16" => Some("int32"),
        "uint32" | "uint64" | "uint" | "int" => Some("int64"),
        _ => None,
    }
}

fn with_maximum(mut schema: Value) -> Value {
    match &mut schema {
        Value::Object(fields) => {
            let most = match fields.get("format").and_then(Value::as_str) {
                Some("uint32") => Some(u64::from(u32::MAX)),
                Some("uint64") => Some(i64::MAX.unsigned_abs()),
                _ => None,
            };
            if let Some(most) = most {
                fields.entry("maximum").or_insert(most.into());
            }
            fields.values_mut().for_each(|field| change(field, with_maximum));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| change(item, with_maximum)),
        _ => {}
    }
    schema
}

fn change(value: &mut Value, change: impl FnOnce(Value) -> Value) {
    *value = change(std::mem::take(value));
}

/// A word as a part of a type's name: `timed-out` is `TimedOut`.
pub(super) fn pascal(word: &str) -> String {
    let parts = word.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|part| !part.is_empty());
    parts.map(|part| format!("{}{}", part[..1].to_ascii_uppercase(), &part[1..])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_that_allows_everything_is_an_object() {
        let schema = json!({"type": "object", "properties": {"a": true, "b": {"type": "array", "items": true}},
            "additionalProperties": true});
        let expected = json!({"type": "object", "properties": {"a": {}, "b": {"type": "array", "items": {}}},
            "additionalProperties": {}});
        assert_eq!(sent("X", schema), expected);
        assert_eq!(sent("X", json!({"additionalProperties": false})), json!({"additionalProperties": false}));
        let constant = json!({"properties": {"a": {"const": true}}});
        assert_eq!(sent("X", constant.clone()), constant, "a value is no schema");
    }

    #[test]
    fn a_choice_between_words_is_an_enum() {
        let schema = json!({"description": "A role.", "oneOf": [{"type": "string", "const": "viewer", "description": "Reads."},
            {"type": "string", "const": "admin"}]});
        let expected =
            json!({"type": "string", "enum": ["viewer", "admin"], "description": "A role.\n\n* `viewer`: Reads."});
        assert_eq!(sent("Role", schema), expected);
    }

    #[test]
    fn a_part_of_a_choice_is_a_component() {
        let part = |kind: &str| json!({"type": "object", "properties": {"kind": {"type": "string", "const": kind}}});
        let schema = sent("Doing", json!({"oneOf": [part("task"), part("timed-out"), {"$ref": "#/x"}]}));
        let titles: Vec<_> =
            schema["oneOf"].as_array().into_iter().flatten().map(|part| part["title"].clone()).collect();
        assert_eq!(titles, [json!("DoingTask"), json!("DoingTimedOut"), Value::Null]);
        let mut components = BTreeMap::from([("Doing".to_owned(), schema)]);
        name_parts(&mut components);
        let reference = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
        let choice = json!({"oneOf": [reference("DoingTask"), reference("DoingTimedOut"), {"$ref": "#/x"}]});
        assert_eq!(components["Doing"], choice);
        assert_eq!(components["DoingTask"], part("task"));
    }

    #[test]
    fn numbers_have_formats_that_hold_them() {
        let schema = json!({"type": ["integer", "null"], "format": "uint32", "minimum": 0, "default": null});
        assert_eq!(sent("X", schema.clone()), json!({"type": ["integer", "null"], "format": "int64", "minimum": 0}));
        let expected =
            json!({"type": ["integer", "null"], "format": "int64", "minimum": 0, "maximum": 4_294_967_295_u64});
        assert_eq!(received("X", schema), expected);
    }

    #[test]
    fn only_plain_values_are_defaults() {
        assert_eq!(sent("X", json!({"type": "boolean", "default": true})), json!({"type": "boolean", "default": true}));
        assert_eq!(sent("X", json!({"type": "object", "default": {"a": 1}})), json!({"type": "object"}));
        assert_eq!(sent("X", json!({"$ref": "#/x", "default": "any"})), json!({"$ref": "#/x"}));
    }
}
