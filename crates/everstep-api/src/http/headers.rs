//! Headers that several routes use.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
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

/// `If-None-Match: *`: the target of a request must not exist.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IfAbsent(bool);

impl IfAbsent {
    pub(crate) fn is_given(self) -> bool {
        self.0
    }
}

impl<S: Sync> FromRequestParts<S> for IfAbsent {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        match once(&parts.headers, header::IF_NONE_MATCH.as_str())? {
            None => Ok(Self(false)),
            Some("*") => Ok(Self(true)),
            Some(text) => Err(Problem::invalid(format!("the header If-None-Match is not valid: {text:?}"))
                .hint("a write accepts only `If-None-Match: *`, which means: the target must not exist")),
        }
    }
}

/// `If-None-Match` of a read: the versions that the client has.
#[derive(Clone, Debug)]
pub(crate) struct IfNoneMatch(Vec<String>);

impl IfNoneMatch {
    /// Whether the client has this version. A tag of another form is a version that the target never had.
    pub(crate) fn has(&self, version: u64) -> bool {
        self.has_tag(&format!("\"{version}\""))
    }

    /// Whether the client has the version with this tag, which is quoted.
    pub(crate) fn has_tag(&self, tag: &str) -> bool {
        self.0.iter().flat_map(|list| list.split(',')).map(str::trim).any(|sent| {
            let sent = sent.strip_prefix("W/").unwrap_or(sent);
            sent == "*" || sent == tag
        })
    }
}

impl<S: Sync> FromRequestParts<S> for IfNoneMatch {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let lines = parts.headers.get_all(header::IF_NONE_MATCH).iter();
        Ok(Self(lines.map(|line| String::from_utf8_lossy(line.as_bytes()).into_owned()).collect()))
    }
}

/// The header `ETag` with a version.
pub(crate) fn etag(version: u64) -> (HeaderName, HeaderValue) {
    (header::ETAG, HeaderValue::from_str(&format!("\"{version}\"")).expect("a number is plain text"))
}

/// Rejects a body in a content coding such as gzip: a decoder would turn a small body into a large one, whose memory is
/// not reserved.
pub(crate) fn check_content_coding(headers: &HeaderMap) -> Result<(), Problem> {
    let mut codings = headers.get_all(header::CONTENT_ENCODING).iter();
    let Some(coding) = codings.find(|coding| !is_identity(coding)) else { return Ok(()) };
    let coding = String::from_utf8_lossy(coding.as_bytes());
    let detail = format!("the body has the Content-Encoding {coding:?}, which the server does not decode");
    let hint = "send the body uncompressed, without the header Content-Encoding";
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UNSUPPORTED_MEDIA_TYPE", detail).hint(hint))
}

/// Whether content codings leave a body as it is.
fn is_identity(codings: &HeaderValue) -> bool {
    let is_identity = |coding: &str| coding.is_empty() || coding.eq_ignore_ascii_case("identity");
    codings.to_str().is_ok_and(|codings| codings.split(',').map(str::trim).all(is_identity))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_found_among_the_tags_of_a_client() {
        let has =
            |lines: &[&str], version| IfNoneMatch(lines.iter().map(|line| (*line).to_owned()).collect()).has(version);
        assert!(has(&["\"12\""], 12) && has(&["W/\"12\""], 12) && has(&["\"3\", \"12\""], 12) && has(&["*"], 12));
        assert!(has(&["\"3\"", "\"12\""], 12));
        assert!(!has(&[], 12) && !has(&["12"], 12) && !has(&["\"1\""], 12) && !has(&["\"012\""], 12));
    }

    #[test]
    fn only_bodies_without_a_content_coding_are_accepted() {
        let check = |lines: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for line in lines.iter().copied() {
                headers.append(header::CONTENT_ENCODING, HeaderValue::from_static(line));
            }
            check_content_coding(&headers).map_err(|problem| problem.into_words().0)
        };
        assert!(check(&[]).is_ok() && check(&[""]).is_ok() && check(&["identity"]).is_ok());
        assert!(check(&["Identity, identity"]).is_ok() && check(&["identity", "identity"]).is_ok());
        for coding in ["gzip", "br", "none", "identity, gzip"] {
            assert_eq!(check(&[coding]), Err("UNSUPPORTED_MEDIA_TYPE".to_owned()), "{coding}");
        }
        assert!(check(&["identity", "deflate"]).is_err());
    }
}
