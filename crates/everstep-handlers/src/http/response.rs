//! Reads a response.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use everstep_core::failure::{Failure, code};
use everstep_core::journal::Outcome;
use everstep_net::header::{self, HeaderMap};
use everstep_net::{Error, Response};
use serde_json::{Map, Value, json};

use super::config::{ResponseType, StatusRange};
use crate::secrets::RevealedSecrets;

/// Characters of an error response's body that the failure quotes.
pub(crate) const ERROR_BODY_CHARS_MAX: usize = 500;

/// How a response is interpreted.
pub(super) struct ResponseReader {
    pub(super) accept_statuses: Vec<StatusRange>,
    pub(super) retry_on: Vec<u16>,
    pub(super) response_type: ResponseType,
}

impl ResponseReader {
    /// The step's outcome. Secrets that the server repeats are masked.
    pub(super) fn read(&self, response: Response, revealed: &RevealedSecrets) -> Result<Outcome, Failure> {
        let status = response.status.as_u16();
        let bytes = revealed.mask_bytes(response.body);
        if !self.accept_statuses.iter().any(|statuses| statuses.contains(status)) {
            let host = response.url.host_str().unwrap_or_default();
            let mut message = format!("{host} responded with status {}", response.status);
            let seconds = retry_after(&response.headers);
            if let Some(seconds) = seconds {
                message.push_str(&format!(" (it allows a retry after {seconds} s)"));
            }
            let text = String::from_utf8_lossy(&bytes);
            if !text.trim().is_empty() {
                message.push_str(&format!(": {}", cut(text.trim(), ERROR_BODY_CHARS_MAX)));
            }
            let message = revealed.mask(&message);
            let may_pass = self.retry_on.contains(&status);
            let retry_after_ms = seconds.map(|seconds| seconds.saturating_mul(1_000));
            let failure = Failure::fatal("HTTP_STATUS", message).with_status(status);
            return Err(Failure { retryable: may_pass, retry_after_ms, ..failure });
        }
        let body = body(bytes, &response.headers, self.response_type)?;
        let headers = headers(&response.headers, revealed);
        Ok(Outcome::from_output(json!({"status": status, "headers": headers, "body": body})))
    }
}

/// The failure of a request without a response.
pub(crate) fn failure(error: &Error, revealed: &RevealedSecrets) -> Failure {
    let code = match error {
        Error::Refused { .. } => "ADDRESS_REFUSED",
        Error::Timeout(_) => code::STEP_TIMEOUT,
        Error::TooLarge(_) => code::PAYLOAD_TOO_LARGE,
        Error::Invalid(_) => code::INVALID_CONFIG,
        Error::Unresolved(_) | Error::Unreachable { .. } | Error::Redirect(_) | Error::Broken { .. } => "HTTP_ERROR",
    };
    let message = revealed.mask(&error.to_string());
    Failure { retryable: error.is_transient(), ..Failure::fatal(code, message) }
}

/// The number of seconds that a server demands before the next request. A date is ignored: clocks differ.
fn retry_after(headers: &HeaderMap) -> Option<u32> {
    headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()
}

fn body(bytes: Vec<u8>, headers: &HeaderMap, kind: ResponseType) -> Result<Value, Failure> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let content_type = content_type.to_ascii_lowercase();
    let media = content_type.split(';').next().unwrap_or_default().trim();
    let is_json = media == "application/json" || media.ends_with("+json");
    match kind {
        ResponseType::Json => parse(&bytes),
        ResponseType::Auto if is_json => parse(&bytes),
        ResponseType::Text => Ok(text(bytes, &content_type)),
        ResponseType::Auto if is_text(media) => Ok(text(bytes, &content_type)),
        ResponseType::Auto | ResponseType::Base64 => Ok(Value::String(BASE64_STANDARD.encode(&bytes))),
    }
}

fn parse(bytes: &[u8]) -> Result<Value, Failure> {
    let failed = |error: serde_json::Error| {
        let message = format!("the response is not JSON: {error}; set `responseType` to change how it is decoded");
        Failure::fatal("HTTP_ERROR", message)
    };
    serde_json::from_slice(bytes).map_err(failed)
}

fn is_text(media: &str) -> bool {
    let known = ["", "application/xml", "application/javascript", "application/x-www-form-urlencoded"];
    media.starts_with("text/") || media.ends_with("+xml") || known.contains(&media)
}

fn text(bytes: Vec<u8>, content_type: &str) -> Value {
    if content_type.contains("charset=iso-8859-1") {
        return Value::String(bytes.into_iter().map(char::from).collect());
    }
    Value::String(match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    })
}

/// Headers by their names in lowercase; repeated headers are joined with commas.
fn headers(headers: &HeaderMap, revealed: &RevealedSecrets) -> Map<String, Value> {
    let mut map = Map::new();
    for name in headers.keys() {
        let values = headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
        let joined = values.collect::<Vec<_>>().join(", ");
        map.insert(name.as_str().to_owned(), Value::String(revealed.mask(&joined)));
    }
    map
}

pub(crate) fn cut(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
