//! A path in the context, such as `ctx.order.items[0].name`, and its resolution.

use std::borrow::Cow;
use std::fmt;

use everstep_core::evaluate::Lookup;
use serde_json::{Map, Value};

use crate::token::{self, Kind, Token};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    pub(crate) root: String,
    pub(crate) segments: Vec<Segment>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Segment {
    Name(String),
    /// An index of an array, or the key of an object that consists of digits.
    Index(usize),
}

impl Segment {
    /// The segment as a field's name.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Name(name) => name.clone(),
            Self::Index(index) => index.to_string(),
        }
    }
}

impl Path {
    /// Parses an expression that is only a path.
    pub(crate) fn parse(source: &str) -> Option<Self> {
        // A single character shows for most expressions that they are not paths, before they are cut into tokens.
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte.is_ascii_whitespace() || b"_.[]".contains(&byte);
        if !source.bytes().all(is_plain) && !source.contains(['\'', '"']) {
            return None;
        }
        let tokens = token::tokenize(source).ok()?;
        let (path, used) = Self::read(&tokens)?;
        (used == tokens.len()).then_some(path)
    }

    /// Parses the path at the beginning of the tokens, and returns its number of tokens.
    pub(crate) fn read(tokens: &[Token<'_>]) -> Option<(Self, usize)> {
        let root = tokens.first().filter(|token| token.kind == Kind::Name && !is_constant(token.text))?;
        let mut segments = Vec::new();
        let mut used = 1;
        loop {
            let (segment, taken) = match &tokens[used..] {
                [dot, name, ..] if dot.is(".") && name.kind == Kind::Name => (Segment::Name(name.text.to_owned()), 2),
                [dot, number, ..] if dot.is(".") && number.kind == Kind::Number => match number.text.parse() {
                    Ok(index) => (Segment::Index(index), 2),
                    Err(_) => break,
                },
                [open, key, close, ..] if open.is("[") && close.is("]") => match (key.kind, key.plain_text()) {
                    (Kind::Text, Some(name)) => (Segment::Name(name.to_owned()), 3),
                    (Kind::Number, _) => match key.text.parse() {
                        Ok(index) => (Segment::Index(index), 3),
                        Err(_) => break,
                    },
                    _ => break,
                },
                _ => break,
            };
            segments.push(segment);
            used += taken;
        }
        Some((Self { root: root.text.to_owned(), segments }, used))
    }

    /// Whether the path has a value.
    pub(crate) fn has_value(&self, lookup: &dyn Lookup) -> bool {
        let is_root = matches!(self.root.as_str(), "ctx" | "vars" | "payload" | "meta") && self.segments.is_empty();
        is_root || self.resolve(lookup).is_some()
    }

    /// The value of the path.
    pub(crate) fn resolve<'l>(&self, lookup: &'l dyn Lookup) -> Option<Cow<'l, Value>> {
        let (base, segments) = self.base(lookup)?;
        match base {
            Cow::Borrowed(value) => walk(value, segments).map(Cow::Borrowed),
            Cow::Owned(value) if segments.is_empty() => Some(Cow::Owned(value)),
            Cow::Owned(value) => walk(&value, segments).cloned().map(Cow::Owned),
        }
    }

    /// The value at which the path begins, and the remaining segments.
    fn base<'l>(&self, lookup: &'l dyn Lookup) -> Option<(Cow<'l, Value>, &[Segment])> {
        match (self.root.as_str(), self.segments.as_slice()) {
            ("ctx" | "vars", [Segment::Name(name), rest @ ..]) => Some((variable(lookup, name)?, rest)),
            ("ctx" | "vars", [Segment::Index(index), rest @ ..]) => Some((variable(lookup, &index.to_string())?, rest)),
            ("ctx" | "vars", []) => Some((Cow::Owned(whole_context(lookup)), &[])),
            ("payload", segments) => Some((Cow::Borrowed(lookup.payload()), segments)),
            ("meta", segments) => Some((Cow::Owned(lookup.meta()), segments)),
            ("null", []) => Some((Cow::Owned(Value::Null), &[])),
            (name, segments) => Some((lookup.local(name)?, segments)),
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.root)?;
        for segment in &self.segments {
            match segment {
                Segment::Name(name) if is_name(name) => write!(f, ".{name}")?,
                Segment::Name(name) => write!(f, "['{name}']")?,
                Segment::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

fn walk<'v>(value: &'v Value, segments: &[Segment]) -> Option<&'v Value> {
    segments.iter().try_fold(value, |value, segment| match (value, segment) {
        (Value::Object(object), Segment::Name(name)) => object.get(name),
        (Value::Array(items), Segment::Index(index)) => items.get(*index),
        (Value::Object(object), Segment::Index(index)) => object.get(&index.to_string()),
        _ => None,
    })
}

/// A variable of the context. The names of an iteration hide outer ones.
fn variable<'l>(lookup: &'l dyn Lookup, name: &str) -> Option<Cow<'l, Value>> {
    let found = lookup.local(name).or_else(|| lookup.variable(name));
    match name {
        "input" => found.or_else(|| Some(Cow::Borrowed(lookup.payload()))),
        _ => found,
    }
}

/// Everything that can be listed: variables, the input, and the usual names of an iteration.
fn whole_context(lookup: &dyn Lookup) -> Value {
    let mut context = Map::new();
    let names = lookup.names();
    for name in names.iter().map(String::as_str).chain(["input", "item", "index"]) {
        let Some(value) = variable(lookup, name) else { continue };
        context.entry(name).or_insert_with(|| value.into_owned());
    }
    Value::Object(context)
}

/// Names of constants.
pub(crate) fn is_constant(name: &str) -> bool {
    matches!(name, "true" | "false" | "none" | "True" | "False" | "None")
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|first: char| first.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
