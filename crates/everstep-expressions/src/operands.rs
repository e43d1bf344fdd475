//! Finds the operands of an expression, and inserts the guards that charge for them.
//!
//! The library compares, joins and cuts values without calling anything of ours. So a filter that charges is inserted
//! after each operand that an operator reads. It returns its value, and never changes the meaning of the expression.
//!
//! 1. `==` and the other comparisons, `in`: each operand is charged once per comparison.
//! 2. `+`, `~`: a chain copies its beginning repeatedly, so each operand is charged once per copy. This needs no brackets,
//!    which would nest a long chain too deep for the library.
//! 3. `[a:b]`: the value before the first slice is charged for all slices that follow it, in one pair of parentheses.
//! 4. A computed index or key is charged once.
//! 5. Operands of other operators are numbers. Literals cost the same at every evaluation, and are counted here.

use crate::environment::{ADD_GUARD, COMPARE_GUARD, CONCAT_GUARD, KEY_GUARD, SLICE_GUARD};
use crate::path;
use crate::token::{Kind, SyntaxError, Token};

/// A text that is inserted into a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Insertion {
    pub(crate) at: usize,
    /// At one position, what closes comes first, then filters, then what opens.
    order: u8,
    pub(crate) text: String,
}

impl Insertion {
    pub(crate) fn filter(at: usize, name: &str) -> Self {
        Self { at, order: 1, text: format!("|{name}") }
    }

    fn opening(at: usize) -> Self {
        Self { at, order: 2, text: "(".to_owned() }
    }

    pub(crate) fn position(&self) -> (usize, u8) {
        (self.at, self.order)
    }
}

/// The guards of an expression, and the properties of it that determine its price.
#[derive(Debug, Default)]
pub(crate) struct Charges {
    pub(crate) insertions: Vec<Insertion>,
    /// Bytes of literals, once per operator that reads them.
    pub(crate) literal_bytes: u64,
    pub(crate) slices: u64,
    /// Brackets after a value that are not slices.
    pub(crate) indexes: u64,
}

impl Charges {
    pub(crate) fn from_tokens(tokens: &[Token<'_>]) -> Result<Self, SyntaxError> {
        let mut reader = Reader { tokens, charges: Self::default() };
        reader.read_group(0, tokens.len(), Bracket::Round)?;
        Ok(reader.charges)
    }
}

/// The operator between two operands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Link {
    /// A word or a separator: the operands do not meet.
    Apart,
    Compare,
    Add,
    Concat,
    /// An operator on numbers.
    Number,
}

struct Operand {
    /// The end in the source.
    end: usize,
    is_literal: bool,
    /// It ends with a test, so it is a boolean.
    is_test: bool,
    bytes: u64,
    before: Link,
    after: Link,
}

impl Operand {
    /// Whether its value may be long.
    fn is_charged(&self) -> bool {
        !self.is_literal && !self.is_test && self.before != Link::Number && self.after != Link::Number
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Bracket {
    Round,
    Square,
    /// Brackets after a value: an index or a slice.
    Index,
    Curly,
}

/// Whether the operand is the argument of a test without parentheses, which takes no filters.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Free,
    TestArgument,
}

struct Reader<'t> {
    tokens: &'t [Token<'t>],
    charges: Charges,
}

