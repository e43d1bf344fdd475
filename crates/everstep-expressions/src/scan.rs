//! Analyses an expression before the library compiles it.

use crate::environment;
use crate::operands::{Charges, Insertion, closing};
use crate::path::{self, Path};
use crate::token::{self, Kind, SyntaxError, Token};
use crate::{OPERATORS_MAX, SOURCE_BYTES_MAX};

/// The properties of an expression that follow from its text.
#[derive(Debug)]
pub(crate) struct Scan {
    /// The source in which every operand of `*` is checked to be a number, and operands are charged for.
    pub(crate) guarded: String,
    pub(crate) guards: Guards,
    /// What its operators cost; an error if this analysis does not understand the expression.
    pub(crate) charges: Result<Charges, SyntaxError>,
    /// Every path that it may read.
    pub(crate) path_reads: Vec<PathRead>,
    /// The number of operators that may join texts or lists.
    pub(crate) joins: usize,
    /// Whether a missing value may be intended: it has a default, a test for it, or a condition selects it.
    pub(crate) expects_missing: bool,
    /// The number of filters that may make a text much longer.
    pub(crate) amplifiers: u32,
}

/// The positions at which guards were inserted into a source, and their lengths.
#[derive(Debug)]
pub(crate) struct Guards(Vec<(usize, usize)>);

/// A path that an expression reads.
#[derive(Debug)]
pub(crate) struct PathRead {
    pub(crate) path: Path,
    /// Its position in the source, in bytes.
    pub(crate) at: usize,
    /// Whether a default or a test for existence follows it.
    pub(crate) has_fallback: bool,
}

impl Scan {
    /// Parses an expression.
    ///
    /// 1. It uses only filters and tests of the list, and calls nothing.
    /// 2. `*` is between two operands, neither of which is a text literal.
    /// 3. Sizes are within their limits.
    pub(crate) fn from_source(source: &str) -> Result<Self, SyntaxError> {
        if source.len() > SOURCE_BYTES_MAX {
            return Err(SyntaxError::new(0, format!("an expression has at most {SOURCE_BYTES_MAX} bytes")));
        }
        let tokens = token::tokenize(source)?;
        if tokens.is_empty() {
            return Err(SyntaxError::new(0, "the expression is empty"));
        }
        let operators = tokens.iter().filter(|token| nests(token));
        if let Some(token) = operators.clone().nth(OPERATORS_MAX) {
            return Err(SyntaxError::new(token.start, format!("an expression has at most {OPERATORS_MAX} operators")));
        }
        check_names(&tokens)?;
        let mut insertions = guard_products(&tokens)?;
        let charges = Charges::from_tokens(&tokens);
        insertions.extend(charges.iter().flat_map(|charges| charges.insertions.iter().cloned()));
        insertions.sort_by_key(Insertion::position);
        Ok(Self {
            guarded: insert_guards(source, &insertions),
            guards: Guards(insertions.iter().map(|insertion| (insertion.at, insertion.text.len())).collect()),
            charges,
            path_reads: find_path_reads(&tokens),
            joins: tokens.iter().filter(|token| token.is("+") || token.is("~")).count(),
            expects_missing: tokens.iter().any(expects_missing),
            amplifiers: tokens.iter().map(|token| u32::from(amplifies(token))).sum(),
        })
    }
}

impl Guards {
    /// Maps a position in the guarded source to the position in the written one.
    pub(crate) fn written_position(&self, guarded: usize) -> usize {
        let mut inserted = 0;
        for (at, length) in &self.0 {
            if at + inserted >= guarded {
                break;
            }
            inserted += length;
        }
        guarded.saturating_sub(inserted)
    }
}

fn nests(token: &Token<'_>) -> bool {
    match token.kind {
        Kind::Word => true,
        Kind::Operator => !matches!(token.text, "," | ":"),
        Kind::Name | Kind::Number | Kind::Text => false,
    }
}

fn expects_missing(token: &Token<'_>) -> bool {
    match token.kind {
        Kind::Word => matches!(token.text, "if" | "and" | "or"),
        Kind::Name => matches!(token.text, "default" | "d" | "defined" | "undefined"),
        Kind::Number | Kind::Text | Kind::Operator => false,
    }
}

fn amplifies(token: &Token<'_>) -> bool {
    token.kind == Kind::Name && matches!(token.text, "join" | "replace" | "tojson")
}

/// The meaning of a name, determined by the tokens before it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Value,
    Segment,
    Filter,
    Test,
}

fn role(tokens: &[Token<'_>], index: usize) -> Role {
    let before = |distance: usize| index.checked_sub(distance).map(|index| &tokens[index]);
    let is_word = |token: Option<&Token<'_>>, word: &str| {
        token.is_some_and(|token| token.kind == Kind::Word && token.text == word)
    };
    match before(1) {
        Some(token) if token.is(".") => Role::Segment,
        Some(token) if token.is("|") => Role::Filter,
        token if is_word(token, "is") => Role::Test,
        token if is_word(token, "not") && is_word(before(2), "is") => Role::Test,
        _ => Role::Value,
    }
}

