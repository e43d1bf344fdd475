//! Serves the page and its files.

use std::collections::BTreeSet;
use std::io::Read;
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use flate2::read::GzDecoder;

use super::assets::{self, Asset};
use crate::http::compress::accepts_gzip;
use crate::http::headers::holds;
use crate::http::problem::Problem;

/// Scripts come only from this server. Styles may be inline: virtual lists and graphs position their elements so.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
                      font-src 'self'; connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";
const HEADERS: [(HeaderName, &str); 4] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];
/// A file has a digest of its content in its name, so it never changes.
const CACHE_FILE: &str = "public, max-age=31536000, immutable";
/// The page keeps its address, so a browser asks whether it has changed.
const CACHE_PAGE: &str = "no-cache";
/// The page of a binary without the console.
const ABSENT_PAGE: &str = include_str!("absent.html");
/// The folder of the files.
const ASSETS: &str = "assets";

/// Which paths belong to the console.
#[derive(Clone, Debug)]
pub(crate) struct Console {
    /// The first segments of all routes: no page hides a route.
    reserved: Arc<BTreeSet<&'static str>>,
}

impl Console {
    pub(crate) fn new(reserved: BTreeSet<&'static str>) -> Self {
        Self { reserved: Arc::new(reserved) }
    }

    /// The response to a request that is for the console.
    pub(crate) fn answer(&self, method: &Method, path: &str, headers: &HeaderMap) -> Option<Response> {
        if method != Method::GET {
            return None;
        }
        let path = path.strip_prefix('/')?;
        let segment = path.split('/').next().unwrap_or_default();
        if segment == ASSETS {
            return Some(match assets::find(path) {
                Some(asset) => send(asset, CACHE_FILE, headers),
                None => with_headers(Problem::not_found(format!("/{path} does not exist")).into_response()),
            });
        }
        let is_page = (segment.is_empty() || !self.reserved.contains(segment)) && accepts_page(headers);
        is_page.then(|| match assets::find("index.html") {
            Some(page) => send(page, CACHE_PAGE, headers),
            None => {
                let kind = [(header::CONTENT_TYPE, "text/html; charset=utf-8"), (header::CACHE_CONTROL, CACHE_PAGE)];
                with_headers((kind, ABSENT_PAGE).into_response())
            }
        })
    }
}

fn send(asset: &'static Asset, cache: &'static str, headers: &HeaderMap) -> Response {
    let common =
        [(header::ETAG, asset.etag), (header::CACHE_CONTROL, cache), (header::VARY, "accept, accept-encoding")];
    if holds(headers, &header::IF_NONE_MATCH, |value| value.split(',').any(|etag| is_same(etag.trim(), asset.etag))) {
        return with_headers((StatusCode::NOT_MODIFIED, common).into_response());
    }
    let kind = [(header::CONTENT_TYPE, asset.media_type)];
    with_headers(match accepts_gzip(headers) {
        true => (common, kind, [(header::CONTENT_ENCODING, "gzip")], asset.gzipped).into_response(),
        false => (common, kind, inflate(asset)).into_response(),
    })
}

fn with_headers(mut response: Response) -> Response {
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn inflate(asset: &Asset) -> Vec<u8> {
    let mut bytes = Vec::new();
    GzDecoder::new(asset.gzipped).read_to_end(&mut bytes).expect("the build compressed the file");
    bytes
}

fn is_same(received: &str, etag: &str) -> bool {
    received == "*" || received.strip_prefix("W/").unwrap_or(received) == etag
}

/// Whether a browser requests a page. A program that sends `*/*` does not.
fn accepts_page(headers: &HeaderMap) -> bool {
    holds(headers, &header::ACCEPT, |value| value.contains("text/html"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(HeaderName, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn a_page_never_hides_a_route() {
        let console = Console::new(BTreeSet::from(["v1", "docs"]));
        let browser = headers(&[(header::ACCEPT, "text/html,*/*;q=0.8")]);
        for path in ["/", "/runs", "/runs/01J/diff/02K", "/anything%20else", "/v1x"] {
            assert!(console.answer(&Method::GET, path, &browser).is_some(), "{path}");
            assert!(console.answer(&Method::POST, path, &browser).is_none(), "{path}");
        }
        for path in ["/v1", "/v1/runs", "/docs"] {
            assert!(console.answer(&Method::GET, path, &browser).is_none(), "{path}");
        }
        let program = headers(&[(header::ACCEPT, "*/*")]);
        assert!(console.answer(&Method::GET, "/runs", &program).is_none());
        let missing = console.answer(&Method::GET, "/assets/none.js", &browser).unwrap();
        assert_eq!(missing.status(), StatusCode::NOT_FOUND);
    }
}
