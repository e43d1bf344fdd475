//! Replaces the names of secrets in a config by their values, and masks the values in everything else.

use std::ops::Range;

use everstep_core::failure::{Failure, code};
use serde_json::Value;
use zeroize::Zeroizing;

use crate::handler::Task;
use crate::mask::Encodings;
use crate::ports::Secrets;

/// Replaces a secret in texts.
const SECRET_MASK: &str = "[secret]";

/// Shorter secrets are not masked: they would match everywhere.
const MASKED_BYTES_MIN: usize = 6;

/// The secrets of one task.
#[derive(Default)]
pub(crate) struct RevealedSecrets {
    is_any: bool,
    /// Those that are long enough to be masked.
    masked: Vec<Encodings>,
}

impl RevealedSecrets {
    /// Replaces the names of secrets in a task's config by their values, at the places where the definition names them.
    pub(crate) async fn reveal_into(task: &mut Task, secrets: &dyn Secrets) -> Result<Self, Failure> {
        let mut revealed = Self::default();
        for pointer in std::mem::take(&mut task.secrets) {
            let field = task.config.pointer_mut(&pointer);
            let named = field.and_then(|field| Some((field["$secret"].as_str()?.to_owned(), field)));
            let Some((name, field)) = named else {
                let message = format!("there is no name of a secret at {pointer}");
                return Err(Failure::fatal(code::INVALID_CONFIG, message));
            };
            let value = secrets.reveal(task.workspace, &name).await?;
            *field = Value::String(value.to_string());
            revealed.add(&value);
        }
        Ok(revealed)
    }

