//! JSON that is stored as text and parsed on demand.

use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::failure::code;
use crate::limits;

/// A JSON document: cheap to clone, written to the journal unchanged.
///
/// Most steps have the output `null`, so it has no allocation: it is `None`.
#[derive(Clone, Default)]
pub struct Payload(Option<Arc<Inner>>);

static NULL: Value = Value::Null;

struct Inner {
    raw: Box<RawValue>,
    value: OnceLock<Value>,
}

impl Payload {
    pub fn null() -> Self {
        Self(None)
    }

    /// Takes JSON text unchanged.
    pub fn from_json(text: impl Into<String>) -> Result<Self, serde_json::Error> {
        RawValue::from_string(text.into()).map(Self::from_raw)
    }

    pub fn from_raw(raw: Box<RawValue>) -> Self {
        Self::from_parts(raw, OnceLock::new())
    }

    fn from_parts(raw: Box<RawValue>, value: OnceLock<Value>) -> Self {
        let is_null = raw.get() == RawValue::NULL.get();
        Self((!is_null).then(|| Arc::new(Inner { raw, value })))
    }

    /// The document, parsed at the first access.
    pub fn value(&self) -> &Value {
        let Some(inner) = &self.0 else { return &NULL };
        inner.value.get_or_init(|| {
            // Raw JSON is valid by construction; text that cannot be parsed is rejected where it enters.
            serde_json::from_str(inner.raw.get()).unwrap_or(Value::Null)
        })
    }

    /// The document as text.
    pub fn json(&self) -> &str {
        self.raw().get()
    }

    pub fn raw(&self) -> &RawValue {
        self.0.as_ref().map_or(RawValue::NULL, |inner| &inner.raw)
    }

    /// The length of its text in bytes.
    pub fn size(&self) -> usize {
        self.json().len()
    }

    pub fn is_null(&self) -> bool {
        self.0.is_none()
    }

    /// Whether two payloads share their document in memory.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        }
    }
}

/// The nesting depth of a value, computed without recursion.
pub(crate) fn json_depth(value: &Value) -> usize {
    let mut deepest = 0;
    let mut todo = vec![(value, 1)];
    while let Some((value, depth)) = todo.pop() {
        deepest = deepest.max(depth);
        match value {
            Value::Array(items) => todo.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(fields) => todo.extend(fields.values().map(|field| (field, depth + 1))),
            _ => {}
        }
    }
    deepest
}

/// Whether a string inside JSON contains a NUL character, found without parsing.
pub fn has_nul(json: &str) -> bool {
    // Only an odd number of backslashes escapes the next character.
    json.match_indices("\\u0000")
        .any(|(at, _)| json[..at].bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 0)
}

/// Why JSON text is rejected although it is JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("is nested deeper than {} levels", limits::JSON_DEPTH)]
    TooDeep,
    /// Text that Rust cannot represent as a string or a number.
    #[error("contains half of a surrogate pair, or a number that is too large")]
    Unreadable,
}

impl Error {
    /// The code of a failure.
    pub fn code(self) -> &'static str {
        match self {
            Self::TooDeep => code::PAYLOAD_TOO_DEEP,
            Self::Unreadable => code::PAYLOAD_UNREADABLE,
        }
    }

    /// The code of a rejection.
    pub fn refusal(self) -> &'static str {
        match self {
            Self::TooDeep => code::PAYLOAD_TOO_DEEP,
            Self::Unreadable => "VALIDATION_ERROR",
        }
    }
}

/// Whether JSON text can be accepted: every later reader must be able to parse it. It is parsed here only if it
/// contains doubtful parts.
pub fn check(json: &str) -> Result<(), Error> {
    let Scan { depth, is_doubtful } = scan(json);
    if depth > limits::JSON_DEPTH {
        return Err(Error::TooDeep);
    }
    if is_doubtful && serde_json::from_str::<Value>(json).is_err() {
        return Err(Error::Unreadable);
    }
    Ok(())
}

/// The result of one pass over JSON text.
struct Scan {
    /// Its nesting depth.
    depth: usize,
    /// Whether it contains an escaped surrogate, an exponent, or a number with more digits than any finite number
    /// needs.
    is_doubtful: bool,
}

/// A number with fewer digits and no exponent is never too large.
const NUMBER_DIGITS_MAX: usize = 300;

fn scan(json: &str) -> Scan {
    let (mut depth, mut deepest, mut in_text, mut escaped) = (0_usize, 0, false, false);
    let (mut digits, mut is_doubtful) = (0, false);
    let bytes = json.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            _ if escaped => {
                escaped = false;
                is_doubtful |= *byte == b'u' && matches!(bytes.get(at + 1), Some(b'd' | b'D'));
            }
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            _ if in_text => {}
            b'0'..=b'9' => {
                digits += 1;
                is_doubtful |= digits > NUMBER_DIGITS_MAX;
                continue;
            }
            b'e' | b'E' => is_doubtful |= digits > 0,
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        digits = 0;
    }
    Scan { depth: deepest, is_doubtful }
}

impl From<Value> for Payload {
    fn from(value: Value) -> Self {
        if value.is_null() {
            return Self::null();
        }
        let raw = serde_json::value::to_raw_value(&value).expect("a JSON value can be written as JSON");
        Self::from_parts(raw, value.into())
    }
}

impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other) || self.json() == other.json()
    }
}

impl Eq for Payload {}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.json())
    }
}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.raw().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Self::from_raw)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_the_same_wherever_it_comes_from() {
        let read: Payload = serde_json::from_str(" null ").unwrap();
        for null in [read, Payload::default(), Payload::from(Value::Null), Payload::from_json("null").unwrap()] {
            assert!(null.is_null() && null.is_same(&Payload::null()));
            assert_eq!((null.json(), null.value()), ("null", &Value::Null));
            assert_eq!(serde_json::to_string(&[null]).unwrap(), "[null]");
        }
        let other = Payload::from_json("[null]").unwrap();
        assert!(!other.is_null() && !other.is_same(&Payload::null()) && other != Payload::null());
    }

    #[test]
    fn what_cannot_be_parsed_is_found_without_parsing_the_rest() {
        let long = "9".repeat(400);
        for json in [r#"{"a":"\ud83d"}"#, r#"["\uDE00 x"]"#, "1e400", "[-1E999]", &long] {
            assert_eq!(check(json), Err(Error::Unreadable), "{json}");
        }
        let whole = [r#""\ud83d\ude00""#, "1e30", "-1.5E+3", r#"{"e":[1e3,"1e400"]}"#, &long[..300]];
        for json in whole {
            assert_eq!(check(json), Ok(()), "{json}");
        }
        let ordinary = [r#""\\ud83d and 1e400""#, r#"{"id":"3e8e","is":[true,false,null],"n":-1.25}"#, "1234567890"];
        for json in ordinary {
            assert!(!scan(json).is_doubtful && check(json).is_ok(), "{json}");
        }
        assert_eq!(check(&("[".repeat(101) + &"]".repeat(101))), Err(Error::TooDeep));
    }
}
