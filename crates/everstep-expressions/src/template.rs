//! Cuts a string into text and `{{ … }}`.

use crate::token::{self, SyntaxError};

/// A piece of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece<'s> {
    Text(&'s str),
    /// The text between the braces, and its position.
    Expression {
        source: &'s str,
        at: usize,
    },
}

/// Whether there is anything to resolve.
pub(crate) fn has_expressions(text: &str) -> bool {
    text.contains("{{")
}

pub(crate) fn cut(text: &str) -> Result<Vec<Piece<'_>>, SyntaxError> {
    let mut pieces = Vec::new();
    let mut from = 0;
    while let Some(open) = text[from..].find("{{").map(|found| from + found) {
        if open > from {
            pieces.push(Piece::Text(&text[from..open]));
        }
        let at = open + 2;
        let Some(length) = expression_length(&text[at..]) else {
            return Err(SyntaxError::new(open, "`{{` has no closing `}}`"));
        };
        pieces.push(Piece::Expression { source: &text[at..at + length], at });
        from = at + length + 2;
    }
    if from < text.len() {
        pieces.push(Piece::Text(&text[from..]));
    }
    Ok(pieces)
}

/// The source of an expression that is written with or without braces.
pub(crate) fn unwrap(source: &str) -> &str {
    match cut(source.trim()).as_deref() {
        Ok([Piece::Expression { source, .. }]) => source,
        _ => source,
    }
}

/// The distance to `}}`, without those inside a text literal or a brace of the expression itself.
fn expression_length(rest: &str) -> Option<usize> {
    let bytes = rest.as_bytes();
    let mut depth = 0_usize;
    let mut index = 0;
    while let Some(&byte) = bytes.get(index) {
        match byte {
            b'}' if depth == 0 && bytes.get(index + 1) == Some(&b'}') => return Some(index),
            b'}' => depth = depth.saturating_sub(1),
            b'{' => depth += 1,
            b'\'' | b'"' => {
                index += token::text_length(&bytes[index..], index).ok()?;
                continue;
            }
            _ => {}
        }
        index += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_and_texts_inside_an_expression_do_not_end_it() {
        let expression = |source, at| Piece::Expression { source, at };
        assert_eq!(cut("a {{ x }} b").unwrap(), [Piece::Text("a "), expression(" x ", 4), Piece::Text(" b")]);
        assert_eq!(cut("{{ {'a': {'b': 1}} }}").unwrap(), [expression(" {'a': {'b': 1}} ", 2)]);
        assert_eq!(cut("{{ '}}' }}{{y}}").unwrap(), [expression(" '}}' ", 2), expression("y", 12)]);
        assert_eq!(cut("}} {").unwrap(), [Piece::Text("}} {")]);
        assert_eq!(cut("é {{ x }").unwrap_err().at, 3);
    }
}
