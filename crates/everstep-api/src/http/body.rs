//! The body of a request. It is read completely, up to a limit, and must be exactly what the route expects.
//!
//! The memory of a body is reserved before it is read, in [`BodyMemory`], and is free again when the handler of the
//! route has ended. A body that arrives too slowly is not waited for.

use std::time::Duration;

use axum::BoxError;
use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::{StatusCode, header};
use everstep_core::decode::describe_error;
use everstep_core::payload::Payload;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use tokio::time::{Instant, timeout_at};

use crate::auth::Caller;
use crate::body_memory::{BodyMemory, BodyPermit};
use crate::http::headers::check_content_coding;
use crate::http::problem::Problem;

/// The timeout of reading a request's body.
pub(crate) const READ_TIMEOUT: Duration = Duration::from_secs(120);

/// The time after which a body of a client must have arrived at the minimum rate, if no other is set.
const GRACE: Duration = Duration::from_secs(5);
/// The minimum rate of a body, in bytes per second.
const RATE_MIN: usize = 64 * 1024;
/// Bytes that are reserved first for a body without a length.
const FIRST_BYTES: usize = 64 * 1024;

/// A body of at most `BYTES_MAX` bytes. Its memory is reserved as long as it exists.
pub(crate) struct Body<const BYTES_MAX: usize> {
    bytes: Bytes,
    _permit: Option<BodyPermit>,
}

impl<const BYTES_MAX: usize> Body<BYTES_MAX> {
    /// A body that was read already.
    pub(crate) fn from_bytes(bytes: Bytes) -> Self {
        Self { bytes, _permit: None }
    }

    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Reads a JSON object. An error contains its position.
    pub(crate) fn json<'a, T: Deserialize<'a>>(&'a self) -> Result<T, Problem> {
        match self.other_than_object() {
            Some(found) => Err(Problem::invalid(format!("the body must be an object, not {found}"))),
            None => self.any(),
        }
    }

    /// Reads JSON of any form.
    pub(crate) fn any<'a, T: Deserialize<'a>>(&'a self) -> Result<T, Problem> {
        if self.is_empty() {
            return Err(Problem::invalid("the request has no body").hint("send JSON"));
        }
        serde_json::from_slice(&self.bytes).map_err(|error| {
            let message = match error.classify() {
                serde_json::error::Category::Data => "the body does not have the form that this route expects",
                _ => "the body is not JSON",
            };
            Problem::invalid(format!("{message}: {}", describe_error(&error)))
        })
    }

    /// The JSON of the body, if it is not an object.
    fn other_than_object(&self) -> Option<&'static str> {
        let found = match self.bytes.trim_ascii_start().first()? {
            // An array would be decoded as the fields of an object, in order.
            b'[' => return Some("an array"),
            b'"' => "a string",
            b't' | b'f' => "a boolean",
            b'n' => "null",
            b'-' | b'0'..=b'9' => "a number",
            _ => return None,
        };
        serde_json::from_slice::<IgnoredAny>(&self.bytes).is_ok().then_some(found)
    }

    /// Reads JSON, or returns the default if there is no body.
    pub(crate) fn json_or_default<T: DeserializeOwned + Default>(&self) -> Result<T, Problem> {
        if self.is_empty() { Ok(T::default()) } else { self.json() }
    }

    /// Reads any JSON document and keeps its text. No body is `null`.
    pub(crate) fn payload(&self) -> Result<Payload, Problem> {
        if self.is_empty() { Ok(Payload::null()) } else { self.any() }
    }
}

impl<S: AsRef<BodyMemory> + Sync, const BYTES_MAX: usize> FromRequest<S> for Body<BYTES_MAX> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let too_large = || Problem::too_large(format!("the body has more than {BYTES_MAX} bytes"));
        Self::read_request(request, state.as_ref(), BYTES_MAX, too_large).await
    }
}

