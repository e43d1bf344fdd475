//! Selects the branch of a condition. A comparison never fails: values that cannot be compared give false.

use std::borrow::Cow;

use regex::RegexBuilder;
use serde_json::Value;

use super::model::{Branch, Condition, Operator, Test};
use crate::evaluate::{Lookup, is_truthy};
use crate::failure::{Failure, code};
use crate::run::Cx;

/// The fuel of compiling a regular expression.
const PATTERN_FUEL: u64 = 100_000;

pub(crate) const OPERATORS: &[(&str, Operator)] = &[
    ("equals", Operator::Equals),
    ("not_equals", Operator::NotEquals),
    ("contains", Operator::Contains),
    ("not_contains", Operator::NotContains),
    ("starts_with", Operator::StartsWith),
    ("ends_with", Operator::EndsWith),
    ("greater_than", Operator::GreaterThan),
    ("less_than", Operator::LessThan),
    ("greater_or_equal", Operator::GreaterOrEqual),
    ("less_or_equal", Operator::LessOrEqual),
    ("is_empty", Operator::IsEmpty),
    ("is_not_empty", Operator::IsNotEmpty),
    ("matches_regex", Operator::MatchesRegex),
    ("expression", Operator::Expression),
];

/// The id of the first branch whose condition is true.
pub(crate) fn choose<'a>(branches: &'a [Branch], lookup: &dyn Lookup, cx: Cx<'_>) -> Result<Option<&'a str>, Failure> {
    for branch in branches {
        if holds(&branch.test, lookup, cx)? {
            return Ok(Some(&branch.id));
        }
    }
    Ok(None)
}

fn holds(test: &Test, lookup: &dyn Lookup, cx: Cx<'_>) -> Result<bool, Failure> {
    // An empty conjunction is true; an empty disjunction is false.
    let (conditions, sought) = match test {
        Test::All(conditions) => (conditions, false),
        Test::Any(conditions) => (conditions, true),
        Test::Expression(source) => return is_true(source, lookup, cx),
    };
    for condition in conditions {
        if compare(condition, lookup, cx)? == sought {
            return Ok(sought);
        }
    }
    Ok(!sought)
}

fn is_true(source: &str, lookup: &dyn Lookup, cx: Cx<'_>) -> Result<bool, Failure> {
    Ok(known(cx.expression(source, lookup))?.is_some_and(|value| is_truthy(&value)))
}

/// The value of an expression, none if it fails. One that is too costly fails the step: another branch would be taken
/// because of the size of the data.
fn known(value: Result<Value, Failure>) -> Result<Option<Value>, Failure> {
    match value {
        Err(failure) if failure.code == code::EXPRESSION_TOO_COSTLY => Err(failure),
        value => Ok(value.ok()),
    }
}

fn compare(condition: &Condition, lookup: &dyn Lookup, cx: Cx<'_>) -> Result<bool, Failure> {
    let Condition { left, operator, right } = condition;
    if *operator == Operator::Expression {
        return left.as_str().map_or(Ok(false), |source| is_true(source, lookup, cx));
    }
    let (left, right) = (known(cx.resolve_lenient(left, lookup))?, known(cx.resolve_lenient(right, lookup))?);
    let Some((left, right)) = left.zip(right) else { return Ok(false) };
    cx.meter.charge_comparison(cost(*operator, &left, &right))?;
    Ok(is_met(*operator, &left, &right))
}

/// The fuel of a comparison. Values that are not texts are written as JSON; a pattern is compiled for every comparison.
fn cost(operator: Operator, left: &Value, right: &Value) -> u64 {
    let pattern = if operator == Operator::MatchesRegex { PATTERN_FUEL + 100 * weight(right) } else { 0 };
    100 + pattern + 2 * (weight(left) + weight(right))
}

/// The approximate bytes of a value as JSON.
fn weight(value: &Value) -> u64 {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() as u64,
        Value::Array(items) => items.iter().map(|item| 8 + weight(item)).sum(),
        Value::Object(fields) => fields.iter().map(|(name, value)| 16 + name.len() as u64 + weight(value)).sum(),
    }
}

fn is_met(operator: Operator, left: &Value, right: &Value) -> bool {
    let ordered =
        |accept: fn(f64, f64) -> bool| number(left).zip(number(right)).is_some_and(|(left, right)| accept(left, right));
    match operator {
        Operator::Equals => text(left) == text(right),
        Operator::NotEquals => text(left) != text(right),
        Operator::Contains => includes(left, right),
        Operator::NotContains => !includes(left, right),
        Operator::StartsWith => text(left).starts_with(&*text(right)),
        Operator::EndsWith => text(left).ends_with(&*text(right)),
        Operator::GreaterThan => ordered(|left, right| left > right),
        Operator::LessThan => ordered(|left, right| left < right),
        Operator::GreaterOrEqual => ordered(|left, right| left >= right),
        Operator::LessOrEqual => ordered(|left, right| left <= right),
        Operator::IsEmpty => is_empty(left),
        Operator::IsNotEmpty => !is_empty(left),
        Operator::MatchesRegex => RegexBuilder::new(&text(right))
            .size_limit(1 << 20)
            .build()
            .is_ok_and(|pattern| pattern.is_match(&text(left))),
        Operator::Expression => unreachable!("an expression is not compared"),
    }
}

fn includes(whole: &Value, part: &Value) -> bool {
    match whole {
        Value::Array(items) => {
            let part = text(part);
            items.iter().any(|item| text(item) == part)
        }
        Value::Object(fields) => fields.contains_key(&*text(part)),
        Value::Null => false,
        _ => text(whole).contains(&*text(part)),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// A value as text: strings unchanged, null as the empty text, other values as JSON.
fn text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Null => Cow::Borrowed(""),
        Value::String(text) => Cow::Borrowed(text),
        Value::Number(number) => match number.as_f64() {
            // 5 and 5.0 have the same text.
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 1e15 => {
                Cow::Owned(format!("{}", float as i64))
            }
            _ => Cow::Owned(number.to_string()),
        },
        _ => Cow::Owned(value.to_string()),
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok().filter(|number: &f64| !number.is_nan()),
        Value::Bool(flag) => Some(f64::from(u8::from(*flag))),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
