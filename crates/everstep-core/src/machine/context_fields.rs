//! The fields that a context can have, by its schema.
//!
//! A path is unknown only if the schema excludes it: at some name of the path, one of the schemas that apply to the
//! value accepts no such field. Schemas inside `anyOf`, `oneOf`, `not` and `if` are not considered: they may apply or
//! not.

use serde_json::Value;

/// Schemas that are followed for one value. A schema may refer to itself.
const SCHEMAS_MAX: usize = 100;

/// The fields of a context. Without a schema, any field may exist.
#[derive(Clone, Copy, Debug)]
pub(super) struct ContextFields<'a> {
    schema: Option<&'a Value>,
}

/// A name that a schema excludes, and the names that it has in its place.
#[derive(Debug)]
pub(super) struct UnknownField<'a> {
    pub(super) name: String,
    pub(super) known: Vec<&'a str>,
}

impl<'a> ContextFields<'a> {
    pub(super) fn new(schema: Option<&'a Value>) -> Self {
        Self { schema }
    }

    /// The name on a path such as `order.total` that the schema excludes; `None` if the path may exist.
    pub(super) fn find_unknown(&self, path: &str) -> Option<UnknownField<'a>> {
        let root = self.schema?;
        let mut schemas = applied(root, vec![root]);
        for name in path.split('.') {
            if schemas.iter().any(|schema| excludes(schema, name)) {
                let known = schemas.iter().filter_map(|schema| schema.get("properties")?.as_object());
                let known = known.flat_map(|properties| properties.keys().map(String::as_str)).collect();
                return Some(UnknownField { name: name.to_owned(), known });
            }
            let inner = schemas.iter().filter_map(|schema| inner(schema, name)).collect();
            schemas = applied(root, inner);
        }
        None
    }
}

/// The schemas that apply to the same value: those that `$ref` and `allOf` name are added.
fn applied<'a>(root: &'a Value, mut schemas: Vec<&'a Value>) -> Vec<&'a Value> {
    let mut next = 0;
    while let Some(schema) = schemas.get(next).copied() {
        next += 1;
        let reference = schema.get("$ref").and_then(Value::as_str).and_then(|text| text.strip_prefix('#'));
        let parts = schema.get("allOf").and_then(Value::as_array).into_iter().flatten();
        for part in reference.and_then(|pointer| root.pointer(pointer)).into_iter().chain(parts) {
            let is_new = !schemas.iter().any(|known| std::ptr::eq(*known, part));
            if is_new && schemas.len() < SCHEMAS_MAX {
                schemas.push(part);
            }
        }
    }
    schemas
}

/// Whether a value that fits a schema cannot have a field.
fn excludes(schema: &Value, name: &str) -> bool {
    if *schema == Value::Bool(false) {
        return true;
    }
    // Lists and texts have a length; lists have items.
    let is_of_list = name == "length" || name.bytes().all(|byte| byte.is_ascii_digit());
    let can_be = |kind: &str| match schema.get("type") {
        None => true,
        Some(Value::Array(kinds)) => kinds.iter().any(|known| known == kind),
        Some(known) => known == kind,
    };
    if is_of_list && (can_be("array") || can_be("string")) {
        return false;
    }
    if !can_be("object") {
        return true;
    }
    let is_closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
    let has_patterns = schema.get("patternProperties").is_some();
    is_closed && !has_patterns && schema.get("properties").is_none_or(|properties| properties.get(name).is_none())
}

/// The schema of a field or an item.
fn inner<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    if let Some(property) = schema.get("properties").and_then(|properties| properties.get(name)) {
        return Some(property);
    }
    if let Ok(index) = name.parse::<usize>() {
        let first = schema.get("prefixItems").and_then(Value::as_array);
        return first.and_then(|first| first.get(index)).or(schema.get("items"));
    }
    let has_patterns = schema.get("patternProperties").is_some();
    schema.get("additionalProperties").filter(|_| !has_patterns)
}
