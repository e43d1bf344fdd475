//! The evaluator that the core receives.

use everstep_core::evaluate::{Evaluate, Fault, Lookup, Reference};
use everstep_core::failure::{Failure, code};
use everstep_core::limits::{CONTEXT_BYTES, DECISION_FUEL, EXPRESSION_FUEL, FUEL_PER_MS, JSON_DEPTH, PAYLOAD_BYTES};
use everstep_core::meter::Meter;
use serde_json::{Map, Value};

use crate::cache::Cache;
use crate::convert::{self, Size};
use crate::environment::Mode;
use crate::fuel;
use crate::path::{Path, Segment};
use crate::position;
use crate::program;
use crate::scan::PathRead;
use crate::template::{self, Piece};
use crate::token::SyntaxError;
use crate::walk::{self, Found};

/// Evaluates expressions and templates, and caches the compiled ones. One evaluator serves a whole process.
#[derive(Default)]
pub struct Expressions {
    cache: Cache,
}

impl Expressions {
    pub fn new() -> Self {
        Self::default()
    }

    fn evaluate(&self, source: &str, lookup: &dyn Lookup, meter: &Meter, bounds: Bounds) -> Result<Evaluated, Failure> {
        let mode = bounds.mode;
        let budget = meter.left_for_part().min(EXPRESSION_FUEL);
        if budget == 0 {
            return Err(too_costly(source.trim(), budget, 0));
        }
        if let Some(path) = Path::parse(source) {
            return read_path(&path, source, lookup, meter, bounds);
        }
        let source = source.trim();
        let failure_at = |message: &str, at: Option<usize>| {
            failure(format!("{message}{}", position::describe_in_source(source, at)))
        };
        let program = self.cache.get_or_compile(source).map_err(|error| failure_at(&error.message, Some(error.at)))?;
        let (value, used) = program.run(mode, lookup, budget);
        meter.charge(used);
        if used > budget {
            return Err(too_costly(source, budget, used));
        }
        let value = value.map_err(|error| failure_at(&error.message, error.at))?;
        Ok(Evaluated { value, size: None })
    }

    fn find_faults(&self, pointer: &str, found: Found<'_>, faults: &mut Vec<Fault>) {
        let mut report = |message: String| faults.push(Fault { pointer: pointer.to_owned(), message });
        match found {
            Found::TooDeep => report(too_deep()),
            Found::ExtraFields => report("`$expr` must be the only field of its object".to_owned()),
            Found::Expression(Value::String(source)) => {
                if let Err(error) = self.compile(source) {
                    report(with_position(source, 0, &error));
                }
            }
            Found::Expression(_) => report("`$expr` must be a string".to_owned()),
            Found::Text(text) => match template::cut(text) {
                Ok(pieces) => {
                    for piece in pieces {
                        let Piece::Expression { source, at } = piece else { continue };
                        if let Err(error) = self.compile(source) {
                            report(with_position(text, at, &error));
                        }
                    }
                }
                Err(error) => report(with_position(text, 0, &error)),
            },
        }
    }

    /// Adds the names that one expression references. A name that has a fallback once has it throughout the expression:
    /// `ctx.a.b if ctx.a is defined`.
    fn find_references(&self, pointer: &str, source: &str, references: &mut Vec<Reference>) {
        let reference = |path: &Path, has_fallback: bool| Reference {
            pointer: pointer.to_owned(),
            root: path.root.clone(),
            name: path.segments.first().map(Segment::name),
            has_fallback,
        };
        if let Some(path) = Path::parse(source) {
            references.push(reference(&path, false));
            return;
        }
        let Ok(program) = self.cache.get_or_compile(source.trim()) else { return };
        let path_reads = program.path_reads();
        let begins_alike =
            |one: &Path, other: &Path| one.root == other.root && one.segments.first() == other.segments.first();
        for path_read in path_reads {
            let is_forgiven = |other: &&PathRead| other.has_fallback && begins_alike(&other.path, &path_read.path);
            references.push(reference(&path_read.path, path_reads.iter().any(|other| is_forgiven(&other))));
        }
    }

    fn compile(&self, source: &str) -> Result<(), SyntaxError> {
        if Path::parse(source).is_some() {
            return Ok(());
        }
        let indent = source.len() - source.trim_start().len();
        let compiled = self.cache.get_or_compile(source.trim());
        compiled.map(drop).map_err(|error| SyntaxError { at: error.at + indent, ..error })
    }
}