fn check_names(tokens: &[Token<'_>]) -> Result<(), SyntaxError> {
    for (index, token) in tokens.iter().enumerate() {
        let is_test_word = token.kind == Kind::Word && token.text == "in";
        let role = if token.kind == Kind::Name || is_test_word { role(tokens, index) } else { Role::Value };
        let next = tokens.get(index + 1);
        let is_named = matches!(role, Role::Filter | Role::Test);
        let is_dotted = is_named && next.is_some_and(|next| next.is("."));
        if role == Role::Filter && (is_dotted || !environment::has_filter(token.text)) {
            let known = environment::filter_names().join(", ");
            return Err(SyntaxError::new(
                token.start,
                format!("the filter `{}` does not exist; the filters are {known}", token.text),
            ));
        }
        if role == Role::Test && (is_dotted || !environment::has_test(token.text)) {
            let known = environment::test_names().join(", ");
            return Err(SyntaxError::new(
                token.start,
                format!("the test `{}` does not exist; the tests are {known}", token.text),
            ));
        }
        if token.ends_operand() && !is_named && next.is_some_and(|next| next.is("(")) {
            let name = if token.kind == Kind::Name { token.text } else { "this" };
            return Err(SyntaxError::new(
                token.start,
                format!("`{name}` cannot be called; write a filter as `value | name`"),
            ));
        }
    }
    Ok(())
}

/// Finds the end of each operand of `*`. The library repeats texts and lists with `*`, up to 100 MB at a time and
/// already while it compiles, so a filter that accepts only numbers is inserted after every operand.
fn guard_products(tokens: &[Token<'_>]) -> Result<Vec<Insertion>, SyntaxError> {
    let mut positions = Vec::new();
    for (index, token) in tokens.iter().enumerate().filter(|(_, token)| token.is("*")) {
        let refuse = |message: &str| Err(SyntaxError::new(token.start, message));
        let Some(left) = index.checked_sub(1).map(|index| &tokens[index]).filter(|left| left.ends_operand()) else {
            return refuse("`*` needs a number on each side");
        };
        let Some(end) = operand_end(tokens, index + 1) else {
            return refuse("`*` needs a number on each side; put a longer operand in parentheses");
        };
        if left.kind == Kind::Text || tokens[index + 1..=end].iter().all(|token| token.kind == Kind::Text) {
            return refuse("text cannot be multiplied");
        }
        positions.extend([left.end(), tokens[end].end()]);
    }
    positions.sort_unstable();
    positions.dedup();
    Ok(positions.into_iter().map(|at| Insertion::filter(at, environment::NUMBER_GUARD)).collect())
}

/// The last token of the operand that begins at `index`: signs, a primary, its path segments, its filters. `None` if
/// there is none, or if a test follows without parentheses.
fn operand_end(tokens: &[Token<'_>], mut index: usize) -> Option<usize> {
    while tokens.get(index)?.is("-") {
        index += 1;
    }
    let mut end = match tokens.get(index)? {
        token if token.is("(") || token.is("[") || token.is("{") => closing(tokens, index)?,
        token if token.kind == Kind::Text => {
            index + tokens[index..].iter().take_while(|token| token.kind == Kind::Text).count() - 1
        }
        token if matches!(token.kind, Kind::Name | Kind::Number) => index,
        _ => return None,
    };
    while let Some(next) = tokens.get(end + 1) {
        end = match next {
            next if next.is(".") || next.is("|") => end + 2,
            next if next.is("[") || next.is("(") => closing(tokens, end + 1)?,
            next if next.kind == Kind::Word && next.text == "is" => return None,
            _ => break,
        };
        tokens.get(end)?;
    }
    Some(end)
}

fn insert_guards(source: &str, insertions: &[Insertion]) -> String {
    let mut guarded = String::with_capacity(source.len() + insertions.len() * 16);
    let mut from = 0;
    for Insertion { at, text, .. } in insertions {
        guarded.push_str(&source[from..*at]);
        guarded.push_str(text);
        from = *at;
    }
    guarded.push_str(&source[from..]);
    guarded
}

/// Our own analysis, because the library's `undeclared_variables` overlooks slices: `ctx.items[1:]`.
fn find_path_reads(tokens: &[Token<'_>]) -> Vec<PathRead> {
    let mut path_reads = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        let is_argument_name = tokens.get(index + 1).is_some_and(|next| next.is("="));
        if token.kind != Kind::Name || is_argument_name || role(tokens, index) != Role::Value {
            continue;
        }
        if path::is_constant(token.text) {
            continue;
        }
        if let Some((path, used)) = Path::read(&tokens[index..]) {
            path_reads.push(PathRead { path, at: token.start, has_fallback: is_fallback(&tokens[index + used..]) });
        }
    }
    path_reads
}

/// Whether a path is followed by `|default`, `is defined` or the like.
fn is_fallback(rest: &[Token<'_>]) -> bool {
    let is_between = |token: &&Token<'_>| {
        let is_word = token.kind == Kind::Word && matches!(token.text, "is" | "not");
        is_word || token.is(")") || token.is("|")
    };
    let name = rest.iter().find(|token| !is_between(token));
    name.is_some_and(|name| name.kind == Kind::Name && matches!(name.text, "default" | "d" | "defined" | "undefined"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guarded(source: &str) -> String {
        let mut guarded = Scan::from_source(source).unwrap().guarded;
        for (guard, short) in [
            (environment::NUMBER_GUARD, "N"),
            (environment::ADD_GUARD, "A"),
            (environment::CONCAT_GUARD, "T"),
            (environment::COMPARE_GUARD, "C"),
            (environment::SLICE_GUARD, "S"),
            (environment::KEY_GUARD, "K"),
        ] {
            guarded = guarded.replace(guard, short);
        }
        guarded
    }

    #[test]
    fn every_operand_of_a_product_is_guarded() {
        assert_eq!(guarded("a * b"), "a|N * b|N");
        assert_eq!(guarded("a*b*c"), "a|N*b|N*c|N");
        assert_eq!(guarded("ctx.a[0].b * -ctx.c|length + 1"), "ctx.a[0].b|N * -ctx.c|length|N + 1");
        assert_eq!(guarded("(a + b) * x|round(2) ** 3"), "(a|A(1,0) + b|A(1,0))|N * x|round(2)|N ** 3");
        assert_eq!(guarded("a ** b / c"), "a ** b / c");
        assert_eq!(guarded("[1, 'a*b'][0] * {'k': 2}['k']"), "[1, 'a*b'][0]|N * {'k': 2}['k']|N");
    }

    #[test]
    fn operands_are_charged_once_per_copy_and_comparison() {
        assert_eq!(guarded("a ~ b ~ c"), "a|T(2) ~ b|T(2) ~ c|T(2)");
        assert_eq!(guarded("a ~ 'x' == b|upper"), "a|T(2) ~ 'x' == b|upper|C(1)");
        assert_eq!(guarded("a + 1 > 2 and b"), "a|A(1,1) + 1 > 2 and b");
        assert_eq!(guarded("a - 1 < b < 3"), "a - 1 < b|C(2) < 3");
        assert_eq!(guarded("a not in [b, 'c']"), "a|C(1) not in [b, 'c']|C(1)");
        assert_eq!(
            guarded("a if b == none else c|default(d ~ e)"),
            "a if b|C(1) == none else c|default(d|T(1) ~ e|T(1))"
        );
        assert_eq!(
            guarded("x is divisibleby -3 or x is not in y == z"),
            "x is divisibleby -3 or x is not in y == z|C(1)"
        );
    }

    #[test]
    fn the_value_before_a_slice_is_charged_for_all_slices_after_it() {
        assert_eq!(guarded("a.b[1:][2:].c[0]"), "(a.b|S(3))[1:][2:].c[0]");
        assert_eq!(
            guarded("-(a)[1:] + ((b|list)[:2])[::-1]"),
            "-(a|S(1))[1:]|A(1,0) + ((b|list|S(1,2))[:2]|S(1))[::-1]|A(1,0)"
        );
        assert_eq!(guarded("(a ~ b)[1:]"), "((a|T(1) ~ b|T(1))|S(1))[1:]");
        assert_eq!(guarded("x is eq a[1:]"), "x is eq ((a|S(1))[1:])");
        assert_eq!(guarded("a[b] ~ {c: 1}"), "a[b|K]|T(1) ~ {c|K: 1}|T(1)");
    }

    #[test]
    fn a_text_next_to_a_star_is_refused() {
        for source in ["'a' * 9", "9 * 'a'", "9 * 'a' 'b'", "round(*x)", "* 3", "3 *", "3 * x is string|upper"] {
            assert!(Scan::from_source(source).is_err(), "{source}");
        }
    }

    #[test]
    fn paths_are_found_at_every_position() {
        let paths = |source: &str| {
            let path_reads = Scan::from_source(source).unwrap().path_reads;
            path_reads.iter().map(|path_read| path_read.path.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(paths("ctx.items[1:] + vars.a.b"), ["ctx.items", "vars.a.b"]);
        assert_eq!(paths("ctx[payload.key]|default(item, true)"), ["ctx", "payload.key", "item"]);
        assert_eq!(paths("ctx['a b'].c is divisibleby ctx.n"), ["ctx['a b'].c", "ctx.n"]);
        assert_eq!(paths("ctx.x|round(precision=ctx.p) if true"), ["ctx.x", "ctx.p"]);
    }

    #[test]
    fn positions_refer_to_the_written_source() {
        let scan = Scan::from_source("a * b + !").err();
        assert_eq!(scan.unwrap().at, 8);
        let scan = Scan::from_source("a * b + c").unwrap();
        let position = scan.guarded.find('+').unwrap();
        assert_eq!(scan.guards.written_position(position), 6);
    }
}
