//! Numbers and values as JSON Schema compares them: 1 and 1.0 are equal.

use std::cmp::Ordering;

use serde_json::{Number, Value};

/// Two quotients that differ by less count as equal: 19.99 is a multiple of 0.01.
const QUOTIENT_ERROR_MAX: f64 = 1e-9;

fn integer(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

fn float(number: &Number) -> f64 {
    number.as_f64().unwrap_or(f64::NAN)
}

pub(super) fn compare(one: &Number, other: &Number) -> Ordering {
    match (integer(one), integer(other)) {
        (Some(one), Some(other)) => one.cmp(&other),
        _ => float(one).partial_cmp(&float(other)).unwrap_or(Ordering::Equal),
    }
}

pub(super) fn is_whole(number: &Number) -> bool {
    integer(number).is_some() || float(number).fract() == 0.0
}

pub(super) fn is_multiple(number: &Number, unit: &Number) -> bool {
    match (integer(number), integer(unit)) {
        (Some(number), Some(unit)) => number % unit == 0,
        _ => {
            let quotient = float(number) / float(unit);
            (quotient - quotient.round()).abs() <= QUOTIENT_ERROR_MAX * quotient.abs().max(1.0)
        }
    }
}

pub(super) fn are_equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => compare(one, other) == Ordering::Equal,
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| are_equal(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let has = |(field, value): (&String, &Value)| other.get(field).is_some_and(|other| are_equal(value, other));
            one.len() == other.len() && one.iter().all(has)
        }
        _ => one == other,
    }
}

/// A text that is the same for two values if and only if they are equal.
pub(super) fn canonical(value: &Value) -> String {
    let mut text = String::new();
    write(value, &mut text);
    text
}

fn write(value: &Value, text: &mut String) {
    match value {
        Value::Number(number) => match integer(number) {
            Some(number) => text.push_str(&number.to_string()),
            None => match float(number) {
                whole if whole.fract() == 0.0 && whole.abs() < 1e18 => text.push_str(&(whole as i128).to_string()),
                other => text.push_str(&other.to_string()),
            },
        },
        Value::Array(items) => {
            text.push('[');
            for item in items {
                write(item, text);
                text.push(',');
            }
            text.push(']');
        }
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(field, _)| *field);
            text.push('{');
            for (field, value) in fields {
                text.push_str(&Value::from(field.as_str()).to_string());
                text.push(':');
                write(value, text);
                text.push(',');
            }
            text.push('}');
        }
        Value::Null | Value::Bool(_) | Value::String(_) => text.push_str(&value.to_string()),
    }
}
