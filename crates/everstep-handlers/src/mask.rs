//! Finds a secret in a text, in the encodings in which servers repeat it.
//!
//! 1. As it is, as a JSON string, and as a JSON string inside a JSON string. A serializer may escape more characters than
//!    it must: `\/`, `\u002b`, and every character that is not ASCII.
//! 2. Each of these with any of its bytes percent-encoded, once or more often, with digits of either case: `%41`,
//!    `%2541` with an encoded `%`, and `%25%34%31` with encoded digits as well. A `+` may be a space, as in forms.
//! 3. In base64, alone or inside a longer encoded text, where it begins at one of three offsets: with the standard or
//!    the URL alphabet, with or without padding, with line breaks, and again with any character escaped or
//!    percent-encoded.
//! 4. In hexadecimal digits of either case, alone or inside a longer text.

use std::ops::Range;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;
use zeroize::Zeroizing;

/// The backslashes before an escaped character: one, or two or four inside further JSON strings; three if a `/` is escaped
/// twice.
const BACKSLASHES_MAX: usize = 4;

/// The levels of encoded digits that are decoded. Each bounds the work at a position of a hostile text.
const LEVELS_MAX: usize = 3;

/// The encodings of one secret.
pub(crate) struct Encodings(Vec<Pattern>);

/// One form of a secret.
struct Pattern {
    bytes: Zeroizing<Vec<u8>>,
    form: Form,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    /// The digits of a byte are two characters.
    Hexadecimal,
    /// The characters that depend on the secret alone.
    Base64 {
        /// Whether the character before them depends on the secret, too.
        shares_first: bool,
        /// Whether the character after them depends on the secret, too.
        shares_last: bool,
    },
}

impl Encodings {
    pub(crate) fn new(secret: &str) -> Self {
        let escaped = escape(secret);
        let mut texts = vec![Zeroizing::new(secret.to_owned())];
        for once in [escaped.clone(), to_ascii(&escaped, false), to_ascii(&escaped, true)] {
            texts.push(escape(&once));
            texts.push(once);
        }
        let mut patterns: Vec<Pattern> = Vec::new();
        for text in texts {
            if patterns.iter().all(|known| *known.bytes != text.as_bytes()) {
                patterns.push(Pattern { bytes: Zeroizing::new(text.as_bytes().to_vec()), form: Form::Text });
            }
        }
        patterns.push(in_hexadecimal(secret));
        patterns.extend((0..3).map(|offset| in_base64(secret, offset)));
        Self(patterns)
    }

    /// The longest range that an encoding of the secret occupies at a position of a text.
    pub(crate) fn find_at(&self, text: &[u8], at: usize) -> Option<Range<usize>> {
        let ranges = self.0.iter().filter_map(|pattern| pattern.find_at(text, at));
        ranges.max_by_key(Range::len)
    }

    /// Whether an encoding may begin with a byte.
    pub(crate) fn may_begin_with(&self, byte: u8) -> bool {
        matches!(byte, b'%' | b'+' | b'\\') || self.0.iter().any(|pattern| pattern.is_same(pattern.bytes[0], byte))
    }
}

/// A text as it is inside a JSON string.
fn escape(text: &str) -> Zeroizing<String> {
    let quoted = Zeroizing::new(Value::from(text).to_string());
    Zeroizing::new(quoted[1..quoted.len() - 1].to_owned())
}

/// The text of a JSON string with `\uXXXX` for each character that is not ASCII.
fn to_ascii(escaped: &str, is_upper: bool) -> Zeroizing<String> {
    // A character of two or three bytes takes six, one of four bytes takes twelve.
    let mut text = Zeroizing::new(String::with_capacity(3 * escaped.len()));
    for character in escaped.chars() {
        if character.is_ascii() {
            text.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            text.push_str(&if is_upper { format!("\\u{unit:04X}") } else { format!("\\u{unit:04x}") });
        }
    }
    text
}

/// A secret as hexadecimal digits.
fn in_hexadecimal(secret: &str) -> Pattern {
    let mut bytes = Zeroizing::new(Vec::<u8>::with_capacity(2 * secret.len()));
    let digits = secret.bytes().flat_map(|byte| [byte >> 4, byte & 15]);
    bytes.extend(digits.map(|digit| b"0123456789abcdef"[usize::from(digit)]));
    Pattern { bytes, form: Form::Hexadecimal }
}

