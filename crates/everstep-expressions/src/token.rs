//! Cuts an expression into tokens, exactly as minijinja's own lexer does.

/// A token of an expression with its position in the source, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token<'s> {
    pub(crate) kind: Kind,
    pub(crate) text: &'s str,
    pub(crate) start: usize,
}

impl Token<'_> {
    pub(crate) fn end(&self) -> usize {
        self.start + self.text.len()
    }

    pub(crate) fn is(&self, operator: &str) -> bool {
        self.kind == Kind::Operator && self.text == operator
    }

    /// Whether an operand may end here, so that an infix operator follows.
    pub(crate) fn ends_operand(&self) -> bool {
        match self.kind {
            Kind::Name | Kind::Number | Kind::Text => true,
            Kind::Word => false,
            Kind::Operator => matches!(self.text, ")" | "]" | "}"),
        }
    }

    /// The content of a text literal, unless it has escapes.
    pub(crate) fn plain_text(&self) -> Option<&str> {
        let inside = self.text.get(1..self.text.len().checked_sub(1)?)?;
        (self.kind == Kind::Text && !inside.contains('\\')).then_some(inside)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Name,
    /// A name with a meaning in the grammar, such as `and`.
    Word,
    Number,
    Text,
    Operator,
}

/// A syntax error with its position in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SyntaxError {
    pub(crate) at: usize,
    pub(crate) message: String,
}

impl SyntaxError {
    pub(crate) fn new(at: usize, message: impl Into<String>) -> Self {
        Self { at, message: message.into() }
    }
}

pub(crate) fn tokenize(source: &str) -> Result<Vec<Token<'_>>, SyntaxError> {
    let bytes = source.as_bytes();
    let mut tokens: Vec<Token<'_>> = Vec::new();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        if byte.is_ascii_whitespace() {
            at += 1;
            continue;
        }
        let (kind, length) = match byte {
            b'\'' | b'"' => (Kind::Text, text_length(&bytes[at..], at)?),
            b'0'..=b'9' => (Kind::Number, number_length(&bytes[at..], at > 0 && bytes[at - 1] == b'.')),
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                let length = name_length(&bytes[at..]);
                let is_word = is_word(&source[at..at + length]) && !tokens.last().is_some_and(|last| last.is("."));
                (if is_word { Kind::Word } else { Kind::Name }, length)
            }
            _ => (Kind::Operator, operator_length(&bytes[at..]).ok_or_else(|| unexpected(source, at))?),
        };
        tokens.push(Token { kind, text: &source[at..at + length], start: at });
        at += length;
    }
    Ok(tokens)
}

/// The length of the text literal that begins here, with its quotes.
pub(crate) fn text_length(bytes: &[u8], at: usize) -> Result<usize, SyntaxError> {
    let quote = bytes[0];
    let mut index = 1;
    while let Some(&byte) = bytes.get(index) {
        match byte {
            b'\\' => index += 2,
            _ if byte == quote => return Ok(index + 1),
            _ => index += 1,
        }
    }
    Err(SyntaxError::new(at, "a text literal has no closing quote"))
}

fn is_word(name: &str) -> bool {
    matches!(name, "and" | "or" | "not" | "in" | "is" | "if" | "else")
}

fn name_length(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count()
}

/// After a dot a number is an index and has no fraction: `a.1.0` is `a[1][0]`.
fn number_length(bytes: &[u8], is_index: bool) -> usize {
    let is_radix = matches!(bytes.get(..2), Some(b"0x" | b"0X" | b"0b" | b"0B" | b"0o" | b"0O"));
    if is_radix {
        return 2 + bytes[2..].iter().take_while(|byte| byte.is_ascii_hexdigit() || **byte == b'_').count();
    }
    let mut has_fraction = is_index;
    let mut has_exponent = false;
    let mut index = 0;
    while let Some(&byte) = bytes.get(index) {
        match byte {
            b'0'..=b'9' | b'_' => {}
            b'.' if !has_fraction && !has_exponent && !begins_name(&bytes[index + 1..]) => has_fraction = true,
            b'e' | b'E' if !has_exponent => {
                has_exponent = true;
                if matches!(bytes.get(index + 1), Some(b'+' | b'-')) {
                    index += 1;
                }
            }
            _ => break,
        }
        index += 1;
    }
    index
}

/// Whether a name follows, and not the exponent of a number such as `1.e5`.
fn begins_name(bytes: &[u8]) -> bool {
    let is_exponent = matches!(bytes, [b'e' | b'E', b'+' | b'-' | b'0'..=b'9', ..]);
    !is_exponent && matches!(bytes.first(), Some(b'a'..=b'z' | b'A'..=b'Z' | b'_'))
}

fn operator_length(bytes: &[u8]) -> Option<usize> {
    if matches!(bytes.get(..2), Some(b"//" | b"**" | b"==" | b"!=" | b">=" | b"<=")) {
        return Some(2);
    }
    let is_operator = matches!(
        bytes.first()?,
        b'+' | b'-'
            | b'*'
            | b'/'
            | b'%'
            | b'.'
            | b','
            | b':'
            | b'~'
            | b'|'
            | b'='
            | b'>'
            | b'<'
            | b'('
            | b')'
            | b'['
            | b']'
            | b'{'
            | b'}'
    );
    is_operator.then_some(1)
}

fn unexpected(source: &str, at: usize) -> SyntaxError {
    let character = source[at..].chars().next().unwrap_or(' ');
    let hint = match &source[at..] {
        rest if rest.starts_with("&&") => "; write `and`",
        rest if rest.starts_with('!') => "; write `not`",
        rest if rest.starts_with('?') => "; write `a if condition else b`",
        _ => "",
    };
    SyntaxError::new(at, format!("unexpected character `{character}`{hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<&str> {
        tokenize(source).unwrap().into_iter().map(|token| token.text).collect()
    }

    #[test]
    fn numbers_end_where_the_library_ends_them() {
        assert_eq!(texts("1.5*a.1.0"), ["1.5", "*", "a", ".", "1", ".", "0"]);
        assert_eq!(texts("1e5-2"), ["1e5", "-", "2"]);
        assert_eq!(texts("1.e-5"), ["1.e-5"]);
        assert_eq!(texts("0xFF*2"), ["0xFF", "*", "2"]);
    }

    #[test]
    fn texts_keep_their_escapes() {
        assert_eq!(texts(r#"'it\'s' ~ "a*b""#), [r"'it\'s'", "~", "\"a*b\""]);
        assert_eq!(tokenize("a ~ 'open").unwrap_err().at, 4);
        assert!(tokenize("'ends with a backslash\\").is_err());
    }

    #[test]
    fn a_segment_of_a_path_is_never_a_word() {
        let kinds: Vec<Kind> = tokenize("ctx.in in ctx.or").unwrap().iter().map(|token| token.kind).collect();
        let word = kinds.iter().filter(|kind| **kind == Kind::Word).count();
        assert_eq!(word, 1);
    }
}