impl<const BYTES_MAX: usize> Body<BYTES_MAX> {
    /// Reads the body of a request that has at most `bytes_max` bytes; `too_large` is the problem of a larger one.
    pub(crate) async fn read_request(
        request: Request,
        memory: &BodyMemory,
        bytes_max: usize,
        too_large: impl Fn() -> Problem,
    ) -> Result<Self, Problem> {
        check_content_coding(request.headers())?;
        let length = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
        let length = length.and_then(|length| length.parse::<usize>().ok());
        if length.is_some_and(|length| length > bytes_max) {
            return Err(too_large());
        }
        let mut permit = memory.permit(request.extensions().get::<Caller>());
        permit.grow_to(length.unwrap_or_default()).await?;
        let end = Instant::now() + READ_TIMEOUT;
        let grace = memory.options().grace;
        match collect(request.into_body(), bytes_max, end, grace, Some(&mut permit)).await {
            Ok(bytes) => Ok(Self { bytes, _permit: Some(permit) }),
            Err(ReadFault::NoRoom(problem)) => Err(problem),
            Err(ReadFault::TooSlow(message)) => Err(too_slow(&message)),
            Err(ReadFault::Broken(error)) if error.is::<LengthLimitError>() => Err(too_large()),
            Err(ReadFault::Broken(error)) => Err(Problem::invalid(format!("the body could not be read: {error}"))),
        }
    }
}

/// A body that is read in parts, and never in memory as a whole. It must arrive at the minimum rate.
pub(crate) struct StreamedBody {
    body: axum::body::Body,
    announced: Option<u64>,
    permit: BodyPermit,
    grace: Duration,
    /// How long the client was waited for.
    waited: Duration,
    received: u64,
    /// Received bytes that no part has yet.
    rest: Bytes,
}

impl StreamedBody {
    /// The number of bytes that the client has announced.
    pub(crate) fn announced(&self) -> Option<u64> {
        self.announced
    }

    /// The next part of this many bytes; the last one may have fewer. None after the last one.
    pub(crate) async fn next_part(&mut self, size: usize) -> Result<Option<Vec<u8>>, Problem> {
        // A part, and the bytes that have arrived with it.
        self.permit.grow_to(2 * size).await?;
        let mut part = Vec::with_capacity(size);
        while part.len() < size {
            if self.rest.is_empty() {
                let Some(data) = self.next_frame().await? else {
                    self.check_end()?;
                    break;
                };
                self.received += data.len() as u64;
                self.rest = data;
            }
            let taken = self.rest.split_to(self.rest.len().min(size - part.len()));
            part.extend_from_slice(&taken);
        }
        Ok((!part.is_empty()).then_some(part))
    }

    /// Checks at the end of the body that all announced bytes have arrived.
    fn check_end(&self) -> Result<(), Problem> {
        match self.announced.filter(|announced| *announced != self.received) {
            None => Ok(()),
            Some(announced) => {
                let detail = format!("the body has ended after {} of {announced} bytes", self.received);
                Err(Problem::invalid(detail))
            }
        }
    }

    async fn next_frame(&mut self) -> Result<Option<Bytes>, Problem> {
        loop {
            let began = Instant::now();
            let may_wait = self.grace + Duration::from_secs_f64(self.received as f64 / RATE_MIN as f64);
            let deadline = began + may_wait.saturating_sub(self.waited);
            let Ok(frame) = timeout_at(deadline, self.body.frame()).await else {
                return Err(too_slow(&format!("{} bytes arrived in {may_wait:.0?}", self.received)));
            };
            self.waited += began.elapsed();
            let Some(frame) = frame else { return Ok(None) };
            let frame = frame.map_err(|error| Problem::invalid(format!("the body could not be read: {error}")))?;
            if let Ok(data) = frame.into_data() {
                return Ok(Some(data));
            }
        }
    }
}

impl<S: AsRef<BodyMemory> + Sync> FromRequest<S> for StreamedBody {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        check_content_coding(request.headers())?;
        let memory: &BodyMemory = state.as_ref();
        let announced = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
        let announced = announced.and_then(|length| length.parse().ok());
        let permit = memory.permit(request.extensions().get::<Caller>());
        let grace = memory.options().grace;
        let body = request.into_body();
        let (waited, received, rest) = (Duration::ZERO, 0, Bytes::new());
        Ok(Self { body, announced, permit, grace, waited, received, rest })
    }
}

fn too_slow(message: &str) -> Problem {
    let hint = format!("send at least {} KiB per second", RATE_MIN / 1024);
    let detail = format!("the body could not be read: {message}");
    Problem::new(StatusCode::REQUEST_TIMEOUT, "BODY_TOO_SLOW", detail).hint(hint)
}

