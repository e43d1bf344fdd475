//! Texts of a worker that only people read: log lines, error messages and stacks. A text that is too long is truncated,
//! and one that is not valid Unicode is repaired.

use std::fmt::{self, Formatter, Write as _};

use everstep_core::limits;
use schemars::JsonSchema;
use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// Replaces invalid characters.
const REPLACEMENT: char = '\u{fffd}';

/// A text for people. A lone surrogate, which many languages leave behind when they cut a text, is replaced.
#[derive(Debug, JsonSchema)]
#[schemars(inline, transparent)]
pub(super) struct HumanText(String);

impl HumanText {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text, truncated to this many bytes. NUL is replaced, because databases do not store it in a text.
    pub(super) fn truncate(self, bytes_max: usize) -> Self {
        let Self(mut text) = self;
        if text.contains('\0') {
            text = text.replace('\0', "\u{fffd}");
        }
        if text.len() > bytes_max {
            text.truncate(text.floor_char_boundary(bytes_max));
            text.push('…');
        }
        Self(text)
    }
}

impl From<HumanText> for String {
    fn from(text: HumanText) -> Self {
        text.0
    }
}

impl<'de> Deserialize<'de> for HumanText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // serde_json accepts lone surrogates only when it decodes to bytes.
        deserializer.deserialize_byte_buf(RepairUnicode).map(Self)
    }
}

struct RepairUnicode;

impl Visitor<'_> for RepairUnicode {
    type Value = String;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<String, E> {
        let mut text = String::with_capacity(bytes.len());
        for chunk in bytes.utf8_chunks() {
            text.push_str(chunk.valid());
            if !chunk.invalid().is_empty() && !text.ends_with(REPLACEMENT) {
                text.push(REPLACEMENT);
            }
        }
        Ok(text)
    }
}

/// Log lines, truncated to the limit of an attempt.
pub(super) fn truncate_lines(lines: Vec<HumanText>) -> Vec<String> {
    let mut bytes_left = limits::LOG_BYTES;
    let mut kept = Vec::with_capacity(lines.len());
    for line in lines {
        // The overhead of a line, so that empty lines count too.
        let size = line.0.len() + 4;
        if size > bytes_left {
            let mut mark = String::new();
            let _ = write!(mark, "… (the log was cut after {} KiB)", limits::LOG_BYTES / 1024);
            kept.push(line.truncate(bytes_left.saturating_sub(mark.len() + 16)).into());
            kept.push(mark);
            break;
        }
        bytes_left -= size;
        kept.push(line.truncate(size).into());
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_for_people_are_truncated() {
        let text = |text: &str| HumanText(text.to_owned());
        let lines = truncate_lines((0..100).map(|_| text(&"é".repeat(1_000))).collect());
        let bytes: usize = lines.iter().map(String::len).sum();
        assert!(bytes <= limits::LOG_BYTES, "{bytes}");
        assert!(lines.last().unwrap().contains("was cut"));
        assert_eq!(truncate_lines(vec![text("a\0b")]), ["a\u{fffd}b"]);
        assert_eq!(text("ééé").truncate(3).0, "é…");
    }
    #[test]
    fn a_lone_surrogate_is_replaced() {
        let read = |json: &str| serde_json::from_str::<HumanText>(json).map(String::from);
        assert_eq!(read(r#""cut \ud83d""#).unwrap(), "cut \u{fffd}");
        assert_eq!(read(r#""\ude00 at the front""#).unwrap(), "\u{fffd} at the front");
        assert_eq!(read(r#""whole \ud83d\ude00 and é\n""#).unwrap(), "whole 😀 and é\n");
        assert!(read("7").unwrap_err().to_string().contains("expected a string"));
        assert!(read("[65]").unwrap_err().to_string().contains("expected a string"));
    }
}
