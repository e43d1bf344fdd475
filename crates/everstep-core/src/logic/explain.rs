//! Why a rule does not hold.
//!
//! 1. Of `and`, every argument that is false is explained; of `or`, every argument, because all are false.
//! 2. Of `if`, the value that was chosen; if it is a literal, the tests before it that were false.
//! 3. Of `!!`, the argument.
//! 4. Every other part is an innermost part: it is shown with the values of the variables that it reads.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::coerce::text;
use super::datum::Datum;
use super::evaluate::Evaluator;
use super::fuel::{Error, Fuel};
use super::operator::Operator;
use super::rule::{Part, RuleInput, Variable};

/// Parts that are shown of one rule.
const EXPLANATIONS_MAX: usize = 16;
/// Bytes of JSON that are shown of one value.
const VALUE_BYTES_MAX: usize = 256;

/// A part of a rule that was false.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// The part, as JSON.
    pub rule: Value,
    /// The values that it read, by their paths. A long value is its JSON, cut, as a text that ends in `…`.
    pub values: BTreeMap<String, Value>,
}

pub(super) fn explain(root: &Part, input: RuleInput<'_>, fuel: &mut Fuel) -> Vec<Explanation> {
    let mut explainer = Explainer {
        evaluator: Evaluator::new(input.variables, fuel),
        data: Datum::Json(input.context),
        found: Vec::new(),
    };
    // If the fuel is used up, the explanation contains the parts that were found before.
    match explainer.is_false(root) {
        Ok(true) => match explainer.explain(root) {
            Ok(()) | Err(Error) => explainer.found,
        },
        Ok(false) | Err(Error) => Vec::new(),
    }
}

struct Explainer<'a, 'f> {
    evaluator: Evaluator<'a, 'f>,
    data: Datum<'a>,
    found: Vec<Explanation>,
}

impl<'a> Explainer<'a, '_> {
    fn is_false(&mut self, part: &'a Part) -> Result<bool, Error> {
        Ok(!self.evaluator.evaluate(part, &self.data)?.is_truthy())
    }

    /// Adds the innermost parts of a part that is false.
    fn explain(&mut self, part: &'a Part) -> Result<(), Error> {
        match part {
            Part::Operation(Operator::And | Operator::Or, arguments) => {
                for argument in arguments {
                    if self.is_false(argument)? {
                        self.explain(argument)?;
                    }
                }
                Ok(())
            }
            Part::Operation(Operator::If, arguments) => self.explain_choice(part, arguments),
            Part::Operation(Operator::Truthy, arguments) if arguments.len() == 1 => self.explain(&arguments[0]),
            Part::Operation(..) | Part::Variable(_) | Part::List(_) | Part::Literal(_) => self.show(part),
        }
    }

    fn explain_choice(&mut self, part: &'a Part, arguments: &'a [Part]) -> Result<(), Error> {
        let mut tests = Vec::new();
        let mut chosen = None;
        for pair in arguments.chunks(2) {
            match pair {
                [test, _] if self.is_false(test)? => tests.push(test),
                [_, value] | [value] => {
                    chosen = Some(value);
                    break;
                }
                _ => {}
            }
        }
        match chosen {
            Some(value) if !matches!(value, Part::Literal(_)) => self.explain(value),
            _ if tests.is_empty() => self.show(part),
            _ => tests.into_iter().try_for_each(|test| self.explain(test)),
        }
    }

    fn show(&mut self, part: &'a Part) -> Result<(), Error> {
        if self.found.len() >= EXPLANATIONS_MAX {
            return Ok(());
        }
        let mut values = BTreeMap::new();
        self.collect(part, false, &mut values)?;
        self.found.push(Explanation { rule: part.to_json(), values });
        Ok(())
    }

    /// Adds the values of the variables in a part. In a rule that is evaluated per item, only variables of the caller
    /// (`$user`) are added: the others are read from the item.
    fn collect(&mut self, part: &'a Part, is_for_items: bool, out: &mut BTreeMap<String, Value>) -> Result<(), Error> {
        match part {
            Part::Literal(_) => Ok(()),
            Part::List(parts) => parts.iter().try_for_each(|part| self.collect(part, is_for_items, out)),
            Part::Variable(Variable { names, default, .. }) => {
                let is_visible = !is_for_items || names.first().is_some_and(|name| name.starts_with('$'));
                if is_visible {
                    let value = self.evaluator.evaluate(part, &self.data)?;
                    out.insert(names.join("."), shorten(&value, self.evaluator.fuel)?);
                }
                default.iter().try_for_each(|default| self.collect(default, is_for_items, out))
            }
            Part::Operation(operator, arguments) => {
                if let (Operator::Var, Some(path), false) = (operator, arguments.first(), is_for_items) {
                    let path = self.evaluator.evaluate(path, &self.data)?;
                    let value = self.evaluator.evaluate(part, &self.data)?;
                    let path = text(&path, self.evaluator.fuel)?.into_owned();
                    out.insert(path, shorten(&value, self.evaluator.fuel)?);
                }
                let has_items = matches!(
                    operator,
                    Operator::Map
                        | Operator::Filter
                        | Operator::Reduce
                        | Operator::All
                        | Operator::None
                        | Operator::Some
                );
                for (index, argument) in arguments.iter().enumerate() {
                    self.collect(argument, is_for_items || (has_items && index == 1), out)?;
                }
                Ok(())
            }
        }
    }
}

/// A value that is short enough to be shown. Of a long one only the bytes that are shown are written.
fn shorten(datum: &Datum<'_>, fuel: &mut Fuel) -> Result<Value, Error> {
    let Datum::Json(value) = datum else { return datum.to_json(fuel) };
    fuel.write(VALUE_BYTES_MAX)?;
    let mut beginning = Beginning(Vec::new());
    if serde_json::to_writer(&mut beginning, value).is_ok() {
        return Ok((*value).clone());
    }
    let text = String::from_utf8_lossy(&beginning.0);
    Ok(Value::String(format!("{}…", text.trim_end_matches(char::REPLACEMENT_CHARACTER))))
}

/// A writer that keeps the first bytes and rejects the rest.
struct Beginning(Vec<u8>);

impl std::io::Write for Beginning {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let room = VALUE_BYTES_MAX - self.0.len();
        self.0.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if bytes.len() > room { Err(std::io::ErrorKind::WriteZero.into()) } else { Ok(bytes.len()) }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
