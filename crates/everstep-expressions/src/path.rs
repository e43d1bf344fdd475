//! A place in the context, such as `ctx.order.items[0].name`, and the walk to it.

use std::borrow::Cow;
use std::fmt;

use everstep_core::evaluate::Lookup;
use serde_json::{Map, Value};

use crate::token::{self, Kind, Token};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    pub(crate) root: String,
    pub(crate) steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Name(String),
    /// Of an array, or the key of an object that is written in digits.
    Index(usize),
}

impl Step {
    /// The step as a field's name.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Name(name) => name.clone(),
            Self::Index(index) => index.to_string(),
        }
    }
}

impl Path {
    /// Reads an expression that is nothing but a path.
    pub(crate) fn parse(source: &str) -> Option<Self> {
        // Most expressions that are not paths say so in one character, long before they are cut into tokens.
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte.is_ascii_whitespace() || b"_.[]".contains(&byte);
        if !source.bytes().all(is_plain) && !source.contains(['\'', '"']) {
            return None;
        }
        let tokens = token::tokenize(source).ok()?;
        let (path, used) = Self::read(&tokens)?;
        (used == tokens.len()).then_some(path)
    }

    /// Reads the path that the tokens begin with, and tells how many of them it takes.
    pub(crate) fn read(tokens: &[Token<'_>]) -> Option<(Self, usize)> {
        let root = tokens.first().filter(|token| token.kind == Kind::Name && !is_constant(token.text))?;
        let mut steps = Vec::new();
        let mut used = 1;
        loop {
            let (step, taken) = match &tokens[used..] {
                [dot, name, ..] if dot.is(".") && name.kind == Kind::Name => (Step::Name(name.text.to_owned()), 2),
                [dot, number, ..] if dot.is(".") && number.kind == Kind::Number => match number.text.parse() {
                    Ok(index) => (Step::Index(index), 2),
                    Err(_) => break,
                },
                [open, key, close, ..] if open.is("[") && close.is("]") => match (key.kind, key.plain_text()) {
                    (Kind::Text, Some(name)) => (Step::Name(name.to_owned()), 3),
                    (Kind::Number, _) => match key.text.parse() {
                        Ok(index) => (Step::Index(index), 3),
                        Err(_) => break,
                    },
                    _ => break,
                },
                _ => break,
            };
            steps.push(step);
            used += taken;
        }
        Some((Self { root: root.text.to_owned(), steps }, used))
    }

    /// Whether there is a value at this place.
    pub(crate) fn leads_somewhere(&self, lookup: &dyn Lookup) -> bool {
        let is_root = matches!(self.root.as_str(), "ctx" | "vars" | "payload" | "meta") && self.steps.is_empty();
        is_root || self.resolve(lookup).is_some()
    }

    /// The value at this place.
    pub(crate) fn resolve<'l>(&self, lookup: &'l dyn Lookup) -> Option<Cow<'l, Value>> {
        let (base, steps) = self.base(lookup)?;
        match base {
            Cow::Borrowed(value) => walk(value, steps).map(Cow::Borrowed),
            Cow::Owned(value) if steps.is_empty() => Some(Cow::Owned(value)),
            Cow::Owned(value) => walk(&value, steps).cloned().map(Cow::Owned),
        }
    }

    /// The value that the walk begins at, and the steps that remain.
    fn base<'l>(&self, lookup: &'l dyn Lookup) -> Option<(Cow<'l, Value>, &[Step])> {
        match (self.root.as_str(), self.steps.as_slice()) {
            ("ctx" | "vars", [Step::Name(name), rest @ ..]) => Some((variable(lookup, name)?, rest)),
            ("ctx" | "vars", [Step::Index(index), rest @ ..]) => Some((variable(lookup, &index.to_string())?, rest)),
            ("ctx" | "vars", []) => Some((Cow::Owned(whole_context(lookup)), &[])),
            ("payload", steps) => Some((Cow::Borrowed(lookup.payload()), steps)),
            ("meta", steps) => Some((Cow::Owned(lookup.meta()), steps)),
            ("null", []) => Some((Cow::Owned(Value::Null), &[])),
            (name, steps) => Some((lookup.local(name)?, steps)),
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.root)?;
        for step in &self.steps {
            match step {
                Step::Name(name) if is_name(name) => write!(f, ".{name}")?,
                Step::Name(name) => write!(f, "['{name}']")?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

fn walk<'v>(value: &'v Value, steps: &[Step]) -> Option<&'v Value> {
    steps.iter().try_fold(value, |value, step| match (value, step) {
        (Value::Object(object), Step::Name(name)) => object.get(name),
        (Value::Array(items), Step::Index(index)) => items.get(*index),
        (Value::Object(object), Step::Index(index)) => object.get(&index.to_string()),
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

/// All that can be listed: variables, the input, and an iteration's usual names.
fn whole_context(lookup: &dyn Lookup) -> Value {
    let mut context = Map::new();
    let names = lookup.names();
    for name in names.iter().map(String::as_str).chain(["input", "item", "index"]) {
        let Some(value) = variable(lookup, name) else { continue };
        context.entry(name).or_insert_with(|| value.into_owned());
    }
    Value::Object(context)
}

/// Names that stand for a value of their own.
pub(crate) fn is_constant(name: &str) -> bool {
    matches!(name, "true" | "false" | "none" | "True" | "False" | "None")
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|first: char| first.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