impl Evaluate for Expressions {
    fn resolve(&self, template: &Value, lookup: &dyn Lookup, meter: &Meter) -> Result<Value, Failure> {
        Resolver::new(self, lookup, meter, Mode::Strict).resolve_all(template)
    }

    fn resolve_lenient(&self, template: &Value, lookup: &dyn Lookup, meter: &Meter) -> Result<Value, Failure> {
        Resolver::new(self, lookup, meter, Mode::Lenient).resolve_all(template)
    }

    fn expression(&self, source: &str, lookup: &dyn Lookup, meter: &Meter) -> Result<Value, Failure> {
        // No more than a whole context, whose variables are one level deeper, or two as fields of a node.
        let bounds = Bounds { mode: Mode::Lenient, bytes_max: CONTEXT_BYTES, depth_max: JSON_DEPTH + 2 };
        self.evaluate(template::unwrap(source), lookup, meter, bounds).map(|evaluated| evaluated.value)
    }

    fn check(&self, template: &Value) -> Vec<Fault> {
        let mut faults = Vec::new();
        walk::walk(template, &mut |pointer, found| self.find_faults(&pointer, found, &mut faults));
        faults
    }

    fn check_expression(&self, source: &str) -> Option<Fault> {
        let inside = template::unwrap(source);
        let error = self.compile(inside).err()?;
        Some(Fault { pointer: String::new(), message: with_position(inside, 0, &error) })
    }

    fn references(&self, template: &Value) -> Vec<Reference> {
        let mut references = Vec::new();
        walk::walk(template, &mut |pointer, found| match found {
            Found::Expression(Value::String(source)) => self.find_references(&pointer, source, &mut references),
            Found::Text(text) => {
                for piece in template::cut(text).unwrap_or_default() {
                    if let Piece::Expression { source, .. } = piece {
                        self.find_references(&pointer, source, &mut references);
                    }
                }
            }
            Found::Expression(_) | Found::ExtraFields | Found::TooDeep => {}
        });
        references
    }

    fn expression_references(&self, source: &str) -> Vec<Reference> {
        let mut references = Vec::new();
        self.find_references("", template::unwrap(source), &mut references);
        references
    }
}

/// Resolves one template. The results of its expressions are counted together, so that a short template that repeats a
/// large value many times is rejected before it fills the memory.
struct Resolver<'r> {
    expressions: &'r Expressions,
    lookup: &'r dyn Lookup,
    meter: &'r Meter,
    mode: Mode,
    left: usize,
    /// The place of an expression that fails, from the inside out.
    failed_at: Vec<String>,
}

impl<'r> Resolver<'r> {
    fn new(expressions: &'r Expressions, lookup: &'r dyn Lookup, meter: &'r Meter, mode: Mode) -> Self {
        Self { expressions, lookup, meter, mode, left: PAYLOAD_BYTES, failed_at: Vec::new() }
    }

    fn resolve_all(mut self, template: &Value) -> Result<Value, Failure> {
        let mut failure = match self.resolve(template, 0) {
            Err(failure) if failure.code == code::EXPRESSION_TOO_COSTLY => failure,
            result => return result,
        };
        if !self.failed_at.is_empty() {
            let names = self.failed_at.iter().rev().map(|name| name.replace('~', "~0").replace('/', "~1"));
            let pointer: String = names.flat_map(|name| ["/".to_owned(), name]).collect();
            failure.message = format!("at {pointer}: {}", failure.message);
        }
        Err(failure)
    }

    fn resolve(&mut self, template: &Value, depth: usize) -> Result<Value, Failure> {
        if depth > JSON_DEPTH {
            return Err(failure(too_deep()));
        }
        match template {
            Value::String(text) if template::has_expressions(text) => self.resolve_text(text, depth),
            Value::Object(object) => {
                if let Some(source) = walk::expression_of(object) {
                    let source = source.as_str().ok_or_else(|| failure("`$expr` must be a string".to_owned()))?;
                    return self.evaluate(source, depth);
                }
                if walk::is_secret(object) {
                    return Ok(template.clone());
                }
                let mut resolved = Map::with_capacity(object.len());
                for (key, value) in object {
                    let value = self.resolve(value, depth + 1).inspect_err(|_| self.failed_at.push(key.clone()))?;
                    resolved.insert(key.clone(), value);
                }
                Ok(Value::Object(resolved))
            }
            Value::Array(items) => {
                let mut resolved = Vec::with_capacity(items.len());
                for (index, item) in items.iter().enumerate() {
                    let item = self.resolve(item, depth + 1).inspect_err(|_| self.failed_at.push(index.to_string()))?;
                    resolved.push(item);
                }
                Ok(Value::Array(resolved))
            }
            Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => Ok(template.clone()),
        }
    }

