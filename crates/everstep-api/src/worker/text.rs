//! What people read of what a worker sends: it is cut where it becomes too much, and mended where it is no text.

use std::fmt::{self, Formatter, Write as _};

use everstep_core::limits;
use schemars::JsonSchema;
use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// Stands where something cannot be read.
const MARK: char = '\u{fffd}';

/// Words for people. Half of a surrogate pair, which a cut leaves in many languages, is replaced.
#[derive(Debug, JsonSchema)]
#[schemars(inline, transparent)]
pub(super) struct Words(String);

impl Words {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The words, cut where they become too many. No database stores a NUL as text.
    pub(super) fn cut(self, most: usize) -> Self {
        let Self(mut text) = self;
        if text.contains('\0') {
            text = text.replace('\0', "\u{fffd}");
        }
        if text.len() > most {
            text.truncate(text.floor_char_boundary(most));
            text.push('…');
        }
        Self(text)
    }
}

impl From<Words> for String {
    fn from(words: Words) -> Self {
        words.0
    }
}

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Only as bytes is a text read that is not whole.
        deserializer.deserialize_byte_buf(Mending).map(Self)
    }
}

struct Mending;

impl Visitor<'_> for Mending {
    type Value = String;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<String, E> {
        let mut text = String::with_capacity(bytes.len());
        for chunk in bytes.utf8_chunks() {
            text.push_str(chunk.valid());
            if !chunk.invalid().is_empty() && !text.ends_with(MARK) {
                text.push(MARK);
            }
        }
        Ok(text)
    }
}

/// Log lines, cut where they become too many.
pub(super) fn cut_lines(lines: Vec<Words>) -> Vec<String> {
    let mut room = limits::LOG_BYTES;
    let mut kept = Vec::with_capacity(lines.len());
    for line in lines {
        // A line costs a little even when it is empty.
        let size = line.0.len() + 4;
        if size > room {
            let mut mark = String::new();
            let _ = write!(mark, "… (the log was cut after {} KiB)", limits::LOG_BYTES / 1024);
            kept.push(line.cut(room.saturating_sub(mark.len() + 16)).into());
            kept.push(mark);
            break;
        }
        room -= size;
        kept.push(line.cut(size).into());
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_read_is_cut() {
        let words = |text: &str| Words(text.to_owned());
        let lines = cut_lines((0..100).map(|_| words(&"é".repeat(1_000))).collect());
        let bytes: usize = lines.iter().map(String::len).sum();
        assert!(bytes <= limits::LOG_BYTES, "{bytes}");
        assert!(lines.last().unwrap().contains("was cut"));
        assert_eq!(cut_lines(vec![words("a\0b")]), ["a\u{fffd}b"]);
        assert_eq!(words("ééé").cut(3).0, "é…");
    }
    #[test]
    fn half_a_pair_is_replaced() {
        let read = |json: &str| serde_json::from_str::<Words>(json).map(String::from);
        assert_eq!(read(r#""cut \ud83d""#).unwrap(), "cut \u{fffd}");
        assert_eq!(read(r#""\ude00 at the front""#).unwrap(), "\u{fffd} at the front");
        assert_eq!(read(r#""whole \ud83d\ude00 and é\n""#).unwrap(), "whole 😀 and é\n");
        assert!(read("7").unwrap_err().to_string().contains("expected a string"));
        assert!(read("[65]").unwrap_err().to_string().contains("expected a string"));
    }
}
