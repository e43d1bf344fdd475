//! Builds a request from a config.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use everstep_core::evaluate::Fault;
use everstep_core::failure::{Failure, code};
use everstep_net::header::{self, HeaderMap, HeaderName, HeaderValue};
use everstep_net::{Method, REDIRECTS_MAX, Request, Url};
use serde_json::Value;
use zeroize::Zeroizing;

use super::config::{Auth, BodyType, Config, HttpVerb, TextValue, TextValues};
use super::host::{COMPUTED_HOST, WrittenHost};
use crate::handler::Task;
use crate::secrets::RevealedSecrets;

/// Headers that the client sets itself.
const RESERVED_HEADERS: &[&str] = &[
    "host",
    "connection",
    "content-length",
    "transfer-encoding",
    "upgrade",
    "te",
    "trailer",
    "keep-alive",
    "proxy-connection",
    "expect",
];

/// The request of a config. The places of secrets determine which values count as credentials.
pub(super) fn make(
    config: Config,
    task: &Task,
    secret_pointers: &[String],
    revealed: &mut RevealedSecrets,
) -> Result<Request, Failure> {
    let url = address(&config)?;
    if !secret_pointers.is_empty() {
        WrittenHost::read(&task.written["url"]).check(&url)?;
    }
    let is_secret = |field: &str| secret_pointers.iter().any(|place| place.split('/').nth(1) == Some(field));
    let mut headers = HeaderMap::new();
    for (name, value) in &config.headers {
        let Some(TextValue(text)) = value else { continue };
        let is_sensitive = secret_pointers.iter().any(|place| *place == format!("/headers/{}", escape(name)));
        headers.insert(header_name(name, "headers")?, header_value(text, name, is_sensitive)?);
    }
    authorize(&config.auth, &mut headers, revealed)?;
    let method = method(config.method);
    let key_by_default = matches!(config.method, HttpVerb::Post | HttpVerb::Put | HttpVerb::Patch | HttpVerb::Delete);
    if config.send_idempotency_key.unwrap_or(key_by_default) {
        let name = header_name(&config.idempotency_header, "idempotencyHeader")?;
        let key = header_value(&task.idempotency_key(), &config.idempotency_header, false)?;
        headers.entry(name).or_insert(key);
    }
    let has_secret_body = is_secret("body");
    let (body, content_type) = body(config.body, config.body_type)?;
    if let Some(content_type) = config.content_type.as_deref().or(content_type) {
        let value = header_value(content_type, "contentType", false)?;
        headers.entry(header::CONTENT_TYPE).or_insert(value);
    }
    let mut request = Request::new(method, url);
    request.headers = headers;
    request.body = body;
    request.has_secret_body = has_secret_body;
    request.redirects = if config.follow_redirects { REDIRECTS_MAX } else { 0 };
    request.max_bytes = config.max_response_bytes as usize;
    // The status of an error response is reported first, however long the response is.
    request.read = config.accept_statuses.iter().map(|statuses| statuses.range()).collect();
    if !task.timeout.is_zero() {
        request.timeout = task.timeout;
    }
    Ok(request)
}

/// The errors in a config beyond its types, in its literal parts.
pub(super) fn check(config: &Value) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut report = |pointer: String, message: String| faults.push(Fault { pointer, message });
    let is_literal = |text: &&str| !text.contains("{{");
    if let Some(url) = config["url"].as_str().filter(is_literal).filter(|url| !url.trim().is_empty())
        && let Err(failure) = read_address(url)
    {
        report("/url".to_owned(), failure.message);
    }
    let names = config["headers"].as_object().into_iter().flatten();
    for (name, value) in names {
        let pointer = format!("/headers/{}", escape(name));
        if let Err(failure) = header_name(name, "headers") {
            report(pointer, failure.message);
        } else if let Some(Err(failure)) = value.as_str().filter(is_literal).map(|text| header_value(text, name, false))
        {
            report(pointer, failure.message);
        }
    }
    for pointer in ["/auth/name", "/idempotencyHeader"] {
        let name = config.pointer(pointer).and_then(Value::as_str).filter(is_literal).filter(|name| !name.is_empty());
        if let Some(Err(failure)) = name.map(|name| header_name(name, pointer.trim_start_matches('/'))) {
            report(pointer.to_owned(), failure.message);
        }
    }
    // A secret is sent only to the host in the definition: the input of a run must not choose the host. A literal
    // address is checked above.
    let is_literal_url = config["url"].as_str().is_some_and(|url| is_literal(&url));
    if names_secret(config) && !is_literal_url && WrittenHost::read(&config["url"]) == WrittenHost::Computed {
        report("/url".to_owned(), COMPUTED_HOST.to_owned());
    }
    // A field without effect is rejected, because its author would rely on it.
    if config.get("body").is_none_or(Value::is_null) {
        for field in ["bodyType", "contentType"].into_iter().filter(|field| config.get(field).is_some()) {
            report(format!("/{field}"), format!("`{field}` has no effect without a body"));
        }
    }
    let names = config["headers"].as_object().into_iter().flat_map(|headers| headers.keys());
    if config.get("contentType").is_some() && names.into_iter().any(|name| name.eq_ignore_ascii_case("content-type")) {
        report(
            "/contentType".to_owned(),
            "the content type is set in both `headers` and `contentType`; remove one of them".to_owned(),
        );
    }
    if config["sendIdempotencyKey"] == false && config.get("idempotencyHeader").is_some() {
        let message = "`idempotencyHeader` has no effect if no idempotency key is sent";
        report("/idempotencyHeader".to_owned(), message.to_owned());
    }
    faults
}