/// A secret inside a longer text in base64, before which `offset` bytes (modulo 3) were encoded.
fn in_base64(secret: &str, offset: usize) -> Pattern {
    let mut bytes = Zeroizing::new(vec![0; offset]);
    bytes.extend_from_slice(secret.as_bytes());
    let encoded = Zeroizing::new(BASE64_STANDARD.encode(&*bytes));
    // A character has 6 bits. Those with bits of a neighbour are left out.
    let (first, last) = ((offset * 8).div_ceil(6), bytes.len() * 8 / 6);
    let form = Form::Base64 { shares_first: offset > 0, shares_last: !(bytes.len() * 8).is_multiple_of(6) };
    Pattern { bytes: Zeroizing::new(encoded.as_bytes()[first..last].to_vec()), form }
}

impl Pattern {
    fn find_at(&self, text: &[u8], at: usize) -> Option<Range<usize>> {
        // The positions that the pattern matches up to. There is nearly always one; there are several where a `%` can
        // be read in two ways.
        let (mut ends, mut next) = (vec![at], Vec::new());
        for byte in &*self.bytes {
            for end in &ends {
                self.read(*byte, text, *end, &mut next);
            }
            if next.is_empty() {
                return None;
            }
            next.sort_unstable();
            next.dedup();
            std::mem::swap(&mut ends, &mut next);
            next.clear();
        }
        let end = *ends.last()?;
        let Form::Base64 { shares_first, shares_last } = self.form else { return Some(at..end) };
        let is_shared = |at: usize| text.get(at).is_some_and(|byte| is_base64(*byte));
        let from = if shares_first && at > 0 && is_shared(at - 1) { at - 1 } else { at };
        Some(from..if shares_last && is_shared(end) { end + 1 } else { end })
    }

    /// Reads a byte of the pattern from a text, in each way in which it can be written. Adds the ends.
    fn read(&self, byte: u8, text: &[u8], at: usize, ends: &mut Vec<usize>) {
        let mut at = at;
        if self.form != Form::Text {
            at += text[at..].iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        }
        if text.get(at).is_some_and(|found| *found != b'%') {
            ends.extend(self.is_same(byte, text[at]).then_some(at + 1));
            let escaped = unescape(text, at).filter(|(found, _)| self.is_same(byte, *found));
            ends.extend(escaped.map(|(_, end)| end));
            return;
        }
        let read = decodings(text, at, LEVELS_MAX);
        ends.extend(read.into_iter().filter(|(found, _)| self.is_same(byte, *found)).map(|(_, end)| end));
    }

    /// Whether a byte of a text matches one of the pattern.
    fn is_same(&self, byte: u8, found: u8) -> bool {
        match self.form {
            Form::Text => byte == found || (byte == b' ' && found == b'+'),
            Form::Hexadecimal => byte.eq_ignore_ascii_case(&found),
            Form::Base64 { .. } => byte == found || matches!((byte, found), (b'+', b'-') | (b'/', b'_')),
        }
    }
}

/// The character that a JSON string has at a position as `\/` or `\u002f`, if it is ASCII, with the position after it.
fn unescape(text: &[u8], at: usize) -> Option<(u8, usize)> {
    let backslashes = text[at..].iter().take(BACKSLASHES_MAX).take_while(|byte| **byte == b'\\').count();
    let end = at + backslashes;
    match text.get(end).filter(|_| backslashes > 0)? {
        b'/' => Some((b'/', end + 1)),
        b'u' => {
            let mut digits = text.get(end + 1..end + 5)?.iter();
            let code = digits.try_fold(0_u32, |code, digit| Some(16 * code + char::from(*digit).to_digit(16)?))?;
            Some((u8::try_from(code).ok().filter(u8::is_ascii)?, end + 5))
        }
        _ => None,
    }
}

/// The bytes that a text may encode at a position, each with the position after it: the byte itself, and after a `%` the
/// byte with the two digits that follow. The decoded byte may be a `%` again, and so on. The digits may be encoded as
/// well, in at most so many levels.
fn decodings(text: &[u8], at: usize, levels: usize) -> Vec<(u8, usize)> {
    let Some(found) = text.get(at) else { return Vec::new() };
    let mut decoded = vec![(*found, at + 1)];
    if levels == 0 {
        return decoded;
    }
    let digits = |at: usize| {
        let read = decodings(text, at, levels - 1).into_iter();
        read.filter_map(|(found, end)| Some((u8::try_from(char::from(found).to_digit(16)?).ok()?, end)))
    };
    let mut next = 0;
    while let Some((found, end)) = decoded.get(next).copied() {
        next += 1;
        if found == b'%' {
            decoded
                .extend(digits(end).flat_map(|(high, end)| digits(end).map(move |(low, end)| (high * 16 + low, end))));
        }
    }
    decoded
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_')
}
