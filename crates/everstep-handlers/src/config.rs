//! Reads and checks a config against its type, with a pointer to every fault.

use everstep_core::evaluate::Fault;
use everstep_core::failure::{Failure, code};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// The JSON Schema of a config.
pub(crate) fn schema<T: JsonSchema>() -> Value {
    schemars::schema_for!(T).to_value()
}

/// Reads a config whose templates are resolved.
pub(crate) fn read<T: DeserializeOwned>(config: Value, schema: &Value) -> Result<T, Failure> {
    let invalid = |message: String| Failure::fatal(code::INVALID_CONFIG, message);
    let config = if config.is_null() { json!({}) } else { config };
    for (field, value) in config.as_object().into_iter().flatten() {
        if let Some(message) = out_of_bounds(value, &schema["properties"][field]) {
            return Err(invalid(format!("`{field}`: {message}")));
        }
    }
    serde_json::from_value(config).map_err(|error| invalid(error.to_string()))
}

/// What is wrong with a config as it is saved: a template may stand for the value of every field but raw ones.
pub(crate) fn check<T: DeserializeOwned>(config: &Value, schema: &Value, raw_fields: &[String]) -> Vec<Fault> {
    if config.is_null() {
        return check::<T>(&json!({}), schema, raw_fields);
    }
    let is_raw = |field: &str| raw_fields.iter().any(|raw| raw == field);
    find_faults::<T>(config, schema, |field, value| !is_raw(field) && is_template(value))
}

/// What is wrong with a value in which nothing stands for anything else.
pub(crate) fn check_exactly<T: DeserializeOwned>(value: &Value, schema: &Value) -> Vec<Fault> {
    find_faults::<T>(value, schema, |_, _| false)
}

/// 1. A field that the schema does not know is refused.
/// 2. A field that it requires is there.
/// 3. A field has its type, told by reading the config with every other field replaced by a valid value.
/// 4. A field is within its bounds.
fn find_faults<T: DeserializeOwned>(
    config: &Value,
    schema: &Value,
    skips: impl Fn(&str, &Value) -> bool,
) -> Vec<Fault> {
    let Some(object) = config.as_object() else {
        return vec![Fault { pointer: String::new(), message: "a config is an object".to_owned() }];
    };
    let empty = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&empty);
    let mut faults = Vec::new();
    let mut report = |field: &str, message: String| {
        faults.push(Fault { pointer: format!("/{}", field.replace('~', "~0").replace('/', "~1")), message });
    };
    for field in object.keys().filter(|field| !properties.contains_key(*field)) {
        let known = properties.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        report(field, format!("there is no field `{field}`; there are {known}"));
    }
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let required: Vec<&str> = required.collect();
    for field in required.iter().filter(|field| !object.contains_key(**field)) {
        report(field, format!("`{field}` is missing"));
    }
    for (field, property) in properties {
        let Some(value) = object.get(field).filter(|value| !skips(field, value)) else { continue };
        let others = required.iter().map(|name| ((*name).to_owned(), example(&properties[*name])));
        let mut alone: Map<String, Value> = others.collect();
        alone.insert(field.clone(), value.clone());
        match serde_json::from_value::<T>(Value::Object(alone)) {
            Err(error) => report(field, error.to_string()),
            Ok(_) => {
                if let Some(message) = out_of_bounds(value, property) {
                    report(field, message);
                }
            }
        }
    }
    faults
}

/// Whether a value is computed when the step runs.
fn is_template(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains("{{"),
        Value::Object(object) => object.len() == 1 && object.contains_key("$expr"),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => false,
    }
}

/// A value that a schema accepts.
fn example(property: &Value) -> Value {
    if let Some(value) = property.get("default").or_else(|| property["enum"].get(0)) {
        return value.clone();
    }
    let types = &property["type"];
    match types.as_str().or_else(|| types[0].as_str()) {
        Some("string") => json!("x"),
        Some("integer" | "number") => property.get("minimum").cloned().unwrap_or(json!(1)),
        Some("boolean") => json!(false),
        Some("array") => json!([]),
        Some("object") => json!({}),
        _ => Value::Null,
    }
}

fn out_of_bounds(value: &Value, property: &Value) -> Option<String> {
    let bound = |name: &str| property[name].as_f64();
    match value {
        Value::Number(number) => {
            let number = number.as_f64()?;
            let (least, most) = (bound("minimum"), bound("maximum"));
            let is_within = least.is_none_or(|least| number >= least) && most.is_none_or(|most| number <= most);
            let range = match (least, most) {
                (Some(least), Some(most)) => format!("between {least} and {most}"),
                (Some(least), None) => format!("at least {least}"),
                (None, Some(most)) => format!("at most {most}"),
                (None, None) => return None,
            };
            (!is_within).then(|| format!("{number} is out of range: it is {range}"))
        }
        Value::String(text) if bound("minLength").is_some_and(|least| least > 0.0) && text.trim().is_empty() => {
            Some("it must not be empty".to_owned())
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}
