//! JSON that is kept as text and parsed only when somebody looks inside.

use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// A JSON document: cheap to clone, written to the journal as it is.
#[derive(Clone)]
pub struct Payload(Arc<Inner>);

struct Inner {
    raw: Box<RawValue>,
    value: OnceLock<Value>,
}

impl Payload {
    pub fn null() -> Self {
        Self::from(Value::Null)
    }

    /// Takes JSON text as it is.
    pub fn from_json(text: impl Into<String>) -> Result<Self, serde_json::Error> {
        RawValue::from_string(text.into()).map(Self::from_raw)
    }

    pub fn from_raw(raw: Box<RawValue>) -> Self {
        Self(Arc::new(Inner { raw, value: OnceLock::new() }))
    }

    /// The document, parsed at the first look.
    pub fn value(&self) -> &Value {
        self.0.value.get_or_init(|| {
            // Raw JSON is valid by construction; only nesting beyond serde's recursion limit remains,
            // and such a document is refused where it enters.
            serde_json::from_str(self.json()).unwrap_or(Value::Null)
        })
    }

    /// The document as text.
    pub fn json(&self) -> &str {
        self.0.raw.get()
    }

    pub fn raw(&self) -> &RawValue {
        &self.0.raw
    }

    /// The length of its text in bytes.
    pub fn size(&self) -> usize {
        self.json().len()
    }

    pub fn is_null(&self) -> bool {
        self.json() == "null"
    }
}

/// Whether a text inside JSON holds a NUL character, found without parsing it.
pub fn has_nul(json: &str) -> bool {
    // Only an odd number of backslashes escapes what follows.
    json.match_indices("\\u0000")
        .any(|(at, _)| json[..at].bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 0)
}

/// How deep JSON text is nested, found without parsing it.
pub fn depth(json: &str) -> usize {
    let (mut depth, mut deepest, mut in_text, mut escaped) = (0_usize, 0, false, false);
    for byte in json.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b'[' | b'{' if !in_text => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

impl From<Value> for Payload {
    fn from(value: Value) -> Self {
        let raw = serde_json::value::to_raw_value(&value).expect("a JSON value can be written as JSON");
        let payload = Self::from_raw(raw);
        let _ = payload.0.value.set(value);
        payload
    }
}

impl Default for Payload {
    fn default() -> Self {
        Self::null()
    }
}

impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.json() == other.json()
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
        self.0.raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Self::from_raw)
    }
}