    fn resolve_text(&mut self, text: &str, depth: usize) -> Result<Value, Failure> {
        let pieces = template::cut(text).map_err(|error| failure(with_position(text, 0, &error)))?;
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
        let bounds = Bounds { mode: self.mode, bytes_max: self.left, depth_max: JSON_DEPTH - depth };
        let Evaluated { value, size } = self.expressions.evaluate(source, self.lookup, self.meter, bounds)?;
        let size = match size {
            Some(size) => size,
            None => {
                let (size, result) = convert::measure(&value, bounds.bytes_max, bounds.depth_max);
                self.meter.charge(size.fuel());
                result.map_err(|message| too_large(&message, bounds.bytes_max, source))?;
                size
            }
        };
        self.left -= size.bytes;
        Ok(value)
    }
}

/// The value of an expression that is only a path. It charges for the value before it copies it, and also for one that
/// is too long.
fn read_path(
    path: &Path,
    source: &str,
    lookup: &dyn Lookup,
    meter: &Meter,
    bounds: Bounds,
) -> Result<Evaluated, Failure> {
    meter.charge(fuel::PATH + source.len() as u64 * fuel::PATH_BYTE);
    let resolved = match (path.resolve(lookup), bounds.mode) {
        (Some(resolved), _) => resolved,
        (None, Mode::Lenient) => return Ok(Evaluated { value: Value::Null, size: None }),
        (None, Mode::Strict) => return Err(failure(program::undefined(&path.to_string()))),
    };
    let (size, result) = resolved.measure(bounds.bytes_max, bounds.depth_max);
    meter.charge(size.fuel());
    result.map_err(|message| too_large(&message, bounds.bytes_max, source))?;
    // A path may use all fuel of the part. A payload never needs so much, but a context does.
    if meter.left_for_part() == 0 {
        return Err(too_costly(source.trim(), 0, size.fuel()));
    }
    Ok(Evaluated { value: resolved.into_value(), size: Some(size) })
}

/// The bounds of the value of an expression.
#[derive(Clone, Copy)]
struct Bounds {
    mode: Mode,
    bytes_max: usize,
    depth_max: usize,
}

/// The value of an expression.
struct Evaluated {
    value: Value,
    /// Its size, if it has been charged for.
    size: Option<Size>,
}

/// The failure of an expression whose value exceeds its bounds. The bound that a message names is the one of a whole
/// template, whatever earlier expressions have left of it.
fn too_large(message: &str, bytes_max: usize, source: &str) -> Failure {
    let is_long = message == convert::too_long(bytes_max);
    let message = if is_long { convert::too_long(bytes_max.max(PAYLOAD_BYTES)) } else { message.to_owned() };
    failure(format!("{message}, in `{}`", position::shortened(source.trim())))
}

/// The failure of an expression that was ended.
fn too_costly(source: &str, budget: u64, used: u64) -> Failure {
    let source = position::shortened(source);
    let message = if budget < EXPRESSION_FUEL {
        let most = DECISION_FUEL / FUEL_PER_MS;
        format!(
            "the expressions of the step need more than {most} ms of work; `{source}` was ended after {used} units of fuel"
        )
    } else {
        let most = EXPRESSION_FUEL / FUEL_PER_MS;
        format!(
            "needs more than {most} ms of work, {used} units of fuel so far, in `{source}`; read less data or move the work into a code step"
        )
    };
    Failure::fatal(code::EXPRESSION_TOO_COSTLY, message)
}

fn failure(message: String) -> Failure {
    Failure::fatal(code::EXPRESSION_ERROR, message)
}

/// A message with its position in `text`; `offset` is where the expression begins there.
fn with_position(text: &str, offset: usize, error: &SyntaxError) -> String {
    format!("{} {}", error.message, position::describe(text, offset + error.at))
}

fn too_deep() -> String {
    format!("nested deeper than {JSON_DEPTH} levels")
}
