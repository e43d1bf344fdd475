//! Regular expressions of a schema.
//!
//! JSON Schema has the expressions of JavaScript. Those that `regex` cannot run in linear time, such as look-around and
//! back-references, do not compile.

use regex::{Regex, RegexBuilder};

/// Bytes of one compiled expression.
const COMPILED_BYTES_MAX: usize = 256 * 1024;
/// The smallest bound of bytes that is tried.
const COMPILED_BYTES_MIN: usize = 512;
/// Bytes of a state of a compiled expression.
const STATE_BYTES: usize = 24;
/// A step of a check pays for so many pairs of a character and a state. At worst a search visits every pair.
const PAIRS_PER_STEP: usize = 480;

/// A compiled expression, with its source.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    pub(super) source: String,
    regex: Regex,
    /// The most states that the compiled expression can have.
    states: usize,
}

impl Pattern {
    pub(super) fn compile(source: &str) -> Result<Self, String> {
        let mut bytes = COMPILED_BYTES_MIN;
        let regex = loop {
            match RegexBuilder::new(&translate(source)).size_limit(bytes).build() {
                // The least bound within which it compiles is its size, roughly.
                Err(regex::Error::CompiledTooBig(_)) if bytes < COMPILED_BYTES_MAX => bytes *= 2,
                regex => break regex,
            }
        };
        match regex {
            Ok(regex) => Ok(Self { source: source.to_owned(), regex, states: bytes / STATE_BYTES }),
            Err(regex::Error::CompiledTooBig(_)) => Err("the regular expression is too large".to_owned()),
            Err(error) => {
                // The last line contains the reason; the lines before it show the position.
                let text = error.to_string();
                let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
                Err(format!("not a regular expression that this server runs: {reason}"))
            }
        }
    }

    /// The steps of a check that a search in a text takes at most.
    pub(super) fn steps(&self, text: &str) -> usize {
        text.len().saturating_mul(self.states) / PAIRS_PER_STEP
    }

    pub(super) fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}

/// In JavaScript these classes are ASCII; in `regex` they are Unicode.
fn translate(source: &str) -> String {
    let mut translated = String::with_capacity(source.len());
    let mut characters = source.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            translated.push(character);
            continue;
        }
        match characters.next() {
            Some('d') => translated.push_str("[0-9]"),
            Some('D') => translated.push_str("[^0-9]"),
            Some('w') => translated.push_str("[A-Za-z0-9_]"),
            Some('W') => translated.push_str("[^A-Za-z0-9_]"),
            Some('b') => translated.push_str(r"(?-u:\b)"),
            Some('B') => translated.push_str(r"(?-u:\B)"),
            Some(other) => translated.extend(['\\', other]),
            None => translated.push('\\'),
        }
    }
    translated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_those_of_javascript() {
        let digits = Pattern::compile(r"^[\d-]+\.\w$").unwrap();
        assert!(digits.is_match("12-3.x"));
        assert!(!digits.is_match("١٢.x") && !digits.is_match("12.é"));
        assert!(Pattern::compile(r"^a\/b$").unwrap().is_match("a/b"));
        assert!(Pattern::compile(r"^\\d$").unwrap().is_match(r"\d"));
    }

    #[test]
    fn expressions_that_need_backtracking_are_refused() {
        for source in ["(?=a)b", r"(a)\1", "(", "["] {
            let message = Pattern::compile(source).unwrap_err();
            assert!(message.starts_with("not a regular expression"), "{source}: {message}");
        }
        assert!(Pattern::compile(r"(\w{500}){500}").unwrap_err().contains("too large"));
    }
}
