//! Reads the fields of a JSON object and reports every error in them.

use serde_json::{Map, Value};

use super::{Problem, nearest};

const STRING_HINT: &str = "write a string in quotes: \"text\"";
const ARRAY_HINT: &str = "write an array in brackets: [value]";
const OBJECT_HINT: &str = "write an object in braces: {\"field\": value}";

/// One object of a definition. The caller reads fields by name; [`Fields::finish`] reports the unknown ones.
pub(crate) struct Fields<'a, 'p> {
    object: &'a Map<String, Value>,
    path: String,
    node: Option<String>,
    known: Vec<&'static str>,
    problems: &'p mut Vec<Problem>,
}

impl<'a, 'p> Fields<'a, 'p> {
    /// Reports a problem and returns `None` if the value is not an object.
    pub(crate) fn from_value(
        value: &'a Value,
        path: impl Into<String>,
        node: Option<&str>,
        problems: &'p mut Vec<Problem>,
    ) -> Option<Self> {
        let path = path.into();
        let node = node.map(str::to_owned);
        match value.as_object() {
            Some(object) => Some(Self { object, path, node, known: Vec::new(), problems }),
            None => {
                let mut problem =
                    Problem::at(path, format!("expected an object, found {}", name_of(value))).hint(OBJECT_HINT);
                problem.node = node;
                problems.push(problem);
                None
            }
        }
    }

    pub(crate) fn problem(&mut self, field: &str, message: impl Into<String>, hint: impl Into<String>) {
        let mut problem = Problem::at(format!("{}/{}", self.path, escape(field)), message).hint(hint);
        problem.node = self.node.clone();
        self.problems.push(problem);
    }

    /// As `problem`, with a code for programs.
    pub(crate) fn coded_problem(
        &mut self,
        field: &str,
        code: &'static str,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.problem(field, message, hint);
        if let Some(problem) = self.problems.last_mut() {
            problem.code = Some(code);
        }
    }

    /// Reports that a field is missing, unless it exists and is wrong: that was reported when it was read.
    pub(crate) fn missing(&mut self, names: &[&'static str], message: impl Into<String>, hint: impl Into<String>) {
        if names.iter().all(|name| self.object.get(*name).is_none_or(Value::is_null)) {
            self.problem(names[0], message, hint);
        }
    }

    /// A field under its current name or an older one. Null counts as absent.
    pub(crate) fn any(&mut self, names: &[&'static str]) -> Option<&'a Value> {
        self.known.extend_from_slice(names);
        let object = self.object;
        let found = names.iter().filter_map(|name| Some((*name, object.get(*name).filter(|value| !value.is_null())?)));
        let found: Vec<_> = found.collect();
        let (name, value) = *found.first()?;
        if let Some((other, _)) = found.iter().find(|(_, other)| *other != value) {
            self.problem(
                other,
                format!("{other} and {name} are two names of one field, and their values differ"),
                format!("keep {name}"),
            );
        }
        Some(value)
    }

    pub(crate) fn text(&mut self, names: &[&'static str]) -> Option<&'a str> {
        let value = self.any(names)?;
        if value.as_str().is_none() {
            self.problem(names[0], format!("expected a string, found {}", name_of(value)), STRING_HINT);
        }
        value.as_str()
    }

    pub(crate) fn flag(&mut self, names: &[&'static str]) -> Option<bool> {
        let value = self.any(names)?;
        if value.as_bool().is_none() {
            let message = format!("expected true or false, found {}", name_of(value));
            self.problem(names[0], message, "write true or false, without quotes");
        }
        value.as_bool()
    }

    /// An integer within bounds. Editors also send numbers as strings.
    pub(crate) fn number(&mut self, names: &[&'static str], from: u64, to: u64) -> Option<u64> {
        let value = self.any(names)?;
        let number = match value {
            Value::String(text) => text.trim().parse().ok(),
            Value::Number(number) => {
                number.as_u64().or_else(|| number.as_f64().filter(|n| n.fract() == 0.0 && *n >= 0.0).map(|n| n as u64))
            }
            _ => None,
        };
        match number {
            Some(number) if (from..=to).contains(&number) => Some(number),
            _ => {
                let message = format!("expected a whole number from {from} to {to}, found {}", shown(value));
                self.problem(names[0], message, format!("write for example {from}"));
                None
            }
        }
    }

    pub(crate) fn fraction(&mut self, names: &[&'static str], from: f64, to: f64) -> Option<f64> {
        let value = self.any(names)?;
        match value.as_f64() {
            Some(number) if (from..=to).contains(&number) => Some(number),
            _ => {
                let message = format!("expected a number from {from} to {to}, found {}", shown(value));
                self.problem(names[0], message, format!("write for example {from}"));
                None
            }
        }
    }

    /// One of several words.
    pub(crate) fn choice<T: Copy>(&mut self, names: &[&'static str], choices: &[(&'static str, T)]) -> Option<T> {
        let text = self.text(names)?;
        if let Some((_, choice)) = choices.iter().find(|(word, _)| *word == text) {
            return Some(*choice);
        }
        let words: Vec<_> = choices.iter().map(|(word, _)| *word).collect();
        self.problem(names[0], format!("unknown value {text:?}"), format!("use one of {}", words.join(", ")));
        None
    }

    pub(crate) fn list(&mut self, names: &[&'static str]) -> Option<&'a [Value]> {
        let value = self.any(names)?;
        if value.as_array().is_none() {
            self.problem(names[0], format!("expected an array, found {}", name_of(value)), ARRAY_HINT);
        }
        value.as_array().map(Vec::as_slice)
    }

    pub(crate) fn object(&mut self, names: &[&'static str]) -> Option<&'a Map<String, Value>> {
        let value = self.any(names)?;
        if value.as_object().is_none() {
            self.problem(names[0], format!("expected an object, found {}", name_of(value)), OBJECT_HINT);
        }
        value.as_object()
    }

    /// Reports every field that no caller has read.
    pub(crate) fn finish(mut self) {
        let object = self.object;
        for field in object.keys() {
            if !self.known.contains(&field.as_str()) {
                let hint = match nearest(field, self.known.iter().copied()) {
                    Some(near) => format!("did you mean {near:?}?"),
                    None if self.known.is_empty() => "this object has no fields".to_owned(),
                    None => format!("known fields: {}", self.known.join(", ")),
                };
                self.problem(field, format!("unknown field {field:?}"), hint);
            }
        }
    }
}

pub(crate) fn name_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// A value as part of a message: a small value in full, a larger one by its kind.
fn shown(value: &Value) -> String {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) if text.len() <= 40 => value.to_string(),
        _ => name_of(value).to_owned(),
    }
}

/// The name of a field as a part of a JSON pointer.
pub(crate) fn escape(field: &str) -> String {
    field.replace('~', "~0").replace('/', "~1")
}
