//! CloudEvents 1.0: the JSON format, and the attributes in the headers of the binary mode.
//!
//! 1. `id`, `source`, `type` and `specversion` are required. `type` is the topic.
//! 2. `data` must be JSON: any other `datacontenttype`, and `data_base64`, are rejected with 415.
//! 3. `subject` is a field of the event. All other attributes, known or not, are kept as extensions, unchanged.
//! 4. An attribute that is null is absent.

use std::borrow::Cow;
use std::collections::BTreeMap;

use axum::http::{HeaderMap, StatusCode, header};
use everstep_core::payload::Payload;
use everstep_core::time::Timestamp;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use super::draft::EventDraft;
use crate::http::body::Body;
use crate::http::headers;
use crate::http::problem::Problem;

/// The version of the specification.
const SPEC_VERSION: &str = "1.0";
/// The beginning of the headers of the binary mode.
const PREFIX: &str = "ce-";
const STRUCTURED: &str = "application/cloudevents+json";
const BATCHED: &str = "application/cloudevents-batch+json";
const DATA_HINT: &str = "an event contains JSON; store other data elsewhere, and publish a reference to it";
/// Characters of the name of an attribute.
const NAME_CHARS_MAX: usize = 64;

/// How a request contains an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContentMode {
    /// JSON of Everstep, not a CloudEvent.
    Plain,
    /// The body is a CloudEvent.
    Structured,
    /// The headers are the attributes of a CloudEvent, the body is its data.
    Binary,
    /// The body is an array of CloudEvents.
    Batched,
}

impl ContentMode {
    /// The content type decides first, as the specification demands; then the headers.
    pub(super) fn read(headers: &HeaderMap) -> Result<Self, Problem> {
        let kind = headers::once(headers, header::CONTENT_TYPE.as_str())?.unwrap_or_default();
        match &*essence(kind) {
            STRUCTURED => Ok(Self::Structured),
            BATCHED => Ok(Self::Batched),
            other if other.starts_with("application/cloudevents") => {
                Err(unsupported(format!("{other} is not supported"))
                    .hint(format!("send {STRUCTURED} or {BATCHED}, or the attributes in headers")))
            }
            _ if headers.keys().any(|name| name.as_str().starts_with(PREFIX)) => Ok(Self::Binary),
            _ => Ok(Self::Plain),
        }
    }
}

/// Reads an event of the JSON format.
pub(super) fn read_structured<const BYTES_MAX: usize>(body: &Body<BYTES_MAX>) -> Result<EventDraft, Problem> {
    from_members(body.json()?)
}

/// Reads the elements of a batch. Each is accepted or rejected separately.
pub(super) fn read_batch<const BYTES_MAX: usize>(
    body: &Body<BYTES_MAX>,
) -> Result<Vec<Result<EventDraft, Problem>>, Problem> {
    let elements: Vec<Payload> = body.any()?;
    let read = |element: Payload| {
        let not_object = |_| Problem::invalid("a CloudEvent is a JSON object");
        from_members(serde_json::from_str(element.json()).map_err(not_object)?)
    };
    Ok(elements.into_iter().map(read).collect())
}

/// Reads an event of the binary mode: its attributes are headers.
pub(super) fn read_binary(headers: &HeaderMap, data: Payload) -> Result<EventDraft, Problem> {
    let mut members = BTreeMap::new();
    for name in headers.keys().filter_map(|name| name.as_str().strip_prefix(PREFIX)) {
        let full = format!("{PREFIX}{name}");
        let text = headers::once(headers, &full)?.unwrap_or_default();
        let text = decode(text).ok_or_else(|| Problem::invalid(format!("the header {full} is not valid: {text:?}")))?;
        if name == "data" || name == "data_base64" || name == "datacontenttype" {
            let hint = "the data is the body, and Content-Type is its type";
            return Err(Problem::invalid(format!("the header {full} is not an attribute")).hint(hint));
        }
        members.insert(name.to_owned(), Payload::from(Value::String(text)));
    }
    if let Some(kind) = headers::once(headers, header::CONTENT_TYPE.as_str())? {
        members.insert("datacontenttype".to_owned(), Payload::from(Value::from(kind)));
    }
    members.insert("data".to_owned(), data);
    from_members(members)
}

fn from_members(mut members: BTreeMap<String, Payload>) -> Result<EventDraft, Problem> {
    let version = required(&mut members, "specversion")?;
    if version != SPEC_VERSION {
        return Err(wrong("specversion", format!("{version:?} is not supported; it must be {SPEC_VERSION:?}")));
    }
    if members.remove("data_base64").is_some_and(|data| !data.is_null()) {
        return Err(unsupported("data_base64: the data of an event must be JSON").hint(DATA_HINT));
    }
    let kind = optional(&mut members, "datacontenttype")?;
    if let Some(kind) = kind.as_deref().filter(|kind| !is_json(kind)) {
        return Err(unsupported(format!("datacontenttype: {kind:?} is not JSON")).hint(DATA_HINT));
    }
    let draft = EventDraft {
        topic: required(&mut members, "type")?,
        id: Some(required(&mut members, "id")?),
        source: Some(required(&mut members, "source")?),
        subject: optional(&mut members, "subject")?,
        data: members.remove("data").unwrap_or_else(Payload::null),
        extensions: Map::new(),
    };
    let mut extensions = Map::new();
    // JSON itself needs no mention.
    if let Some(kind) = kind.filter(|kind| essence(kind) != "application/json") {
        extensions.insert("datacontenttype".to_owned(), kind.into());
    }
    for (name, value) in members.into_iter().filter(|(_, value)| !value.is_null()) {
        extensions.insert(name.clone(), attribute(&name, value.value())?);
    }
    Ok(EventDraft { extensions, ..draft })
}