/// Reads a body of at most this many bytes, within a timeout and at the minimum rate.
pub(crate) async fn read(body: axum::body::Body, limit: usize, timeout_after: Duration) -> Result<Bytes, BoxError> {
    match collect(body, limit, Instant::now() + timeout_after, GRACE, None).await {
        Ok(body) => Ok(body),
        Err(ReadFault::Broken(error)) => Err(error),
        Err(ReadFault::TooSlow(message)) => Err(message.into()),
        Err(ReadFault::NoRoom(_)) => unreachable!("no memory is reserved"),
    }
}

/// Why a body was not read.
enum ReadFault {
    /// The client has sent too much, or has disconnected.
    Broken(BoxError),
    TooSlow(String),
    NoRoom(Problem),
}

/// Reads a body until its end, or until it is too large or too slow. Memory is reserved before bytes are kept.
async fn collect(
    body: axum::body::Body,
    limit: usize,
    end: Instant,
    grace: Duration,
    mut permit: Option<&mut BodyPermit>,
) -> Result<Bytes, ReadFault> {
    let (began, mut body) = (Instant::now(), Limited::new(body, limit));
    // Most bodies arrive in one part, which is not copied.
    let (mut first, mut rest) = (Bytes::new(), Vec::new());
    loop {
        let received = if rest.is_empty() { first.len() } else { rest.len() };
        let pace = began + grace + Duration::from_secs_f64(received as f64 / RATE_MIN as f64);
        let frame = match timeout_at(pace.min(end), body.frame()).await {
            Ok(None) => break,
            Ok(Some(frame)) => frame.map_err(ReadFault::Broken)?,
            Err(_) if pace < end => {
                return Err(ReadFault::TooSlow(format!("{received} bytes arrived in {:.0?}", began.elapsed())));
            }
            Err(_) => {
                let message = format!("it did not arrive within {:.0?}", end - began);
                return Err(ReadFault::TooSlow(message));
            }
        };
        let Ok(data) = frame.into_data() else { continue };
        if let Some(permit) = &mut permit
            && received + data.len() > permit.bytes()
        {
            let doubled = (2 * permit.bytes()).clamp(FIRST_BYTES.min(limit), limit);
            permit.grow_to(doubled.max(received + data.len())).await.map_err(ReadFault::NoRoom)?;
        }
        if received == 0 {
            first = data;
            continue;
        }
        if rest.is_empty() {
            rest.extend_from_slice(&std::mem::take(&mut first));
        }
        rest.extend_from_slice(&data);
    }
    Ok(if rest.is_empty() { first } else { Bytes::from(rest) })
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    #[tokio::test]
    async fn a_body_that_never_ends_is_not_waited_for() {
        let body = axum::body::Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>());
        let error = read(body, 10, Duration::from_millis(20)).await.unwrap_err();
        assert!(error.to_string().contains("did not arrive"), "{error}");
        let error = read("more than ten".into(), 10, READ_TIMEOUT).await.unwrap_err();
        assert!(error.is::<LengthLimitError>(), "{error}");
    }

    #[tokio::test]
    async fn a_body_in_parts_is_read_in_order() {
        let parts = ["one ", "", "two ", "three"].map(|part| Ok::<_, std::io::Error>(Bytes::from(part)));
        let body = axum::body::Body::from_stream(stream::iter(parts));
        assert_eq!(read(body, 100, READ_TIMEOUT).await.unwrap(), "one two three");
    }

    #[tokio::test]
    async fn a_body_slower_than_the_minimum_rate_is_not_waited_for() {
        let first = stream::iter([Ok::<_, std::io::Error>(Bytes::from("slow"))]);
        let body = axum::body::Body::from_stream(futures_util::StreamExt::chain(first, stream::pending()));
        let end = Instant::now() + READ_TIMEOUT;
        match collect(body, 100, end, Duration::from_millis(20), None).await {
            Err(ReadFault::TooSlow(message)) => assert!(message.starts_with("4 bytes arrived in"), "{message}"),
            Ok(_) | Err(_) => panic!("the body never ends"),
        }
    }
}
