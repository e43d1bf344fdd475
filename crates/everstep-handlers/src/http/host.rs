//! The host of a request that carries a secret: it is literal in the definition, and no computed text can change it.
//!
//! 1. The text of `url` before its first expression is read by the parser that sends the request. It must have a scheme
//!    and a host, and its path must have begun, so that no text after it can change the host.
//! 2. A definition without such a host is rejected when it is saved.
//! 3. When the request is made, its scheme, host and port are compared with those of the definition: an earlier release
//!    may have saved the definition without these checks.

use everstep_core::failure::Failure;
use everstep_net::Url;
use serde_json::Value;

use super::request::{invalid, read_address};

/// Texts that change the scheme, host or port, or make the address invalid, if they follow an unfinished host.
const PROBES: &[&str] = &["x", "0", ".x", ":0", "@x", "/", "\\x"];

/// The address in the definition of an http node.
#[derive(Debug, PartialEq)]
pub(crate) enum WrittenHost {
    /// The host is literal. The URL ends where the first expression begins.
    Literal(Url),
    /// The whole address is a secret: the value of the secret contains the host.
    Secret,
    /// A part of the host is computed, or may be.
    Computed,
}

impl WrittenHost {
    /// Reads `url` as the definition has it.
    pub(crate) fn read(url: &Value) -> Self {
        let Some(text) = url.as_str() else {
            return if url.get("$secret").is_some() { Self::Secret } else { Self::Computed };
        };
        let (written, is_computed) = match text.split_once("{{") {
            Some((written, _)) => (written, true),
            None => (text, false),
        };
        let Ok(url) = read_address(written) else { return Self::Computed };
        let is_same = |probe: &&str| {
            let probed = read_address(&format!("{written}{probe}"));
            probed.is_ok_and(|probed| probed.origin() == url.origin())
        };
        if is_computed && !PROBES.iter().all(is_same) {
            return Self::Computed;
        }
        Self::Literal(url)
    }

    /// Rejects a request to another scheme, host or port than the definition has.
    pub(super) fn check(&self, requested: &Url) -> Result<(), Failure> {
        match self {
            Self::Secret => Ok(()),
            Self::Literal(written) if written.origin() == requested.origin() => Ok(()),
            Self::Literal(written) => {
                let (written, requested) = (place(written), place(requested));
                let message =
                    format!("`url`: the definition sends its secrets to {written}, but the address is at {requested}");
                Err(invalid(message))
            }
            Self::Computed => Err(invalid(format!("`url`: {COMPUTED_HOST}"))),
        }
    }
}

/// The message for a definition whose host is computed.
pub(crate) const COMPUTED_HOST: &str = "a request with a secret must have a literal host: write the scheme, the host and the \
                                        first `/` of the path before the first expression";

/// The scheme, host and port of an address.
fn place(url: &Url) -> String {
    url.origin().ascii_serialization()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn host(text: &str) -> Option<String> {
        match WrittenHost::read(&json!(text)) {
            WrittenHost::Literal(url) => Some(place(&url)),
            WrittenHost::Secret | WrittenHost::Computed => None,
        }
    }

    #[test]
    fn a_literal_host_is_what_the_parser_of_requests_reads() {
        for (text, expected) in [
            ("https://a.example/{{x}}", "https://a.example"),
            ("https://a.example?q={{x}}", "https://a.example"),
            ("https://a.example#{{x}}", "https://a.example"),
            ("https://a.example", "https://a.example"),
            ("https://a.example:8443/{{x}}", "https://a.example:8443"),
            ("HTTP://A.Example:80/{{x}}", "http://a.example"),
            ("http://[::1]:7/{{x}}", "http://[::1]:7"),
            // The parser takes backslashes for slashes, adds missing slashes, and removes tabs and line breaks.
            ("http:\\\\a.example\\{{x}}", "http://a.example"),
            ("http:a.example/{{x}}", "http://a.example"),
            ("http:///a.example/{{x}}", "http://a.example"),
            ("ht\ntp://a.exa\tmple/{{x}}", "http://a.example"),
            ("  https://a.example/{{x}}", "https://a.example"),
            ("https://bücher.example/{{x}}", "https://xn--bcher-kva.example"),
            ("https://%61.example/{{x}}", "https://a.example"),
            ("https://a.example/\\@b.example/{{x}}", "https://a.example"),
        ] {
            assert_eq!(host(text).as_deref(), Some(expected), "{text:?}");
        }
    }

    #[test]
    fn a_host_that_computed_text_may_change_is_not_literal() {
        for text in [
            "{{x}}",
            "http:{{x}}",
            "http:/{{x}}",
            "http://{{x}}",
            "http:///{{x}}",
            "http:////{{x}}",
            "http:\\\\{{x}}",
            "http:\\/\\{{x}}",
            "http://\t/{{x}}",
            "http://\n{{x}}",
            "https://a.example{{x}}",
            "https://a.example:{{x}}",
            "https://a.example:8{{x}}",
            "https://a.example {{x}}",
            "https://a.example\t{{x}}",
            "https://a.example.{{x}}",
            "https://a@{{x}}",
            "https://a:b@{{x}}",
            "https://a@b.example/{{x}}",
            "https://a.example@{{x}}",
            "https://{{x}}.example/",
            "https://xn--{{x}}/",
            "https://[::1{{x}}]/",
            "https://%{{x}}/",
            "ftp://a.example/{{x}}",
            "//a.example/{{x}}",
            "a.example/{{x}}",
        ] {
            assert_eq!(WrittenHost::read(&json!(text)), WrittenHost::Computed, "{text:?}");
        }
        assert_eq!(WrittenHost::read(&json!({"$expr": "ctx.url"})), WrittenHost::Computed);
        assert_eq!(WrittenHost::read(&json!({"$secret": "place"})), WrittenHost::Secret);
    }

    #[test]
    fn the_host_of_a_request_is_compared_with_the_definition() {
        let written = WrittenHost::read(&json!("https://a.example/{{x}}"));
        let check = |url: &str| written.check(&Url::parse(url).expect("a URL"));
        assert!(check("https://a.example/b?c#d").is_ok());
        assert!(check("https://a.example:443/").is_ok());
        for other in ["https://b.example/", "http://a.example/", "https://a.example:444/", "https://a.example./"] {
            let failure = check(other).expect_err(other);
            assert!(failure.message.contains("sends its secrets to https://a.example, but"), "{failure}");
        }
        assert!(WrittenHost::Computed.check(&Url::parse("https://a.example/").expect("a URL")).is_err());
    }
}
