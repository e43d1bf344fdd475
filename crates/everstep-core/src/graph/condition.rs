//! Selects the branch of a condition. A comparison never fails: values that cannot be compared give false.

use std::borrow::Cow;

use regex::RegexBuilder;
use serde_json::Value;

use super::model::{Branch, Condition, Operator, Test};
use crate::evaluate::{Evaluate, Lookup, is_truthy};

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
pub(crate) fn choose<'a>(branches: &'a [Branch], lookup: &dyn Lookup, evaluate: &dyn Evaluate) -> Option<&'a str> {
    branches.iter().find(|branch| holds(&branch.test, lookup, evaluate)).map(|branch| branch.id.as_str())
}

fn holds(test: &Test, lookup: &dyn Lookup, evaluate: &dyn Evaluate) -> bool {
    match test {
        // An empty conjunction is true; an empty disjunction is false.
        Test::All(conditions) => conditions.iter().all(|condition| compare(condition, lookup, evaluate)),
        Test::Any(conditions) => conditions.iter().any(|condition| compare(condition, lookup, evaluate)),
        Test::Expression(source) => evaluate.expression(source, lookup).is_ok_and(|value| is_truthy(&value)),
    }
}

fn compare(condition: &Condition, lookup: &dyn Lookup, evaluate: &dyn Evaluate) -> bool {
    let Condition { left, operator, right } = condition;
    if *operator == Operator::Expression {
        let Some(source) = left.as_str() else { return false };
        return evaluate.expression(source, lookup).is_ok_and(|value| is_truthy(&value));
    }
    let (Ok(left), Ok(right)) = (evaluate.resolve_lenient(left, lookup), evaluate.resolve_lenient(right, lookup))
    else {
        return false;
    };
    let ordered = |accept: fn(f64, f64) -> bool| {
        number(&left).zip(number(&right)).is_some_and(|(left, right)| accept(left, right))
    };
    match operator {
        Operator::Equals => text(&left) == text(&right),
        Operator::NotEquals => text(&left) != text(&right),
        Operator::Contains => includes(&left, &right),
        Operator::NotContains => !includes(&left, &right),
        Operator::StartsWith => text(&left).starts_with(&*text(&right)),
        Operator::EndsWith => text(&left).ends_with(&*text(&right)),
        Operator::GreaterThan => ordered(|left, right| left > right),
        Operator::LessThan => ordered(|left, right| left < right),
        Operator::GreaterOrEqual => ordered(|left, right| left >= right),
        Operator::LessOrEqual => ordered(|left, right| left <= right),
        Operator::IsEmpty => is_empty(&left),
        Operator::IsNotEmpty => !is_empty(&left),
        Operator::MatchesRegex => RegexBuilder::new(&text(&right))
            .size_limit(1 << 20)
            .build()
            .is_ok_and(|pattern| pattern.is_match(&text(&left))),
        Operator::Expression => unreachable!("handled above"),
    }
}

fn includes(whole: &Value, part: &Value) -> bool {
    match whole {
        Value::Array(items) => items.iter().any(|item| text(item) == text(part)),
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
