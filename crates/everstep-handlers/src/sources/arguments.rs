//! Compares the given arguments with those that a query declares.

use everstep_core::failure::{Failure, code};
use serde_json::Value;

use super::query::{ArgumentType, Query, Values};

/// The value of every declared argument. A missing or unknown argument, or one of another type, is an error.
pub(super) fn settle<'a>(query: &'a Query, args: &Value) -> Result<Values<'a>, Failure> {
    let invalid = |message: String| Failure::fatal(code::INVALID_CONFIG, message);
    let empty = serde_json::Map::new();
    let given = match args {
        Value::Null => &empty,
        Value::Object(given) => given,
        _ => return Err(invalid("`args` must be an object with a field for each argument".to_owned())),
    };
    let known = || match query.arguments.as_slice() {
        [] => "the query declares no arguments".to_owned(),
        arguments => {
            let names: Vec<_> = arguments.iter().map(|argument| argument.name.as_str()).collect();
            format!("the query declares {}", names.join(", "))
        }
    };
    let is_declared = |name: &String| query.arguments.iter().any(|argument| argument.name == *name);
    if let Some(name) = given.keys().find(|name| !is_declared(name)) {
        return Err(invalid(format!("the argument {name:?} does not exist; {}", known())));
    }
    let mut values = Values::new();
    for argument in &query.arguments {
        let value = match given.get(&argument.name) {
            Some(value) if !value.is_null() => value.clone(),
            given if argument.is_required() => {
                let what = if given.is_some() { "null" } else { "missing" };
                return Err(invalid(format!("the argument {:?} is {what}; it is required", argument.name)));
            }
            Some(_) => Value::Null,
            None => argument.default.clone(),
        };
        if let (false, Some(message)) = (value.is_null(), misfit(argument.kind, &value)) {
            return Err(invalid(format!("the argument {:?}: {message}", argument.name)));
        }
        values.insert(&argument.name, (argument.kind, value));
    }
    Ok(values)
}

/// Why a value does not have a type.
pub(super) fn misfit(kind: ArgumentType, value: &Value) -> Option<String> {
    let (fits, wanted) = match kind {
        ArgumentType::String => (value.is_string(), "a text"),
        ArgumentType::Number => (value.is_number(), "a number"),
        ArgumentType::Integer => {
            let whole =
                value.as_f64().is_some_and(|number| number.fract() == 0.0 && number.abs() < 9_007_199_254_740_992.0);
            (value.is_i64() || value.is_u64() || whole, "a whole number")
        }
        ArgumentType::Boolean => (value.is_boolean(), "true or false"),
        ArgumentType::Json | ArgumentType::Any => (true, "any value"),
    };
    (!fits).then(|| format!("expected {wanted}, found {}", describe(value)))
}

/// The kind of a value, for messages; never the value itself.
pub(super) fn describe(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
