//! Reads and checks a config against its type.

use everstep_core::decode::describe_error;
use everstep_core::evaluate::Fault;
use everstep_core::failure::{Failure, code};
use everstep_core::schema::{CheckMode, Schema};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The JSON Schema of a config.
pub(crate) fn schema<T: JsonSchema>() -> Schema {
    Schema::built_in(&schemars::schema_for!(T).to_value())
}

/// Reads a config whose templates are resolved and whose secrets are revealed. The message of a failure contains no
/// value of the config except numbers.
pub(crate) fn read<T: DeserializeOwned>(config: Value, schema: &Schema) -> Result<T, Failure> {
    let invalid = |message: String| Failure::fatal(code::INVALID_CONFIG, message);
    let config = if config.is_null() { json!({}) } else { config };
    if let Some(fault) = schema.check(&config, CheckMode::Resolved).first() {
        return Err(invalid(match fault.pointer.trim_start_matches('/') {
            "" => fault.message.clone(),
            field => format!("`{field}`: {}", fault.message),
        }));
    }
    serde_json::from_value(config).map_err(|error| invalid(describe_error(&error)))
}

/// The errors in a config that is saved: a template may replace any value except those of raw fields.
pub(crate) fn check(config: &Value, schema: &Schema, raw_fields: &[String]) -> Vec<Fault> {
    let empty = json!({});
    let config = if config.is_null() { &empty } else { config };
    if !config.is_object() {
        return vec![Fault { pointer: String::new(), message: "a config must be an object".to_owned() }];
    }
    schema.check(config, CheckMode::Saved { raw_fields })
}

/// The errors in a value without templates.
pub(crate) fn check_exactly<T: DeserializeOwned>(value: &Value, schema: &Schema) -> Vec<Fault> {
    if !value.is_object() {
        return vec![Fault { pointer: String::new(), message: "a config must be an object".to_owned() }];
    }
    let faults = schema.check(value, CheckMode::Resolved);
    match serde_json::from_value::<T>(value.clone()) {
        Err(error) if faults.is_empty() => vec![Fault { pointer: String::new(), message: describe_error(&error) }],
        _ => faults,
    }
}
