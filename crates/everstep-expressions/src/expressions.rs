//! The evaluator that the core is given.

use everstep_core::evaluate::{Evaluate, Fault, Lookup};
use everstep_core::failure::{Failure, code};
use everstep_core::limits::{JSON_DEPTH, PAYLOAD_BYTES};
use serde_json::{Map, Value};

use crate::cache::Cache;
use crate::convert;
use crate::environment::Mode;
use crate::path::Path;
use crate::program;
use crate::template::{self, Piece};
use crate::token::Unreadable;

/// Evaluates expressions and templates, and remembers the compiled ones. One serves a whole process.
#[derive(Default)]
pub struct Expressions {
    cache: Cache,
}

impl Expressions {
    pub fn new() -> Self {
        Self::default()
    }

    fn evaluate(&self, source: &str, mode: Mode, lookup: &dyn Lookup) -> Result<Value, Failure> {
        if let Some(path) = Path::parse(source) {
            return match (path.resolve(lookup), mode) {
                (Some(value), _) => Ok(value.into_owned()),
                (None, Mode::Lenient) => Ok(Value::Null),
                (None, Mode::Strict) => Err(failure(program::undefined(&path.to_string()))),
            };
        }
        let source = source.trim();
        let told = |message: String| failure(format!("{message}, in `{}`", shortened(source)));
        let program = self.cache.get_or_compile(source).map_err(|error| told(place(source, 0, &error)))?;
        program.run(mode, lookup).map_err(told)
    }

    fn find_faults(&self, value: &Value, pointer: &str, depth: usize, faults: &mut Vec<Fault>) {
        let mut report = |message: String| faults.push(Fault { pointer: pointer.to_owned(), message });
        if depth > JSON_DEPTH {
            return report(too_deep());
        }
        match value {
            Value::String(text) if template::has_expressions(text) => match template::cut(text) {
                Ok(pieces) => {
                    for piece in pieces {
                        let Piece::Expression { source, at } = piece else { continue };
                        if let Err(error) = self.compile(source) {
                            report(place(text, at, &error));
                        }
                    }
                }
                Err(error) => report(place(text, 0, &error)),
            },
            Value::Object(object) => {
                if let Some(source) = expression_of(object) {
                    let pointer = format!("{pointer}/$expr");
                    let message = match source.as_str() {
                        Some(source) => self.compile(source).err().map(|error| place(source, 0, &error)),
                        None => Some("`$expr` is a text".to_owned()),
                    };
                    faults.extend(message.map(|message| Fault { pointer, message }));
                    return;
                }
                for (key, value) in object {
                    let pointer = format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"));
                    self.find_faults(value, &pointer, depth + 1, faults);
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.find_faults(item, &format!("{pointer}/{index}"), depth + 1, faults);
                }
            }
            Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn compile(&self, source: &str) -> Result<(), Unreadable> {
        if Path::parse(source).is_some() {
            return Ok(());
        }
        let indent = source.len() - source.trim_start().len();
        let compiled = self.cache.get_or_compile(source.trim());
        compiled.map(drop).map_err(|error| Unreadable { at: error.at + indent, ..error })
    }
}

impl Evaluate for Expressions {
    fn resolve(&self, template: &Value, lookup: &dyn Lookup) -> Result<Value, Failure> {
        Resolver { expressions: self, lookup, mode: Mode::Strict, left: PAYLOAD_BYTES }.resolve(template, 0)
    }

    fn resolve_lenient(&self, template: &Value, lookup: &dyn Lookup) -> Result<Value, Failure> {
        Resolver { expressions: self, lookup, mode: Mode::Lenient, left: PAYLOAD_BYTES }.resolve(template, 0)
    }

    fn expression(&self, source: &str, lookup: &dyn Lookup) -> Result<Value, Failure> {
        self.evaluate(template::unwrap(source), Mode::Lenient, lookup)
    }

    fn check(&self, template: &Value) -> Vec<Fault> {
        let mut faults = Vec::new();
        self.find_faults(template, "", 0, &mut faults);
        faults
    }

    fn check_expression(&self, source: &str) -> Option<Fault> {
        let inside = template::unwrap(source);
        let error = self.compile(inside).err()?;
        Some(Fault { pointer: String::new(), message: place(inside, 0, &error) })
    }
}

/// Resolves one template. What its expressions give is counted together, so that a short template that names a large
/// value many times is refused before it fills the memory.
struct Resolver<'r> {
    expressions: &'r Expressions,
    lookup: &'r dyn Lookup,
    mode: Mode,
    left: usize,
}

impl Resolver<'_> {
    fn resolve(&mut self, template: &Value, depth: usize) -> Result<Value, Failure> {
        if depth > JSON_DEPTH {
            return Err(failure(too_deep()));
        }
        match template {
            Value::String(text) if template::has_expressions(text) => self.resolve_text(text, depth),
            Value::Object(object) => {
                if let Some(source) = expression_of(object) {
                    let source = source.as_str().ok_or_else(|| failure("`$expr` is a text".to_owned()))?;
                    return self.evaluate(source, depth);
                }
                let resolve = |(key, value): (&String, &Value)| Ok((key.clone(), self.resolve(value, depth + 1)?));
                object.iter().map(resolve).collect::<Result<Map<_, _>, _>>().map(Value::Object)
            }
            Value::Array(items) => {
                items.iter().map(|item| self.resolve(item, depth + 1)).collect::<Result<_, _>>().map(Value::Array)
            }
            Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => Ok(template.clone()),
        }
    }

    fn resolve_text(&mut self, text: &str, depth: usize) -> Result<Value, Failure> {
        let pieces = template::cut(text).map_err(|error| failure(place(text, 0, &error)))?;
        if let [Piece::Expression { source, .. }] = pieces.as_slice() {
            return self.evaluate(source, depth);
        }
        let mut whole = String::with_capacity(text.len());
        for piece in pieces {
            match piece {
                Piece::Text(text) => whole.push_str(text),
                Piece::Expression { source, .. } => {
                    whole.push_str(&convert::text(&self.evaluate(source, depth)?));
                }
            }
        }
        Ok(Value::String(whole))
    }

    fn evaluate(&mut self, source: &str, depth: usize) -> Result<Value, Failure> {
        let value = self.expressions.evaluate(source, self.mode, self.lookup)?;
        let bytes = convert::measure(&value, self.left, JSON_DEPTH - depth).map_err(|message| {
            let message =
                if message == convert::too_long(self.left) { convert::too_long(PAYLOAD_BYTES) } else { message };
            failure(format!("{message}, in `{}`", shortened(source.trim())))
        })?;
        self.left -= bytes;
        Ok(value)
    }
}

/// The source in `{"$expr": …}`, an object with that key alone.
fn expression_of(object: &Map<String, Value>) -> Option<&Value> {
    if object.len() == 1 { object.get("$expr") } else { None }
}

fn failure(message: String) -> Failure {
    Failure::fatal(code::EXPRESSION_ERROR, message)
}

/// A message with its place in `text`, counted in characters from 1; `offset` is where the expression begins.
fn place(text: &str, offset: usize, error: &Unreadable) -> String {
    let end = (offset + error.at).min(text.len());
    let characters = text.char_indices().take_while(|(index, _)| *index < end).count();
    format!("{} at character {}", error.message, characters + 1)
}

fn too_deep() -> String {
    format!("nested deeper than {JSON_DEPTH} levels")
}

fn shortened(source: &str) -> String {
    const CHARACTERS: usize = 120;
    if source.chars().nth(CHARACTERS).is_none() {
        return source.to_owned();
    }
    source.chars().take(CHARACTERS).chain(['…']).collect()
}
