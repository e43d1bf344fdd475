//! A path in the context, such as `ctx.order.items[0].name`, and its resolution.

use std::borrow::Cow;
use std::fmt;

use everstep_core::evaluate::{Fields, Lookup};
use serde_json::Value;

use crate::convert::{self, Size};
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

    /// The value of the path, which is not copied yet.
    pub(crate) fn resolve<'l>(&self, lookup: &'l dyn Lookup) -> Option<Resolved<'l>> {
        let (base, segments) = self.base(lookup)?;
        let (value, segments) = match (base, segments) {
            (Resolved::Fields(fields), []) => return Some(Resolved::Fields(fields)),
            (Resolved::Fields(fields), [first, rest @ ..]) => {
                let name = first.name();
                (fields.into_iter().find(|(field, _)| *field == name)?.1, rest)
            }
            (Resolved::Value(value), segments) => (value, segments),
        };
        Some(Resolved::Value(match value {
            Cow::Borrowed(value) => Cow::Borrowed(walk(value, segments)?),
            Cow::Owned(value) if segments.is_empty() => Cow::Owned(value),
            Cow::Owned(value) => Cow::Owned(walk(&value, segments)?.clone()),
        }))
    }

    /// The value at which the path begins, and the remaining segments.
    fn base<'l>(&self, lookup: &'l dyn Lookup) -> Option<(Resolved<'l>, &[Segment])> {
        let owned = |value: Value| Resolved::Value(Cow::Owned(value));
        match (self.root.as_str(), self.segments.as_slice()) {
            ("ctx" | "vars", [Segment::Name(name), rest @ ..]) => Some((variable(lookup, name)?, rest)),
            ("ctx" | "vars", [Segment::Index(index), rest @ ..]) => Some((variable(lookup, &index.to_string())?, rest)),
            ("ctx" | "vars", []) => Some((Resolved::Fields(whole_context(lookup)), &[])),
            ("payload", segments) => Some((Resolved::Value(Cow::Borrowed(lookup.payload())), segments)),
            ("meta", segments) => Some((owned(lookup.meta()), segments)),
            ("null", []) => Some((owned(Value::Null), &[])),
            (name, segments) => {
                let fields = lookup.local_fields(name).map(Resolved::Fields);
                Some((fields.or_else(|| lookup.local(name).map(Resolved::Value))?, segments))
            }
        }
    }
}

/// The value of a path, by reference where the lookup stores it. It is measured before it is copied.
pub(crate) enum Resolved<'l> {
    Value(Cow<'l, Value>),
    /// An object, as its fields.
    Fields(Fields<'l>),
}

impl Resolved<'_> {
    /// The size of the value, or of the part that fits; see [`convert::measure`].
    pub(crate) fn measure(&self, most: usize, depth: usize) -> (Size, Result<(), String>) {
        match self {
            Self::Value(value) => convert::measure(value, most, depth),
            Self::Fields(fields) => convert::measure_fields(fields, most, depth),
        }
    }

    pub(crate) fn into_value(self) -> Value {
        match self {
            Self::Value(value) => value.into_owned(),
            Self::Fields(fields) => {
                let fields = fields.into_iter().map(|(name, value)| (name.into_owned(), value.into_owned()));
                Value::Object(fields.collect())
            }
        }
    }

    /// Converts the value for the library. Call `measure` first: this function has no limit of depth.
    pub(crate) fn to_library(&self) -> minijinja::Value {
        match self {
            Self::Value(value) => convert::to_library(value),
            Self::Fields(fields) => minijinja::Value::from_pairs(
                fields.iter().map(|(name, value)| (name.to_string(), convert::to_library(value))),
            ),
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
fn variable<'l>(lookup: &'l dyn Lookup, name: &str) -> Option<Resolved<'l>> {
    if let Some(local) = lookup.local(name) {
        return Some(Resolved::Value(local));
    }
    if let Some(fields) = lookup.variable_fields(name) {
        return Some(Resolved::Fields(fields));
    }
    let found = lookup.variable(name);
    let found = found.or_else(|| if name == "input" { Some(Cow::Borrowed(lookup.payload())) } else { None });
    found.map(Resolved::Value)
}

/// Everything that can be listed: variables, the input, and the usual names of an iteration.
fn whole_context(lookup: &dyn Lookup) -> Fields<'_> {
    let mut names = lookup.names();
    for name in ["input", "item", "index"] {
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    let fields = names.into_iter().filter_map(|name| match variable(lookup, &name)? {
        Resolved::Value(value) => Some((Cow::Owned(name), value)),
        // No name that can be listed has such fields.
        Resolved::Fields(_) => None,
    });
    fields.collect()
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