/// The value of an attribute without a field of its own.
fn attribute(name: &str, value: &Value) -> Result<Value, Problem> {
    let is_named = (1..=NAME_CHARS_MAX).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    if !is_named {
        let hint = "the name of an attribute consists of lower-case letters and digits";
        return Err(wrong(name, format!("{name:?} is not the name of an attribute")).hint(hint));
    }
    match (name, value) {
        ("time", Value::String(time)) if time.parse::<Timestamp>().is_err() => {
            Err(wrong(name, format!("{time:?} is not a time in RFC 3339")))
        }
        ("time" | "dataschema", Value::String(text)) if !text.is_empty() => Ok(text.as_str().into()),
        ("time" | "dataschema", _) => Err(wrong(name, "it must be a text")),
        (_, Value::String(_) | Value::Bool(_)) => Ok(value.clone()),
        (_, Value::Number(number)) if number.is_i64() || number.is_u64() => Ok(value.clone()),
        (_, Value::Number(_) | Value::Array(_) | Value::Object(_) | Value::Null) => {
            Err(wrong(name, "an attribute is a text, a boolean or a whole number; put other values into data"))
        }
    }
}

fn required(members: &mut BTreeMap<String, Payload>, name: &'static str) -> Result<String, Problem> {
    optional(members, name)?.ok_or_else(|| wrong(name, "it is missing; a CloudEvent must have it"))
}

fn optional(members: &mut BTreeMap<String, Payload>, name: &'static str) -> Result<Option<String>, Problem> {
    match members.remove(name).as_ref().map(Payload::value) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if !text.is_empty() => Ok(Some(text.clone())),
        Some(Value::String(_)) => Err(wrong(name, "it is empty")),
        Some(_) => Err(wrong(name, "it must be a text")),
    }
}

fn wrong(name: &str, why: impl AsRef<str>) -> Problem {
    Problem::invalid(format!("{name}: {}", why.as_ref())).with("path", name)
}

pub(super) fn unsupported(detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UNSUPPORTED_MEDIA_TYPE", detail)
}

