//! The body of a request. It is read completely, up to a limit, and must be exactly what the route expects.

use std::time::Duration;

use axum::BoxError;
use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::header;
use everstep_core::payload::Payload;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::http::problem::Problem;

/// The timeout of reading a request's body.
pub(crate) const READ_TIMEOUT: Duration = Duration::from_secs(120);

/// A body of at most `BYTES_MAX` bytes.
pub(crate) struct Body<const BYTES_MAX: usize>(Bytes);

impl<const BYTES_MAX: usize> Body<BYTES_MAX> {
    /// A body that was read already.
    pub(crate) fn from_bytes(bytes: Bytes) -> Self {
        Self(bytes)
    }

    pub(crate) fn bytes(&self) -> &Bytes {
        &self.0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads a JSON object. An error contains its position.
    pub(crate) fn json<'a, T: Deserialize<'a>>(&'a self) -> Result<T, Problem> {
        // An array would be decoded as the fields of an object, in order.
        if self.0.trim_ascii_start().starts_with(b"[") {
            return Err(Problem::invalid("the body must be an object, not an array"));
        }
        self.any()
    }

    /// Reads JSON of any form.
    pub(crate) fn any<'a, T: Deserialize<'a>>(&'a self) -> Result<T, Problem> {
        if self.is_empty() {
            return Err(Problem::invalid("the request has no body").hint("send JSON"));
        }
        serde_json::from_slice(&self.0).map_err(|error| {
            let message = match error.classify() {
                serde_json::error::Category::Data => "the body does not have the form that this route expects",
                _ => "the body is not JSON",
            };
            Problem::invalid(format!("{message}: {error}"))
        })
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

impl<S: Sync, const BYTES_MAX: usize> FromRequest<S> for Body<BYTES_MAX> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let too_large = || Problem::too_large(format!("the body has more than {BYTES_MAX} bytes"));
        let length = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
        if length.and_then(|length| length.parse::<u64>().ok()).is_some_and(|length| length > BYTES_MAX as u64) {
            return Err(too_large());
        }
        match read(request.into_body(), BYTES_MAX, READ_TIMEOUT).await {
            Ok(body) => Ok(Self(body)),
            Err(error) if error.is::<LengthLimitError>() => Err(too_large()),
            Err(error) => Err(Problem::invalid(format!("the body could not be read: {error}"))),
        }
    }
}

/// Reads a body of at most this many bytes, within a timeout.
pub(crate) async fn read(body: axum::body::Body, limit: usize, timeout_after: Duration) -> Result<Bytes, BoxError> {
    match timeout(timeout_after, Limited::new(body, limit).collect()).await {
        Ok(body) => Ok(body?.to_bytes()),
        Err(_) => Err(format!("it did not arrive within {} s", timeout_after.as_secs()).into()),
    }
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
}
