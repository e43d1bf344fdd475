//! The config of an http node.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use everstep_core::limits::PAYLOAD_BYTES;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// Sends an HTTP request.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Config {
    /// The address, beginning with `http://` or `https://`.
    #[schemars(length(min = 1), extend("x-secret" = true))]
    pub(super) url: String,
    /// The method.
    #[serde(default)]
    pub(super) method: HttpVerb,
    /// Headers by name. A null removes one.
    #[serde(default)]
    pub(super) headers: BTreeMap<String, Option<TextValue>>,
    /// Parameters that are added to the address, by name. An array repeats the name, a null removes it.
    #[serde(default)]
    pub(super) query: BTreeMap<String, TextValues>,
    /// The body: any JSON.
    #[serde(default)]
    #[schemars(extend("x-secret" = true))]
    pub(super) body: Value,
    /// How the body is encoded. `auto` sends a string as text and every other value as JSON.
    #[serde(default)]
    pub(super) body_type: BodyType,
    /// The body's content type, if it is not the default of its `bodyType`.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub(super) content_type: Option<String>,
    /// The credentials.
    #[serde(default)]
    #[schemars(extend("default" = {"type": "none"}))]
    pub(super) auth: Auth,
    /// The time limit of an attempt, in seconds, including redirects.
    #[serde(default)]
    #[schemars(range(min = 1, max = 3600))]
    #[expect(dead_code, reason = "the core reads it from the config and sets the time limit of the task")]
    pub(super) timeout_seconds: Option<u32>,
    /// Whether redirects are followed, up to ten.
    #[serde(default = "default_true")]
    pub(super) follow_redirects: bool,
    /// The statuses that count as success: numbers, or classes such as `2xx`.
    #[serde(default = "accept_statuses_default")]
    #[schemars(length(min = 1))]
    pub(super) accept_statuses: Vec<StatusRange>,
    /// The statuses after which a retry may succeed. A retry may also succeed after a failed connection or a timeout.
    #[serde(default = "retry_on_default")]
    #[schemars(inner(range(min = 100, max = 599)))]
    pub(super) retry_on: Vec<u16>,
    /// How the body of the response is decoded. `auto` decides by its content type: JSON, else text, else base64.
    #[serde(default)]
    pub(super) response_type: ResponseType,
    /// The step fails if the response has more bytes.
    #[serde(default = "max_response_bytes_default")]
    #[schemars(range(min = 1, max = 1_048_576))]
    pub(super) max_response_bytes: u32,
    /// Whether an idempotency key that is the same for all attempts is sent, so that the server can recognise a
    /// repetition. By default it is sent with POST, PUT, PATCH and DELETE.
    #[serde(default)]
    pub(super) send_idempotency_key: Option<bool>,
    /// The header of that idempotency key.
    #[serde(default = "idempotency_header_default")]
    #[schemars(length(min = 1))]
    pub(super) idempotency_header: String,
}

fn default_true() -> bool {
    true
}

fn accept_statuses_default() -> Vec<StatusRange> {
    vec![StatusRange::Class(2)]
}

fn retry_on_default() -> Vec<u16> {
    vec![408, 425, 429, 500, 502, 503, 504]
}

fn max_response_bytes_default() -> u32 {
    PAYLOAD_BYTES as u32
}

fn idempotency_header_default() -> String {
    "Idempotency-Key".to_owned()
}

/// A method of HTTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
#[schemars(inline)]
pub(super) enum HttpVerb {
    #[default]
    Get,
    Post,
    Put,
    Patch,
    Delete,
    Head,
    Options,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(super) enum BodyType {
    #[default]
    Auto,
    Json,
    Text,
    Form,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(super) enum ResponseType {
    #[default]
    Auto,
    Json,
    Text,
    Base64,
}

/// The credentials of a request.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
#[schemars(inline)]
pub(super) enum Auth {
    /// No credentials.
    #[default]
    None,
    /// A user with a password.
    Basic {
        /// The user name.
        #[schemars(extend("x-secret" = true))]
        username: String,
        /// The password.
        #[schemars(extend("x-secret" = true))]
        password: String,
    },
    /// A bearer token.
    Bearer {
        /// The token.
        #[schemars(length(min = 1), extend("x-secret" = true))]
        token: String,
    },
    /// A key in a header.
    Header {
        /// The header's name.
        #[schemars(length(min = 1))]
        name: String,
        /// The key.
        #[schemars(length(min = 1), extend("x-secret" = true))]
        value: String,
    },
}

impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Auth(…)")
    }
}

/// A string; numbers and booleans are converted to strings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TextValue(pub(crate) String);

impl TextValue {
    pub(super) fn from_json(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Some(Self(text.clone())),
            Value::Number(_) | Value::Bool(_) => Some(Self(value.to_string())),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }
}

impl<'de> Deserialize<'de> for TextValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Self::from_json(&value).ok_or_else(|| serde::de::Error::custom("expected a string, a number, true or false"))
    }
}

impl JsonSchema for TextValue {
    fn schema_name() -> Cow<'static, str> {
        "Plain".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": ["string", "number", "boolean"], "x-secret": true})
    }
}

/// Any number of strings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TextValues(pub(super) Vec<String>);

impl TextValues {
    pub(super) fn from_json(value: &Value) -> Option<Self> {
        let texts = match value {
            Value::Null => Vec::new(),
            Value::Array(items) => items
                .iter()
                .map(|item| TextValue::from_json(item).map(|TextValue(text)| text))
                .collect::<Option<_>>()?,
            value => vec![TextValue::from_json(value)?.0],
        };
        Some(Self(texts))
    }
}

impl<'de> Deserialize<'de> for TextValues {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Self::from_json(&value).ok_or_else(|| serde::de::Error::custom("expected strings or numbers"))
    }
}

impl JsonSchema for TextValues {
    fn schema_name() -> Cow<'static, str> {
        "Many".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["string", "number", "boolean", "array", "null"],
            "items": {"type": ["string", "number", "boolean"]},
            "x-secret": true,
        })
    }
}

/// One status, or a class of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StatusRange {
    One(u16),
    Class(u16),
}

impl StatusRange {
    pub(super) fn contains(self, status: u16) -> bool {
        self.range().contains(&status)
    }

    /// From the first to the last.
    pub(super) fn range(self) -> RangeInclusive<u16> {
        match self {
            Self::One(one) => one..=one,
            Self::Class(class) => {
                let first = class.saturating_mul(100);
                first..=first.saturating_add(99)
            }
        }
    }

    fn from_json(value: &Value) -> Option<Self> {
        match value {
            Value::Number(number) => Some(Self::One(u16::try_from(number.as_u64()?).ok()?)),
            Value::String(text) => Some(Self::Class(text.strip_suffix("xx")?.parse().ok()?)),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        }
    }
}

impl Serialize for StatusRange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::One(status) => serializer.serialize_u16(*status),
            Self::Class(class) => serializer.serialize_str(&format!("{class}xx")),
        }
    }
}

impl<'de> Deserialize<'de> for StatusRange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Self::from_json(&value)
            .ok_or_else(|| serde::de::Error::custom("expected a status such as 404, or a class such as 4xx"))
    }
}

impl JsonSchema for StatusRange {
    fn schema_name() -> Cow<'static, str> {
        "Statuses".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": ["integer", "string"], "minimum": 100, "maximum": 599, "pattern": "^[1-5]xx$"})
    }
}
