//! A compiled expression.

use std::panic::{self, AssertUnwindSafe};

use everstep_core::evaluate::Lookup;
use minijinja::{Error, ErrorKind, Expression};
use serde_json::Value;

use crate::convert::{self, OnMissing};
use crate::environment::{self, Mode};
use crate::fuel;
use crate::inputs::Inputs;
use crate::operands::Charges;
use crate::scan::{Guards, PathRead, Scan};
use crate::token::SyntaxError;
use crate::{COPIED_BYTES_MAX, OUTPUT_BYTES_MAX};

pub(crate) struct Program {
    strict: Expression<'static, 'static>,
    lenient: Expression<'static, 'static>,
    inputs: Inputs,
    guards: Guards,
    joins: usize,
    expects_missing: bool,
    amplifiers: u32,
    source_bytes: usize,
    charges: Charges,
}

/// Why an expression has no value, with the position in its source if it is known.
pub(crate) struct EvaluationError {
    pub(crate) message: String,
    pub(crate) at: Option<usize>,
}

impl From<String> for EvaluationError {
    fn from(message: String) -> Self {
        Self { message, at: None }
    }
}

impl Program {
    pub(crate) fn compile(source: &str) -> Result<Self, SyntaxError> {
        let scan = Scan::from_source(source)?;
        let compile = |mode: Mode| {
            let compiled = guarded(|| environment::environment(mode).compile_expression_owned(scan.guarded.clone()));
            compiled.map_err(|error| unreadable(&scan.guards, &error))
        };
        let (strict, lenient) = (compile(Mode::Strict)?, compile(Mode::Lenient)?);
        // The library describes an error better; an expression that only this crate does not understand is refused.
        let charges = scan.charges?;
        Ok(Self {
            strict,
            lenient,
            inputs: Inputs::new(scan.path_reads),
            guards: scan.guards,
            joins: scan.joins,
            expects_missing: scan.expects_missing,
            amplifiers: scan.amplifiers,
            source_bytes: source.len(),
            charges,
        })
    }

    /// Every path that it may read.
    pub(crate) fn path_reads(&self) -> &[PathRead] {
        self.inputs.written()
    }

    /// Evaluates the expression with a budget of fuel. Returns the fuel that it has used.
    pub(crate) fn run(&self, mode: Mode, lookup: &dyn Lookup, budget: u64) -> (Result<Value, EvaluationError>, u64) {
        fuel::spend(budget, self.charges.slices, || self.evaluate(mode, lookup))
    }

    fn evaluate(&self, mode: Mode, lookup: &dyn Lookup) -> Result<Value, EvaluationError> {
        let given = self.inputs.gather(lookup)?;
        let indexes = self.charges.indexes * (given.bytes as u64 / fuel::INDEXED_BYTES);
        let source = fuel::EXPRESSION + self.source_bytes as u64 * fuel::SOURCE_BYTE + self.charges.literal_bytes;
        fuel::charge(source + indexes).map_err(|error| describe(&error))?;
        // The library compares an undefined value without an error even in strict mode, so this code checks first.
        if let (Mode::Strict, false, Some(missing)) = (mode, self.expects_missing, &given.missing) {
            return Err(missing_error(missing));
        }
        if self.copied(given.bytes) > COPIED_BYTES_MAX {
            let message = format!("it might copy more than {} MiB to join values", COPIED_BYTES_MAX / (1024 * 1024));
            return Err(message.into());
        }
        let expression = match mode {
            Mode::Strict if !given.breaks_off => &self.strict,
            Mode::Strict | Mode::Lenient => &self.lenient,
        };
        let result = guarded(|| {
            let value = expression.eval(given.root)?;
            let on_missing = if mode == Mode::Strict { OnMissing::Reject } else { OnMissing::Null };
            let is_undefined = value.is_undefined();
            Ok((convert::from_library(&value, OUTPUT_BYTES_MAX, on_missing), is_undefined))
        });
        match (result, mode) {
            (Ok((value, false)), _) => value.map_err(EvaluationError::from),
            (Ok((_, true)), Mode::Lenient) => Ok(Value::Null),
            (Ok((_, true)), Mode::Strict) => {
                Err(given.missing.as_ref().map_or_else(|| "it is undefined".to_owned().into(), missing_error))
            }
            (Err(error), Mode::Lenient) if given.missing.is_some() || is_about_undefined(&error) => Ok(Value::Null),
            (Err(error), Mode::Lenient | Mode::Strict) => Err(match &given.missing {
                Some(missing) if is_about_undefined(&error) => missing_error(missing),
                _ => EvaluationError {
                    message: describe(&error),
                    at: error.range().map(|range| self.guards.written_position(range.start)),
                },
            }),
        }
    }
}

impl Program {
    /// The approximate maximum of bytes that its `+` and `~` may copy. A chain of them copies its beginning repeatedly.
    fn copied(&self, given: usize) -> usize {
        if self.joins == 0 {
            return 0;
        }
        let operand = given + self.source_bytes;
        // Upper case and JSON may be several times as long; the filters cut the rest.
        let filtered = operand.saturating_pow(1 + self.amplifiers).min(OUTPUT_BYTES_MAX.max(operand.saturating_mul(4)));
        let longest = if self.amplifiers > 0 { filtered } else { operand };
        longest.saturating_mul(self.joins + 1).saturating_mul(self.joins + 1)
    }
}

fn missing_error((path, at): &(String, usize)) -> EvaluationError {
    EvaluationError { message: undefined(path), at: Some(*at) }
}

pub(crate) fn undefined(path: &str) -> String {
    format!("`{path}` is undefined")
}

/// Calls the library, which has panicked on unusual slices such as `[1][0:2:-1]`.
fn guarded<T>(run: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    panic::catch_unwind(AssertUnwindSafe(run))
        .unwrap_or_else(|_| Err(Error::new(ErrorKind::InvalidOperation, "the expression cannot be computed")))
}

fn is_about_undefined(error: &Error) -> bool {
    error.kind() == ErrorKind::UndefinedError || error.detail().is_some_and(|detail| detail.contains("` is undefined"))
}

fn describe(error: &Error) -> String {
    error.detail().map_or_else(|| error.kind().to_string(), str::to_owned)
}

fn unreadable(guards: &Guards, error: &Error) -> SyntaxError {
    let at = error.range().map_or(0, |range| guards.written_position(range.start));
    SyntaxError::new(at, describe(error))
}
