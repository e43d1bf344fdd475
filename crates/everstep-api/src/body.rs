//! What a request carries. It is read whole, up to a limit, and must be exactly what the route expects.

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::header;
use everstep_core::payload::Payload;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::DeserializeOwned;

use crate::problem::Problem;

/// A body of at most so many bytes.
pub(crate) struct Body<const LIMIT: usize>(Bytes);

impl<const LIMIT: usize> Body<LIMIT> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads a JSON object. What is wrong with it is told with its place.
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        // An array would be read as the fields of an object, one after the other.
        if self.0.trim_ascii_start().starts_with(b"[") {
            return Err(Problem::invalid("the body is an array, not an object"));
        }
        self.any()
    }

    /// Reads JSON of any form.
    pub(crate) fn any<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        if self.is_empty() {
            return Err(Problem::invalid("the request has no body").hint("send JSON"));
        }
        serde_json::from_slice(&self.0).map_err(|error| {
            let what = match error.classify() {
                serde_json::error::Category::Data => "the body is not what this route expects",
                _ => "the body is not JSON",
            };
            Problem::invalid(format!("{what}: {error}"))
        })
    }

    /// Reads JSON, or takes what an absent body stands for.
    pub(crate) fn json_or_default<T: DeserializeOwned + Default>(&self) -> Result<T, Problem> {
        if self.is_empty() { Ok(T::default()) } else { self.json() }
    }

    /// Reads any JSON document and keeps its text. No body is `null`.
    pub(crate) fn payload(&self) -> Result<Payload, Problem> {
        if self.is_empty() { Ok(Payload::null()) } else { self.any() }
    }
}

impl<S: Sync, const LIMIT: usize> FromRequest<S> for Body<LIMIT> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let too_large = || Problem::too_large(format!("the body has more than {LIMIT} bytes"));
        let length = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
        if length.and_then(|length| length.parse::<u64>().ok()).is_some_and(|length| length > LIMIT as u64) {
            return Err(too_large());
        }
        match Limited::new(request.into_body(), LIMIT).collect().await {
            Ok(body) => Ok(Self(body.to_bytes())),
            Err(error) if error.is::<LengthLimitError>() => Err(too_large()),
            Err(error) => Err(Problem::invalid(format!("the body could not be read: {error}"))),
        }
    }
}