/// A media type without its parameters.
fn essence(kind: &str) -> String {
    kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

fn is_json(kind: &str) -> bool {
    let essence = essence(kind);
    essence.split_once('/').is_some_and(|(_, subtype)| subtype == "json" || subtype.ends_with("+json"))
}

/// The value of a header: unquoted, then percent-decoded once. None if it is not valid.
fn decode(text: &str) -> Option<String> {
    let quoted = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    let text = quoted.map_or_else(|| text.to_owned(), unquote);
    // A percent sign that is not followed by two digits is kept.
    percent_decode_str(&text).decode_utf8().ok().map(Cow::into_owned)
}

/// The text of a quoted string, in which a backslash escapes the next character.
fn unquote(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => plain.extend(characters.next()),
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};
    use serde_json::json;

    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&str, &str)| {
            (name.parse::<HeaderName>().unwrap(), HeaderValue::from_bytes(value.as_bytes()).unwrap())
        };
        pairs.iter().map(pair).collect()
    }

    fn structured(event: &Value) -> Result<EventDraft, Problem> {
        read_structured(&Body::<4096>::from_bytes(event.to_string().into()))
    }

    fn refused(event: &Value) -> (String, String) {
        structured(event).err().unwrap_or_else(|| panic!("{event} is accepted")).into_words()
    }

    fn event(more: &Value) -> Value {
        let mut event = json!({"specversion": "1.0", "id": "7", "source": "/shop", "type": "order.paid"});
        for (name, value) in more.as_object().unwrap() {
            event[name] = value.clone();
        }
        event
    }

    #[test]
    fn the_mode_follows_from_the_headers() {
        let mode = |pairs: &[(&str, &str)]| ContentMode::read(&headers(pairs));
        assert_eq!(mode(&[]).unwrap(), ContentMode::Plain);
        assert_eq!(mode(&[("content-type", "text/plain")]).unwrap(), ContentMode::Plain);
        assert_eq!(mode(&[("ce-id", "7")]).unwrap(), ContentMode::Binary);
        let kind = "application/CloudEvents+json; charset=utf-8";
        assert_eq!(mode(&[("content-type", kind), ("ce-id", "7")]).unwrap(), ContentMode::Structured);
        assert_eq!(mode(&[("content-type", "application/cloudevents-batch+json")]).unwrap(), ContentMode::Batched);
        let (code, _) = mode(&[("content-type", "application/cloudevents+avro")]).unwrap_err().into_words();
        assert_eq!(code, "UNSUPPORTED_MEDIA_TYPE");
    }

    #[test]
    fn an_event_of_the_json_format_is_read() {
        let read = structured(&event(&json!({
            "subject": "7", "data": {"total": 1.50}, "datacontenttype": "application/json; charset=utf-8",
            "time": "2026-11-17T12:00:00Z", "dataschema": "https://shop.example/order", "traceparent": "00-ab",
            "retries": 3, "urgent": true, "nothing": null,
        })));
        let read = read.unwrap();
        assert_eq!(
            (&*read.topic, read.id.as_deref(), read.source.as_deref()),
            ("order.paid", Some("7"), Some("/shop"))
        );
        assert_eq!((read.subject.as_deref(), read.data.value()), (Some("7"), &json!({"total": 1.5})));
        let extensions = json!({"time": "2026-11-17T12:00:00Z", "dataschema": "https://shop.example/order",
            "traceparent": "00-ab", "retries": 3, "urgent": true});
        assert_eq!(Value::Object(read.extensions), extensions);
        let bare = structured(&event(&json!({"data": null}))).unwrap();
        assert!(bare.data.is_null() && bare.extensions.is_empty());
        let other = structured(&event(&json!({"datacontenttype": "application/vnd.shop+json", "data": 1}))).unwrap();
        assert_eq!(Value::Object(other.extensions), json!({"datacontenttype": "application/vnd.shop+json"}));
    }

    #[test]
    fn a_wrong_attribute_is_named() {
        for (more, attribute) in [
            (json!({"id": null}), "id: "),
            (json!({"id": ""}), "id: "),
            (json!({"id": 7}), "id: "),
            (json!({"source": null}), "source: "),
            (json!({"type": null}), "type: "),
            (json!({"specversion": "0.3"}), "specversion: "),
            (json!({"specversion": null}), "specversion: "),
            (json!({"subject": ["a"]}), "subject: "),
            (json!({"time": "yesterday"}), "time: "),
            (json!({"dataschema": 1}), "dataschema: "),
            (json!({"comExample": "x"}), "comExample: "),
            (json!({"nested": {"a": 1}}), "nested: "),
            (json!({"share": 0.5}), "share: "),
        ] {
            let (code, detail) = refused(&event(&more));
            assert_eq!(code, "VALIDATION_ERROR", "{more}");
            assert!(detail.starts_with(attribute), "{more}: {detail}");
        }
        for more in [json!({"datacontenttype": "application/xml", "data": "<a/>"}), json!({"data_base64": "YQ=="})] {
            assert_eq!(refused(&event(&more)).0, "UNSUPPORTED_MEDIA_TYPE", "{more}");
        }
        assert!(structured(&json!([])).is_err() && structured(&json!("x")).is_err());
    }

    #[test]
    fn an_event_of_the_binary_mode_is_read() {
        let pairs = [
            ("ce-specversion", "1.0"),
            ("ce-id", "\"a \\\"b\\\"\""),
            ("ce-source", "/caf%C3%A9/100%"),
            ("ce-type", "order.paid"),
            ("ce-traceparent", "00-ab"),
            ("content-type", "application/json"),
        ];
        let read = read_binary(&headers(&pairs), Payload::from(json!([1]))).unwrap();
        assert_eq!((read.id.as_deref(), read.source.as_deref()), (Some("a \"b\""), Some("/café/100%")));
        assert_eq!((read.data.json(), Value::Object(read.extensions)), ("[1]", json!({"traceparent": "00-ab"})));
        let refuse = |pairs: &[(&str, &str)]| {
            read_binary(&headers(pairs), Payload::null()).err().map(|problem| problem.into_words().0)
        };
        assert_eq!(refuse(&pairs[1..]).as_deref(), Some("VALIDATION_ERROR"));
        let with = |pair| pairs.iter().copied().chain([pair]).collect::<Vec<_>>();
        assert_eq!(refuse(&with(("ce-data", "1"))).as_deref(), Some("VALIDATION_ERROR"));
        assert_eq!(refuse(&with(("ce-subject", "%ff"))).as_deref(), Some("VALIDATION_ERROR"));
        let mut form = pairs;
        form[5] = ("content-type", "application/x-www-form-urlencoded");
        assert_eq!(refuse(&form).as_deref(), Some("UNSUPPORTED_MEDIA_TYPE"));
    }

    #[test]
    fn an_element_of_a_batch_is_refused_alone() {
        let batch = json!([event(&json!({})), 7, event(&json!({"id": ""}))]);
        let read = read_batch(&Body::<4096>::from_bytes(batch.to_string().into())).unwrap();
        let accepted: Vec<_> = read.iter().map(Result::is_ok).collect();
        assert_eq!(accepted, [true, false, false]);
        assert!(read_batch(&Body::<4096>::from_bytes("{}".into())).is_err());
    }
}
