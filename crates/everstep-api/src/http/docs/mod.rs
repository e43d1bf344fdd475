//! `/docs`: the API document for people. One page that sends requests only to its own server.

use std::sync::LazyLock;

use axum::http::{HeaderName, HeaderValue, header};
use sha2::{Digest, Sha256};

const PAGE_HTML: &str = include_str!("page.html");

/// The content security policy of the page: run its script, use its style, send requests to this server.
static CONTENT_SECURITY_POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let policy = format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        hash(between(PAGE_HTML, "<script>", "</script>")),
        hash(between(PAGE_HTML, "<style>", "</style>")),
    );
    HeaderValue::from_str(&policy).expect("a policy is plain text")
});

pub(crate) async fn page() -> ([(HeaderName, HeaderValue); 5], &'static str) {
    let plain = HeaderValue::from_static;
    let headers = [
        (header::CONTENT_TYPE, plain("text/html; charset=utf-8")),
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY.clone()),
        (header::X_CONTENT_TYPE_OPTIONS, plain("nosniff")),
        (header::REFERRER_POLICY, plain("no-referrer")),
        (header::CACHE_CONTROL, plain("no-cache")),
    ];
    (headers, PAGE_HTML)
}

fn between(text: &'static str, begin: &str, end: &str) -> &'static str {
    let (_, rest) = text.split_once(begin).expect("the page has a script and a style");
    rest.split_once(end).expect("the page's script and style have an end").0
}

/// SHA-256 in the encoding of a content security policy.
fn hash(text: &str) -> String {
    base64(&Sha256::digest(text.as_bytes()))
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for part in bytes.chunks(3) {
        let byte = |at: usize| u32::from(part.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for letter in 0..4 {
            let index = (bits >> (18 - 6 * letter)) & 63;
            text.push(if letter <= part.len() { char::from(ALPHABET[index as usize]) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_the_usual_one() {
        for (text, expected) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(base64(text.as_bytes()), expected);
        }
    }
}