impl Reader<'_> {
    /// Reads the tokens between two brackets. Returns whether they are a single operand without operators.
    fn read_group(&mut self, from: usize, to: usize, bracket: Bracket) -> Result<bool, SyntaxError> {
        let mut operands = Vec::new();
        let (mut at, mut before) = (from, Link::Apart);
        let mut has_prefix = false;
        while at < to {
            let token = &self.tokens[at];
            let is_argument_name = self.tokens.get(at + 1).is_some_and(|next| next.is("="));
            if is_word(token, "not") || token.is("-") || token.is("*") || token.is("**") {
                has_prefix = true;
                at += 1;
                continue;
            }
            if token.kind == Kind::Name && is_argument_name {
                at += 2;
                continue;
            }
            if token.is(",") || token.is(":") {
                (before, has_prefix) = (Link::Apart, true);
                at += 1;
                continue;
            }
            let (end, is_literal, is_test) = self.read_operand(at, to)?;
            let (after, width) = self.link(end + 1, to)?;
            let bytes = (self.tokens[end].end() - token.start) as u64;
            operands.push(Operand { end: self.tokens[end].end(), is_literal, is_test, bytes, before, after });
            let is_key = bracket == Bracket::Curly && self.tokens.get(end + 1).is_some_and(|next| next.is(":"));
            if is_key && !is_literal && !is_test {
                self.insert_filter(self.tokens[end].end(), KEY_GUARD);
            }
            before = after;
            at = end + 1 + width;
        }
        if let (Bracket::Index, false, [operand]) = (bracket, has_prefix, operands.as_slice())
            && operand.is_charged()
        {
            self.insert_filter(operand.end, KEY_GUARD);
        }
        self.charge_operands(&operands);
        Ok(!has_prefix && operands.len() == 1)
    }

    /// Reads an operand with its path, filters and tests. Returns its last token, whether it is a literal, and whether it
    /// ends with a test.
    fn read_operand(&mut self, at: usize, to: usize) -> Result<(usize, bool, bool), SyntaxError> {
        let (mut end, is_literal) = self.read_path(at, to, Place::Free)?;
        let mut is_test = false;
        let has_filters = self.tokens.get(end + 1).is_some_and(|next| next.is("|") || is_word(next, "is"));
        while let Some(next) = self.tokens.get(end + 1).filter(|_| end + 1 < to) {
            if next.is("|") {
                is_test = false;
                end = self.read_arguments(self.existing(end + 2, to)?, to)?;
            } else if is_word(next, "is") {
                is_test = true;
                let is_negated = self.tokens.get(end + 2).is_some_and(|token| is_word(token, "not"));
                let name = self.existing(if is_negated { end + 3 } else { end + 2 }, to)?;
                end = self.read_arguments(name, to)?;
                if end == name
                    && let Some(mut argument) = self.test_argument(name + 1, to)
                {
                    while self.tokens[argument].is("-") || self.tokens[argument].is("+") {
                        argument = self.existing(argument + 1, to)?;
                    }
                    end = self.read_path(argument, to, Place::TestArgument)?.0;
                }
            } else {
                break;
            }
        }
        Ok((end, is_literal && !has_filters, is_test))
    }

    /// Reads a value and the names, indexes and slices after it.
    fn read_path(&mut self, at: usize, to: usize, place: Place) -> Result<(usize, bool), SyntaxError> {
        let token = &self.tokens[at];
        let mut is_literal = false;
        // The end of a group that has one operand: a filter can be inserted inside.
        let mut inside = None;
        let mut end = match token.kind {
            Kind::Text => {
                is_literal = true;
                at + self.tokens[at..to].iter().take_while(|token| token.kind == Kind::Text).count() - 1
            }
            Kind::Number => {
                is_literal = true;
                at
            }
            Kind::Name => {
                is_literal = path::is_constant(token.text);
                at
            }
            Kind::Operator if matches!(token.text, "(" | "[" | "{") => {
                let close = self.closing(at, to)?;
                let bracket = match token.text {
                    "(" => Bracket::Round,
                    "[" => Bracket::Square,
                    _ => Bracket::Curly,
                };
                let is_single = self.read_group(at + 1, close, bracket)?;
                inside = (is_single && bracket == Bracket::Round).then(|| self.tokens[close - 1].end());
                close
            }
            Kind::Word | Kind::Operator => return Err(unexpected(token)),
        };
        let value_end = end;
        let mut first_slice = None;
        let mut slices = 0;
        while let Some(next) = self.tokens.get(end + 1).filter(|_| end + 1 < to) {
            if next.is(".") {
                end = self.existing(end + 2, to)?;
            } else if next.is("[") {
                let close = self.closing(end + 1, to)?;
                self.read_group(end + 2, close, Bracket::Index)?;
                if self.is_slice(end + 2, close) {
                    first_slice = first_slice.or(Some(end + 1));
                    self.charges.slices += 1;
                } else {
                    self.charges.indexes += 1;
                }
                slices += u64::from(first_slice.is_some());
                end = close;
            } else {
                break;
            }
            is_literal = false;
        }
        if let Some(open) = first_slice {
            let guard = match self.literal_length(open + 1) {
                Some(length) => format!("{SLICE_GUARD}({slices},{length})"),
                None => format!("{SLICE_GUARD}({slices})"),
            };
            match inside.filter(|_| open == value_end + 1) {
                Some(inside) => self.insert_filter(inside, &guard),
                None => {
                    self.charges.insertions.push(Insertion::opening(token.start));
                    let text = format!("|{guard})");
                    self.charges.insertions.push(Insertion { at: self.tokens[open].start, order: 1, text });
                    if place == Place::TestArgument {
                        self.charges.insertions.push(Insertion::opening(token.start));
                        let text = ")".to_owned();
                        self.charges.insertions.push(Insertion { at: self.tokens[end].end(), order: 0, text });
                    }
                }
            }
        }
        Ok((end, is_literal))
    }

    /// Reads the arguments in parentheses after the name of a filter or a test. Returns the last token.
    fn read_arguments(&mut self, name: usize, to: usize) -> Result<usize, SyntaxError> {
        if !self.tokens.get(name + 1).is_some_and(|next| next.is("(")) {
            return Ok(name);
        }
        let close = self.closing(name + 1, to)?;
        self.read_group(name + 2, close, Bracket::Round)?;
        Ok(close)
    }

    /// The argument of a test without parentheses, by the rule of the library's parser.
    fn test_argument(&self, at: usize, to: usize) -> Option<usize> {
        let token = self.tokens.get(at).filter(|_| at < to)?;
        let begins = match token.kind {
            Kind::Name | Kind::Text | Kind::Number => true,
            Kind::Operator => matches!(token.text, "+" | "-" | "[" | "{"),
            Kind::Word => false,
        };
        begins.then_some(at)
    }

    /// The operator at a position, and its number of tokens.
    fn link(&self, at: usize, to: usize) -> Result<(Link, usize), SyntaxError> {
        let Some(token) = self.tokens.get(at).filter(|_| at < to) else { return Ok((Link::Apart, 0)) };
        let link = match (token.kind, token.text) {
            (Kind::Word, "in") => Link::Compare,
            (Kind::Word, "not") if self.tokens.get(at + 1).is_some_and(|next| is_word(next, "in")) => {
                return Ok((Link::Compare, 2));
            }
            (Kind::Word, "and" | "or" | "if" | "else") => Link::Apart,
            (Kind::Operator, "," | ":" | "=") => return Ok((Link::Apart, 0)),
            (Kind::Operator, "==" | "!=" | "<" | "<=" | ">" | ">=") => Link::Compare,
            (Kind::Operator, "+") => Link::Add,
            (Kind::Operator, "~") => Link::Concat,
            (Kind::Operator, "-" | "*" | "/" | "//" | "%" | "**") => Link::Number,
            _ => return Err(unexpected(token)),
        };
        Ok((link, 1))
    }

    /// Inserts the guards of the operands between two brackets.
    fn charge_operands(&mut self, operands: &[Operand]) {
        let is_boundary = |link: Link| matches!(link, Link::Apart | Link::Compare);
        for chain in operands.chunk_by(|operand, _| !is_boundary(operand.after)) {
            let reads = |link: Link| u64::from(link == Link::Compare);
            let comparisons =
                chain.first().map_or(0, |first| reads(first.before)) + chain.last().map_or(0, |last| reads(last.after));
            let joins = |part: &[Operand]| {
                part.iter().filter(|operand| matches!(operand.after, Link::Add | Link::Concat)).count() as u64
            };
            let has_concat = chain.iter().any(|operand| operand.after == Link::Concat);
            for (index, operand) in chain.iter().enumerate() {
                let copies = joins(&chain[index..]) + joins(&chain[..index]).min(2);
                if operand.is_literal {
                    self.charges.literal_bytes += operand.bytes * (copies + comparisons);
                }
                if !operand.is_charged() {
                    continue;
                }
                match (copies, comparisons) {
                    (0, 0) => {}
                    (0, _) => self.insert_filter(operand.end, &format!("{COMPARE_GUARD}({comparisons})")),
                    _ if has_concat => {
                        self.insert_filter(operand.end, &format!("{CONCAT_GUARD}({})", copies + comparisons));
                    }
                    _ => self.insert_filter(operand.end, &format!("{ADD_GUARD}({copies},{comparisons})")),
                }
            }
        }
    }

    fn insert_filter(&mut self, at: usize, guard: &str) {
        self.charges.insertions.push(Insertion::filter(at, guard));
    }

    fn existing(&self, at: usize, to: usize) -> Result<usize, SyntaxError> {
        if at < to { Ok(at) } else { Err(unexpected(&self.tokens[to - 1])) }
    }

    fn closing(&self, open: usize, to: usize) -> Result<usize, SyntaxError> {
        let close = closing(self.tokens, open).filter(|close| *close < to);
        close.ok_or_else(|| SyntaxError::new(self.tokens[open].start, "a bracket has no closing bracket"))
    }

    /// The greatest number of characters of a slice: `[:9]`, `[2:9]` and `[-9:]` have at most 9.
    fn literal_length(&self, from: usize) -> Option<u64> {
        let number = |token: &Token<'_>| token.text.parse().ok().filter(|_| token.kind == Kind::Number);
        match &self.tokens[from..] {
            [colon, stop, close, ..] if colon.is(":") && close.is("]") => number(stop),
            [start, colon, stop, close, ..] if colon.is(":") && close.is("]") && start.kind == Kind::Number => {
                number(stop)
            }
            [minus, start, colon, close, ..] if minus.is("-") && colon.is(":") && close.is("]") => number(start),
            _ => None,
        }
    }

    fn is_slice(&self, from: usize, to: usize) -> bool {
        let mut depth = 0_usize;
        self.tokens[from..to].iter().any(|token| {
            match token.text {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0 && token.is(":")
        })
    }
}

/// The bracket that closes another.
pub(crate) fn closing(tokens: &[Token<'_>], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().skip(open) {
        if token.kind == Kind::Operator {
            match token.text {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth = depth.checked_sub(1)?,
                _ => {}
            }
        }
        if depth == 0 {
            return Some(index);
        }
    }
    None
}

fn is_word(token: &Token<'_>, word: &str) -> bool {
    token.kind == Kind::Word && token.text == word
}

fn unexpected(token: &Token<'_>) -> SyntaxError {
    SyntaxError::new(token.start, format!("unexpected `{}`", token.text))
}
