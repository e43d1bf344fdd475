//! A compiled expression.

use std::panic::{self, AssertUnwindSafe};

use everstep_core::evaluate::Lookup;
use minijinja::{Error, ErrorKind, Expression};
use serde_json::Value;

use crate::convert::{self, Missing};
use crate::environment::{self, Mode};
use crate::needs::Needs;
use crate::scan::{Guards, Scan, Sight};
use crate::token::Unreadable;
use crate::{COPIED_BYTES, OUTPUT_BYTES};

pub(crate) struct Program {
    strict: Expression<'static, 'static>,
    lenient: Expression<'static, 'static>,
    needs: Needs,
    guards: Guards,
    joins: usize,
    expects_missing: bool,
    amplifiers: u32,
    source_bytes: usize,
}

/// Why an expression gave nothing, and where in its source that showed.
pub(crate) struct Trouble {
    pub(crate) message: String,
    pub(crate) at: Option<usize>,
}

impl From<String> for Trouble {
    fn from(message: String) -> Self {
        Self { message, at: None }
    }
}

impl Program {
    pub(crate) fn compile(source: &str) -> Result<Self, Unreadable> {
        let scan = Scan::of(source)?;
        let compile = |mode: Mode| {
            let compiled = guarded(|| environment::environment(mode).compile_expression_owned(scan.guarded.clone()));
            compiled.map_err(|error| unreadable(&scan.guards, &error))
        };
        let (strict, lenient) = (compile(Mode::Strict)?, compile(Mode::Lenient)?);
        Ok(Self {
            strict,
            lenient,
            needs: Needs::new(scan.sights),
            guards: scan.guards,
            joins: scan.joins,
            expects_missing: scan.expects_missing,
            amplifiers: scan.amplifiers,
            source_bytes: source.len(),
        })
    }

    /// Every place that it may look at.
    pub(crate) fn sights(&self) -> &[Sight] {
        self.needs.written()
    }

    /// Runs it.
    pub(crate) fn run(&self, mode: Mode, lookup: &dyn Lookup) -> Result<Value, Trouble> {
        let given = self.needs.gather(lookup)?;
        // The library compares an undefined value without complaint even in strict mode, so we look first.
        if let (Mode::Strict, false, Some(missing)) = (mode, self.expects_missing, &given.missing) {
            return Err(missing_trouble(missing));
        }
        if self.copied(given.bytes) > COPIED_BYTES {
            let message = format!("it might copy more than {} MiB to join values", COPIED_BYTES / (1024 * 1024));
            return Err(message.into());
        }
        let expression = match mode {
            Mode::Strict if !given.breaks_off => &self.strict,
            Mode::Strict | Mode::Lenient => &self.lenient,
        };
        let result = guarded(|| {
            let value = expression.eval(given.root)?;
            let missing = if mode == Mode::Strict { Missing::Refused } else { Missing::Null };
            let is_undefined = value.is_undefined();
            Ok((convert::from_library(&value, OUTPUT_BYTES, missing), is_undefined))
        });
        match (result, mode) {
            (Ok((value, false)), _) => value.map_err(Trouble::from),
            (Ok((_, true)), Mode::Lenient) => Ok(Value::Null),
            (Ok((_, true)), Mode::Strict) => {
                Err(given.missing.as_ref().map_or_else(|| "it is undefined".to_owned().into(), missing_trouble))
            }
            (Err(error), Mode::Lenient) if given.missing.is_some() || is_about_undefined(&error) => Ok(Value::Null),
            (Err(error), Mode::Lenient | Mode::Strict) => Err(match &given.missing {
                Some(missing) if is_about_undefined(&error) => missing_trouble(missing),
                _ => Trouble {
                    message: describe(&error),
                    at: error.range().map(|range| self.guards.written_place(range.start)),
                },
            }),
        }
    }
}

impl Program {
    /// About the bytes that its `+` and `~` may copy, at most. A chain of them copies its beginning again and again.
    fn copied(&self, given: usize) -> usize {
        if self.joins == 0 {
            return 0;
        }
        let operand = given + self.source_bytes;
        // Upper case and JSON may be several times as long; what goes beyond is cut off by the filters.
        let filtered = operand.saturating_pow(1 + self.amplifiers).min(OUTPUT_BYTES.max(operand.saturating_mul(4)));
        let longest = if self.amplifiers > 0 { filtered } else { operand };
        longest.saturating_mul(self.joins + 1).saturating_mul(self.joins + 1)
    }
}

fn missing_trouble((path, at): &(String, usize)) -> Trouble {
    Trouble { message: undefined(path), at: Some(*at) }
}

pub(crate) fn undefined(path: &str) -> String {
    format!("`{path}` is undefined")
}

/// Runs the library, which has been seen to panic on odd slices such as `[1][0:2:-1]`.
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

fn unreadable(guards: &Guards, error: &Error) -> Unreadable {
    let at = error.range().map_or(0, |range| guards.written_place(range.start));
    Unreadable::new(at, describe(error))
}
