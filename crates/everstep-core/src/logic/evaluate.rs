//! Evaluates the parts of a rule. Operators on lists are in [`lists`](super::lists), those on texts in
//! [`texts`](super::texts).

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Value;

use super::coerce::{leading_number, number, text};
use super::compare::{is_equal, is_identical, order};
use super::datum::{Datum, View, push};
use super::fuel::{Error, Fuel};
use super::operator::Operator;
use super::rule::{Part, Variable};
use super::{lists, texts};

pub(super) struct Evaluator<'a, 'f> {
    variables: &'a BTreeMap<&'static str, Value>,
    pub(super) fuel: &'f mut Fuel,
}

impl<'a, 'f> Evaluator<'a, 'f> {
    pub(super) fn new(variables: &'a BTreeMap<&'static str, Value>, fuel: &'f mut Fuel) -> Self {
        Self { variables, fuel }
    }

    /// The result of a part. `data` is the value that `var` reads: the context, or an item of a list.
    pub(super) fn evaluate(&mut self, part: &'a Part, data: &Datum<'a>) -> Result<Datum<'a>, Error> {
        self.fuel.operate()?;
        match part {
            Part::Literal(value) => Ok(Datum::Json(value)),
            Part::List(parts) => {
                let items = self.evaluate_all(parts, data)?;
                Datum::list(items, self.fuel)
            }
            Part::Variable(variable) => self.variable(variable, data),
            Part::Operation(operator, arguments) => self.operate(*operator, arguments, data),
        }
    }

    pub(super) fn evaluate_all(&mut self, parts: &'a [Part], data: &Datum<'a>) -> Result<Vec<Datum<'a>>, Error> {
        let mut items = Vec::new();
        for part in parts {
            let item = self.evaluate(part, data)?;
            push(&mut items, item, self.fuel)?;
        }
        Ok(items)
    }

    /// An argument, null if the rule does not have it.
    pub(super) fn argument(
        &mut self,
        arguments: &'a [Part],
        index: usize,
        data: &Datum<'a>,
    ) -> Result<Datum<'a>, Error> {
        arguments.get(index).map_or(Ok(Datum::NULL), |part| self.evaluate(part, data))
    }

    fn operate(&mut self, operator: Operator, arguments: &'a [Part], data: &Datum<'a>) -> Result<Datum<'a>, Error> {
        match operator {
            Operator::Var => {
                let path = self.argument(arguments, 0, data)?;
                match self.read(&path, data)? {
                    Some(found) => Ok(found),
                    None => self.argument(arguments, 1, data),
                }
            }
            Operator::Missing | Operator::MissingSome => lists::missing(self, operator, arguments, data),
            Operator::If => self.choose(arguments, data),
            Operator::Or | Operator::And => {
                let mut result = Datum::NULL;
                for part in arguments {
                    result = self.evaluate(part, data)?;
                    if result.is_truthy() == (operator == Operator::Or) {
                        break;
                    }
                }
                Ok(result)
            }
            Operator::Not => Ok(Datum::Bool(!self.argument(arguments, 0, data)?.is_truthy())),
            Operator::Truthy => Ok(Datum::Bool(self.argument(arguments, 0, data)?.is_truthy())),
            Operator::Equal | Operator::NotEqual | Operator::Identical | Operator::NotIdentical => {
                let one = self.argument(arguments, 0, data)?;
                let other = self.argument(arguments, 1, data)?;
                let is_strict = matches!(operator, Operator::Identical | Operator::NotIdentical);
                let compare = if is_strict { is_identical } else { is_equal };
                let is_negated = matches!(operator, Operator::NotEqual | Operator::NotIdentical);
                Ok(Datum::Bool(compare(&one, &other, self.fuel)? != is_negated))
            }
            Operator::Greater | Operator::GreaterOrEqual | Operator::Less | Operator::LessOrEqual => {
                self.compare(operator, arguments, data)
            }
            Operator::Max | Operator::Min | Operator::Add | Operator::Multiply => {
                self.fold_numbers(operator, arguments, data)
            }
            Operator::Subtract if arguments.len() < 2 => {
                let only = self.argument(arguments, 0, data)?;
                Ok(Datum::number(-number(&only, self.fuel)?))
            }
            Operator::Subtract | Operator::Divide | Operator::Remainder => {
                let one = self.argument(arguments, 0, data)?;
                let other = self.argument(arguments, 1, data)?;
                let (one, other) = (number(&one, self.fuel)?, number(&other, self.fuel)?);
                Ok(Datum::number(match operator {
                    Operator::Subtract => one - other,
                    Operator::Divide => one / other,
                    _ => one % other,
                }))
            }
            Operator::Map
            | Operator::Filter
            | Operator::Reduce
            | Operator::All
            | Operator::None
            | Operator::Some
            | Operator::Merge => lists::operate(self, operator, arguments, data),
            Operator::In | Operator::Cat | Operator::Substr => texts::operate(self, operator, arguments, data),
            Operator::Log => self.argument(arguments, 0, data),
        }
    }

    fn choose(&mut self, arguments: &'a [Part], data: &Datum<'a>) -> Result<Datum<'a>, Error> {
        for pair in arguments.chunks(2) {
            let [test, value] = pair else { return self.evaluate(&pair[0], data) };
            if self.evaluate(test, data)?.is_truthy() {
                return self.evaluate(value, data);
            }
        }
        Ok(Datum::NULL)
    }

    fn compare(&mut self, operator: Operator, arguments: &'a [Part], data: &Datum<'a>) -> Result<Datum<'a>, Error> {
        // All arguments are evaluated before any is compared, so that the work does not depend on their values.
        let one = self.argument(arguments, 0, data)?;
        let other = self.argument(arguments, 1, data)?;
        let third = arguments.get(2).map(|part| self.evaluate(part, data)).transpose()?;
        let mut is_ordered = |one: &Datum<'_>, other: &Datum<'_>| -> Result<bool, Error> {
            Ok(order(one, other, self.fuel)?.is_some_and(|order| match operator {
                Operator::Greater => order.is_gt(),
                Operator::GreaterOrEqual => order.is_ge(),
                Operator::Less => order.is_lt(),
                _ => order.is_le(),
            }))
        };
        let is_first_ordered = is_ordered(&one, &other)?;
        let is_second_ordered = third.map_or(Ok(true), |third| is_ordered(&other, &third))?;
        Ok(Datum::Bool(is_first_ordered && is_second_ordered))
    }

    fn fold_numbers(
        &mut self,
        operator: Operator,
        arguments: &'a [Part],
        data: &Datum<'a>,
    ) -> Result<Datum<'a>, Error> {
        // A product of one argument is the argument itself.
        if let (Operator::Multiply, [only]) = (operator, arguments) {
            return self.evaluate(only, data);
        }
        let mut result = match operator {
            Operator::Max => f64::NEG_INFINITY,
            Operator::Min => f64::INFINITY,
            Operator::Add => 0.0,
            _ => 1.0,
        };
        for part in arguments {
            let argument = self.evaluate(part, data)?;
            result = match operator {
                Operator::Add => result + leading_number(&argument, self.fuel)?,
                Operator::Multiply => result * leading_number(&argument, self.fuel)?,
                _ => {
                    let number = number(&argument, self.fuel)?;
                    match operator {
                        // One NaN makes the result NaN; `f64::max` would ignore it.
                        _ if number.is_nan() || result.is_nan() => f64::NAN,
                        Operator::Max => result.max(number),
                        _ => result.min(number),
                    }
                }
            };
        }
        Ok(Datum::number(result))
    }

    fn variable(&mut self, variable: &'a Variable, data: &Datum<'a>) -> Result<Datum<'a>, Error> {
        let found = self.walk(variable.names.iter().map(String::as_str), data)?;
        match (found, &variable.default) {
            (Some(found), _) => Ok(found),
            (None, Some(default)) => self.evaluate(default, data),
            (None, None) => Ok(Datum::NULL),
        }
    }

    /// The value at a computed path.
    pub(super) fn read(&mut self, path: &Datum<'a>, data: &Datum<'a>) -> Result<Option<Datum<'a>>, Error> {
        let path: Cow<'_, str> = match path.view() {
            View::Null => return Ok(Some(data.clone())),
            _ => text(path, self.fuel)?,
        };
        if path.is_empty() {
            return Ok(Some(data.clone()));
        }
        self.walk(path.split('.'), data)
    }

    /// Follows names from the data, or from a variable if the first is the name of one.
    fn walk<'n>(
        &mut self,
        mut names: impl Iterator<Item = &'n str> + Clone,
        data: &Datum<'a>,
    ) -> Result<Option<Datum<'a>>, Error> {
        let mut found = data.clone();
        let mut rest = names.clone();
        if let Some(variable) = rest.next().filter(|name| name.starts_with('$'))
            && let Some(value) = self.variables.get(variable)
        {
            found = Datum::Json(value);
            names = rest;
        }
        for name in names {
            let Some(next) = found.field(name, self.fuel)? else { return Ok(None) };
            found = next;
        }
        Ok(Some(found))
    }
}
