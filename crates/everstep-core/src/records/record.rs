//! A record: a JSON value under a key of a namespace.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::failure::OpFailure;
use crate::ids::{RunId, StepKey};
use crate::payload::Payload;
use crate::time::Timestamp;

/// The id of a record, from its creation to its deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RecordId(pub Uuid);

#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    pub key: String,
    pub id: RecordId,
    /// The value, exactly as it was written. Absent if it was not read.
    pub value: Option<Payload>,
    /// The size of the value's JSON in bytes.
    pub bytes: usize,
    pub value_type: ValueType,
    /// 1 at the creation, one more with every write.
    pub revision: u64,
    /// The number of the namespace's change that wrote it. It is never used again, not even after a
    /// deletion.
    pub change: u64,
    pub expires_at: Option<Timestamp>,
    /// The run and the step that wrote it, if a run did.
    pub run: Option<RunId>,
    pub step: Option<StepKey>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl Record {
    /// Whether it exists for readers: an expired record is absent.
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|expires_at| expires_at > now)
    }
}

/// What kind of JSON a value is, for readers and editors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ValueType {
    String,
    Number,
    Boolean,
    Json,
}

impl ValueType {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Json => "json",
        }
    }

    /// The type with a stored name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::String, Self::Number, Self::Boolean, Self::Json].into_iter().find(|kind| kind.as_str() == name)
    }

    /// The type that follows from a value.
    pub fn of_value(value: &Payload) -> Self {
        // The first character of JSON decides.
        match value.json().trim_start().as_bytes().first() {
            Some(b'"') => Self::String,
            Some(b't' | b'f') => Self::Boolean,
            Some(b'-' | b'0'..=b'9') => Self::Number,
            _ => Self::Json,
        }
    }

    /// The type of a value, for which the input may state another one: any value is also `json`.
    pub(super) fn choose(stated: Option<Self>, value: &Payload) -> Result<Self, OpFailure> {
        let natural = Self::of_value(value);
        match stated {
            None => Ok(natural),
            Some(stated) if stated == natural || stated == Self::Json => Ok(stated),
            Some(stated) => Err(OpFailure::invalid(format!(
                "value_type is {:?} and the value is of type {:?}; leave value_type out, or correct the value",
                stated.as_str(),
                natural.as_str()
            ))),
        }
    }
}

/// Whether two values are equal: fields in any order, numbers in any notation.
pub(super) fn is_equal(one: &Payload, other: &Payload) -> bool {
    one.json() == other.json() || is_same(one.value(), other.value())
}

fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, value)| other.get(key).is_some_and(|found| is_same(value, found)))
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (Value::Number(one), Value::Number(other)) => {
            // Integers may have more digits than a floating-point number holds.
            let is_fraction = one.is_f64() || other.is_f64();
            one == other || is_fraction && one.as_f64() == other.as_f64()
        }
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn payload(json: &str) -> Payload {
        Payload::from_json(json).unwrap()
    }

    #[test]
    fn a_value_has_a_type() {
        for (json, expected) in [
            (" \"a\"", ValueType::String),
            ("-1.5", ValueType::Number),
            ("7", ValueType::Number),
            ("true", ValueType::Boolean),
            ("false", ValueType::Boolean),
            ("null", ValueType::Json),
            ("{}", ValueType::Json),
            ("\n[1]", ValueType::Json),
        ] {
            let value = payload(json);
            assert_eq!(ValueType::of_value(&value), expected, "{json}");
            assert_eq!(ValueType::choose(Some(ValueType::Json), &value), Ok(ValueType::Json));
            assert_eq!(ValueType::from_name(expected.as_str()), Some(expected));
        }
        assert!(ValueType::choose(Some(ValueType::String), &payload("1")).is_err());
    }

    #[test]
    fn equality_ignores_order_and_notation() {
        let equal = |one: Value, other: &str| is_equal(&Payload::from(one), &payload(other));
        assert!(equal(json!({"a": 1, "b": [1.0]}), r#"{ "b": [1], "a": 1e0 }"#));
        assert!(!equal(json!({"a": 1}), r#"{"a": 1, "b": null}"#));
        assert!(!equal(json!([1, 2]), "[2, 1]"));
        assert!(!equal(json!(9_007_199_254_740_993_u64), "9007199254740992"));
    }
}
