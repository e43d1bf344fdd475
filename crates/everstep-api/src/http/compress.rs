//! Compresses JSON for clients that accept it.

use std::io::Write;

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;
use flate2::Compression;
use flate2::write::GzEncoder;
use http_body_util::BodyExt;

use crate::http::headers::holds;

/// Smaller bodies are sent as they are: they fit into one packet.
const COMPRESSED_BYTES_MIN: u64 = 1_024;
/// Larger bodies are compressed on a thread that may block.
const INLINE_BYTES_MAX: usize = 128 * 1_024;

/// Compresses the JSON of a response, unless `is_excluded` holds for the path. Streams and other documents pass.
pub(crate) async fn compress(is_excluded: fn(&str) -> bool, request: Request, next: Next) -> Response {
    let is_accepted = accepts_gzip(request.headers()) && !is_excluded(request.uri().path());
    let response = next.run(request).await;
    if is_accepted && is_compressible(&response) { compress_body(response).await } else { response }
}

/// Whether a response is JSON whose size is known and large enough.
fn is_compressible(response: &Response) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let is_json = kind.starts_with(b"application/json") || kind.starts_with(b"application/problem+json");
    is_json
        && response.body().size_hint().exact().is_some_and(|size| size >= COMPRESSED_BYTES_MIN)
        && !response.headers().contains_key(header::CONTENT_ENCODING)
}

async fn compress_body(response: Response) -> Response {
    let (mut parts, body) = response.into_parts();
    let Ok(whole) = body.collect().await else {
        // A body of known size is in memory, and reading it cannot fail.
        return Response::from_parts(parts, Body::empty());
    };
    let bytes = whole.to_bytes();
    let compressed = if bytes.len() <= INLINE_BYTES_MAX {
        gzip(&bytes)
    } else {
        tokio::task::spawn_blocking(move || gzip(&bytes)).await.expect("compressing does not panic")
    };
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    parts.headers.append(header::VARY, HeaderValue::from_static("accept-encoding"));
    Response::from_parts(parts, Body::from(compressed))
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::fast());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("writing to memory does not fail")
}

/// Whether a client accepts compressed bodies.
pub(crate) fn accepts_gzip(headers: &HeaderMap) -> bool {
    holds(headers, &header::ACCEPT_ENCODING, |value| {
        value.split(',').any(|coding| {
            let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
            let is_refused = weight.trim().strip_prefix("q=").is_some_and(|weight| weight.parse() == Ok(0.0));
            matches!(name.trim(), "gzip" | "*") && !is_refused
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_sent_to_clients_that_accept_it() {
        for (accepted, expected) in
            [("gzip, deflate, br", true), ("br;q=1.0, gzip;q=0.8", true), ("gzip;q=0", false), ("identity", false)]
        {
            let headers = [(header::ACCEPT_ENCODING, HeaderValue::from_static(accepted))].into_iter().collect();
            assert_eq!(accepts_gzip(&headers), expected, "{accepted}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }
}