    /// Adds another text to mask, such as one that contains a secret in encoded form.
    pub(crate) fn add(&mut self, value: &Zeroizing<String>) {
        self.is_any = true;
        if value.len() >= MASKED_BYTES_MIN {
            self.masked.push(Encodings::new(value));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.is_any
    }

    /// A text with the secrets masked.
    pub(crate) fn mask(&self, text: &str) -> String {
        let masked = self.mask_bytes(text.as_bytes().to_vec());
        // Encodings begin and end between two characters, so the text stays valid.
        String::from_utf8(masked).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }

    /// Bytes without the secrets, in any encoding that [`Encodings`] knows.
    pub(crate) fn mask_bytes(&self, bytes: Vec<u8>) -> Vec<u8> {
        let begins: Vec<bool> =
            (0..=u8::MAX).map(|byte| self.masked.iter().any(|secret| secret.may_begin_with(byte))).collect();
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for at in (0..bytes.len()).filter(|at| begins[usize::from(bytes[*at])]) {
            for range in self.masked.iter().filter_map(|secret| secret.find_at(&bytes, at)) {
                match ranges.last_mut() {
                    // Two secrets may overlap.
                    Some(last) if range.start < last.end => last.end = last.end.max(range.end),
                    Some(_) | None => ranges.push(range),
                }
            }
        }
        if ranges.is_empty() {
            return bytes;
        }
        let (mut masked, mut copied) = (Vec::with_capacity(bytes.len()), 0);
        for range in ranges {
            masked.extend_from_slice(&bytes[copied..range.start]);
            masked.extend_from_slice(SECRET_MASK.as_bytes());
            copied = range.end;
        }
        masked.extend_from_slice(&bytes[copied..]);
        masked
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::prelude::{BASE64_STANDARD, BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE, BASE64_URL_SAFE_NO_PAD};

    use super::*;

    const SECRET: &str = "s3cr?t ~key/ö%41>>";

    fn revealed(secret: &str) -> RevealedSecrets {
        let mut revealed = RevealedSecrets::default();
        revealed.add(&Zeroizing::new(secret.to_owned()));
        revealed
    }

    #[track_caller]
    fn is_masked(text: &str, expected: &str) {
        assert_eq!(revealed(SECRET).mask(text), expected, "{text}");
    }

    /// Percent-encodes the bytes for which `is_encoded` holds.
    fn percent(text: &str, is_upper: bool, is_encoded: impl Fn(usize) -> bool) -> String {
        let bytes =
            text.bytes().enumerate().map(|(index, byte)| match (is_encoded(index) || !byte.is_ascii(), is_upper) {
                (false, _) => char::from(byte).to_string(),
                (true, true) => format!("%{byte:02X}"),
                (true, false) => format!("%{byte:02x}"),
            });
        bytes.collect()
    }

    #[test]
    fn secrets_are_masked_as_they_are_and_in_json() {
        is_masked(&format!("a {SECRET} b"), "a [secret] b");
        let json = Value::from(revealed_json()).to_string();
        assert_eq!(revealed("a\"b\\c\nd").mask(&json), r#""x [secret] y""#);
        let twice = Value::from(json).to_string();
        assert_eq!(revealed("a\"b\\c\nd").mask(&twice), r#""\"x [secret] y\"""#);
    }

    fn revealed_json() -> String {
        "x a\"b\\c\nd y".to_owned()
    }

    #[test]
    fn secrets_are_masked_in_every_percent_encoding() {
        for is_upper in [true, false] {
            is_masked(&format!("?a={}&b", percent(SECRET, is_upper, |_| true)), "?a=[secret]&b");
            for step in 2..6 {
                is_masked(&format!("?a={}&b", percent(SECRET, is_upper, |index| index % step == 0)), "?a=[secret]&b");
                is_masked(&format!("?a={}&b", percent(SECRET, is_upper, |index| index % step == 1)), "?a=[secret]&b");
            }
        }
        let form: String = form_urlencoded::byte_serialize(SECRET.as_bytes()).collect();
        is_masked(&format!("a={form}"), "a=[secret]");
        // The value of a query that holds an address with a query.
        let twice: String = form_urlencoded::byte_serialize(form.as_bytes()).collect();
        is_masked(&format!("a={twice}"), "a=[secret]");
        is_masked(&format!("a={}", percent(SECRET, false, |_| true).replace('%', "%25")), "a=[secret]");
        // Every byte is encoded again, the digits included.
        let mut text = SECRET.to_owned();
        for is_upper in [true, false, true] {
            let some = percent(&text, is_upper, |index| index % 4 == 1);
            is_masked(&format!("a={some}&b"), "a=[secret]&b");
            text = percent(&text, is_upper, |_| true);
            is_masked(&format!("a={text}&b"), "a=[secret]&b");
        }
        is_masked("s3cr%3Ft%20~ke", "s3cr%3Ft%20~ke");
    }

    #[test]
    fn secrets_are_masked_in_base64_at_every_offset() {
        for before in ["", "u", "us", "user:", "user:1", "user:12"] {
            for after in ["", "x", "xy", "xyz", "@host"] {
                let text = format!("{before}{SECRET}{after}");
                for encoded in [
                    BASE64_STANDARD.encode(&text),
                    BASE64_STANDARD_NO_PAD.encode(&text),
                    BASE64_URL_SAFE.encode(&text),
                    BASE64_URL_SAFE_NO_PAD.encode(&text),
                ] {
                    let masked = revealed(SECRET).mask(&format!("Basic {encoded} end"));
                    assert!(masked.contains(SECRET_MASK) && masked.ends_with(" end"), "{text}: {masked}");
                    // At most the encoded text around the secret remains.
                    let rest = masked.len() - "Basic [secret] end".len();
                    assert!(rest <= (before.len() + after.len()).div_ceil(3) * 4 + 2, "{text}: {masked}");
                    let address = percent(&encoded, true, |index| index % 3 == 0);
                    assert!(revealed(SECRET).mask(&address).contains(SECRET_MASK), "{address}");
                }
            }
        }
        let long = "a long secret with many characters, of which one line of base64 holds only a part";
        let encoded = BASE64_STANDARD.encode(long);
        let lines: Vec<_> =
            encoded.as_bytes().chunks(76).map(|line| std::str::from_utf8(line).expect("ASCII")).collect();
        assert_eq!(revealed(long).mask(&lines.join("\r\n")).trim_end_matches('='), SECRET_MASK);
    }

    #[test]
    fn secrets_are_masked_in_hexadecimal() {
        for before in ["", "u", "user:"] {
            let text = format!("{before}{SECRET}@host");
            let lower: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
            for digits in [lower.to_uppercase(), lower] {
                let (head, tail) = (&digits[..2 * before.len()], &digits[2 * (before.len() + SECRET.len())..]);
                is_masked(&format!("key={digits};"), &format!("key={head}[secret]{tail};"));
            }
        }
    }

    #[test]
    fn secrets_are_masked_in_json_that_escapes_more_than_it_must() {
        let secret = "p+a/ss<wört🔑";
        for escaped in [
            r"p+a\/ss<wört🔑",
            r"p\u002Ba/ss\u003Cw\u00F6rt\uD83D\uDD11",
            r"p\u002ba\/ss\u003cw\u00f6rt\ud83d\udd11",
            r"p\\u002ba\\\/ss\\u003cw\\u00f6rt\\ud83d\\udd11",
            r"\u0070+a/ss<wört🔑",
        ] {
            assert_eq!(revealed(secret).mask(&format!("\"x {escaped} y\"")), "\"x [secret] y\"", "{escaped}");
        }
        let encoded = BASE64_STANDARD.encode("~~~???>>>");
        assert!(encoded.contains('/') && encoded.contains('+'), "{encoded}");
        let escaped = encoded.replace('/', r"\/").replace('+', r"\u002B");
        assert_eq!(revealed("~~~???>>>").mask(&escaped), SECRET_MASK);
        for text in [r"p\u002Ba/ss", r"p\u12", r"\\\\\\", r"\u", r"p\u00+a"] {
            assert_eq!(revealed(secret).mask(text), text);
        }
    }

    /// A server that repeats a secret chooses the text around it: the search must take time in proportion to the text.
    #[test]
    fn escapes_without_end_are_read_in_linear_work() {
        for unit in ["%", "%25", "%2525", "%32%35", "%%32%35", "%25%32%35", "%%%25%25", r"\", r"\u005c", r"\\u005c"] {
            let text = unit.repeat(2_000);
            is_masked(&text, &text);
        }
    }

    #[test]
    fn other_texts_stay_as_they_are() {
        for text in ["", "%", "%4", "%zz", "s3cr", "100 % + 5 %25", "c2VjcmV0", "ö%41"] {
            is_masked(text, text);
        }
        assert_eq!(revealed("short").mask("a short one"), "a short one");
        assert!(!revealed("short").is_empty() && RevealedSecrets::default().is_empty());
    }

    #[test]
    fn neighbouring_and_overlapping_secrets_are_masked() {
        let mut both = revealed("abcdefgh");
        both.add(&Zeroizing::new("defghijk".to_owned()));
        assert_eq!(both.mask("1 abcdefghijk 2"), "1 [secret] 2");
        assert_eq!(both.mask("abcdefghabcdefgh"), "[secret][secret]");
    }
}
