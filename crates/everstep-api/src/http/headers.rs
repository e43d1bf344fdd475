//! Headers that several routes use.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, header};
use everstep_core::limits;

use crate::http::problem::Problem;

/// `Idempotency-Key`: a repeated request is answered without being applied again.
#[derive(Clone, Debug)]
pub(crate) struct IdempotencyKey(Option<String>);

impl IdempotencyKey {
    pub(crate) fn into_inner(self) -> Option<String> {
        self.0
    }

    /// The key of a route that requires one.
    pub(crate) fn required(self) -> Result<String, Problem> {
        let hint = "choose a key for this attempt, such as a UUID, and repeat the request with the same key";
        self.0.ok_or_else(|| Problem::invalid("the header Idempotency-Key is missing").hint(hint))
    }

    /// The key of the header or of the body; both may be given if they are the same.
    pub(crate) fn or(self, body: Option<String>) -> Result<Option<String>, Problem> {
        if let Some(key) = &body {
            check(key, "idempotencyKey")?;
        }
        match (self.0, body) {
            (Some(header), Some(body)) if header != body => Err(Problem::invalid(
                "the header Idempotency-Key and the field idempotencyKey differ; send one of them",
            )),
            (header, body) => Ok(header.or(body)),
        }
    }
}

impl<S: Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let key = once(&parts.headers, "idempotency-key")?.map(str::to_owned);
        if let Some(key) = &key {
            check(key, "Idempotency-Key")?;
        }
        Ok(Self(key))
    }
}

pub(crate) fn check(key: &str, name: &str) -> Result<(), Problem> {
    let most = limits::KEY_CHARS;
    match key.chars().count() {
        0 => Err(Problem::invalid(format!("{name} is empty; it must have 1 to {most} characters"))),
        length if length > most => {
            Err(Problem::invalid(format!("{name} has {length} characters; it must have at most {most}")))
        }
        _ if key.contains('\0') => Err(Problem::invalid(format!("{name} contains a NUL character"))),
        _ => Ok(()),
    }
}

/// `If-Match`: the version that the target of a request must have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IfMatch(Option<u64>);

impl IfMatch {
    pub(crate) fn into_inner(self) -> Option<u64> {
        self.0
    }

    /// The version of the header or of the body; both may be given if they are the same.
    pub(crate) fn or(self, body: Option<u64>) -> Result<Option<u64>, Problem> {
        match (self.0, body) {
            (Some(header), Some(body)) if header != body => {
                Err(Problem::invalid("the header If-Match and the field expectedVersion differ; send one of them"))
            }
            (header, body) => Ok(header.or(body)),
        }
    }
}

impl<S: Sync> FromRequestParts<S> for IfMatch {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let Some(text) = once(&parts.headers, header::IF_MATCH.as_str())? else { return Ok(Self(None)) };
        let number = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
        // A sign is not a digit.
        let digits = number.bytes().all(|byte| byte.is_ascii_digit()).then_some(number).filter(|it| it.len() < 20);
        let version = digits.unwrap_or_default().parse().map_err(|_| {
            let hint = "send a version as in the header ETag of GET, such as \"12\"";
            Problem::invalid(format!("the header If-Match is not valid: {text:?}")).hint(hint)
        })?;
        Ok(Self(Some(version)))
    }
}

/// Whether one of the values of a header meets a condition.
pub(crate) fn holds(headers: &HeaderMap, name: &HeaderName, is_met: impl Fn(&str) -> bool) -> bool {
    headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).any(is_met)
}

pub(crate) fn once<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Problem> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Problem::invalid(format!("the header {name} occurs twice")));
    }
    let text = str::from_utf8(value.as_bytes());
    text.map(|text| Some(text.trim())).map_err(|_| Problem::invalid(format!("the header {name} is not UTF-8")))
}