/// Whether a config contains a secret.
fn names_secret(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.contains_key("$secret") || fields.values().any(names_secret),
        Value::Array(items) => items.iter().any(names_secret),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

pub(super) fn invalid(message: String) -> Failure {
    Failure::fatal(code::INVALID_CONFIG, message)
}

fn address(config: &Config) -> Result<Url, Failure> {
    let mut url = read_address(&config.url)?;
    if config.query.values().any(|TextValues(texts)| !texts.is_empty()) {
        let mut pairs = url.query_pairs_mut();
        for (name, TextValues(texts)) in &config.query {
            for text in texts {
                pairs.append_pair(name, text);
            }
        }
    }
    Ok(url)
}

/// Parses an address, as the client that sends the request does.
pub(super) fn read_address(text: &str) -> Result<Url, Failure> {
    let hint = "write for example https://example.com/orders";
    let url =
        Url::parse(text.trim()).map_err(|error| invalid(format!("`url` is not a valid address: {error}; {hint}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(invalid(format!("`url` must begin with http:// or https://; {hint}")));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(invalid("`url` must not contain credentials; use `auth`".to_owned()));
    }
    Ok(url)
}

fn header_name(name: &str, field: &str) -> Result<HeaderName, Failure> {
    let read = HeaderName::from_bytes(name.as_bytes());
    let read = read.map_err(|_| invalid(format!("`{field}`: {name:?} is not a valid name of a header")))?;
    if RESERVED_HEADERS.contains(&read.as_str()) {
        return Err(invalid(format!("`{field}`: the client sets the header {read} itself; remove it")));
    }
    Ok(read)
}

/// The value is not part of the message: it may be a secret.
fn header_value(text: &str, name: &str, is_sensitive: bool) -> Result<HeaderValue, Failure> {
    let value = HeaderValue::from_bytes(text.as_bytes());
    let mut value = value.map_err(|_| invalid(format!("the value of {name:?} is not valid in a header")))?;
    value.set_sensitive(is_sensitive);
    Ok(value)
}

/// Credentials are sensitive whatever their origin.
fn authorize(auth: &Auth, headers: &mut HeaderMap, revealed: &mut RevealedSecrets) -> Result<(), Failure> {
    let (name, value) = match auth {
        Auth::None => return Ok(()),
        Auth::Basic { username, password } => {
            if username.contains(':') {
                return Err(invalid("`auth/username` must not contain a colon".to_owned()));
            }
            let pair = Zeroizing::new(format!("{username}:{password}"));
            let token = Zeroizing::new(BASE64_STANDARD.encode(pair.as_bytes()));
            if !revealed.is_empty() {
                revealed.add(&token);
            }
            (header::AUTHORIZATION, Zeroizing::new(format!("Basic {}", *token)))
        }
        Auth::Bearer { token } => (header::AUTHORIZATION, Zeroizing::new(format!("Bearer {token}"))),
        Auth::Header { name, value } => (header_name(name, "auth/name")?, Zeroizing::new(value.clone())),
    };
    if headers.contains_key(&name) {
        return Err(invalid(format!("the header {name} is set in both `headers` and `auth`; remove one of them")));
    }
    let value = header_value(&value, name.as_str(), true)?;
    headers.insert(name, value);
    Ok(())
}

/// The bytes of a body and their default content type.
fn body(body: Value, kind: BodyType) -> Result<(Vec<u8>, Option<&'static str>), Failure> {
    const TEXT: &str = "text/plain; charset=utf-8";
    match (kind, body) {
        (BodyType::Json, Value::Null) => Ok((b"null".to_vec(), Some("application/json"))),
        (_, Value::Null) => Ok((Vec::new(), None)),
        (BodyType::Auto | BodyType::Text, Value::String(text)) => Ok((text.into_bytes(), Some(TEXT))),
        (BodyType::Text, other) => Ok((other.to_string().into_bytes(), Some(TEXT))),
        (BodyType::Auto | BodyType::Json, other) => Ok((other.to_string().into_bytes(), Some("application/json"))),
        (BodyType::Form, Value::Object(fields)) => {
            let mut form = form_urlencoded::Serializer::new(String::new());
            for (name, value) in &fields {
                let texts = TextValues::from_json(value);
                let TextValues(texts) =
                    texts.ok_or_else(|| invalid(format!("`body`: the field {name:?} of a form must be a string")))?;
                for text in texts {
                    form.append_pair(name, &text);
                }
            }
            Ok((form.finish().into_bytes(), Some("application/x-www-form-urlencoded")))
        }
        (BodyType::Form, _) => Err(invalid("`body`: a form must be an object".to_owned())),
    }
}

fn method(verb: HttpVerb) -> Method {
    match verb {
        HttpVerb::Get => Method::GET,
        HttpVerb::Post => Method::POST,
        HttpVerb::Put => Method::PUT,
        HttpVerb::Patch => Method::PATCH,
        HttpVerb::Delete => Method::DELETE,
        HttpVerb::Head => Method::HEAD,
        HttpVerb::Options => Method::OPTIONS,
    }
}

/// A field's name as a part of a JSON pointer.
fn escape(field: &str) -> String {
    field.replace('~', "~0").replace('/', "~1")
}
