//! Operators on lists.

use super::coerce::number;
use super::datum::{Datum, View, push};
use super::evaluate::Evaluator;
use super::fuel::Error;
use super::operator::Operator;
use super::rule::Part;

/// `map`, `filter`, `reduce`, `all`, `none`, `some` and `merge`. A value that is not a list has no items.
pub(super) fn operate<'a>(
    evaluator: &mut Evaluator<'a, '_>,
    operator: Operator,
    arguments: &'a [Part],
    data: &Datum<'a>,
) -> Result<Datum<'a>, Error> {
    if operator == Operator::Merge {
        return merge(evaluator, arguments, data);
    }
    let list = evaluator.argument(arguments, 0, data)?;
    if operator == Operator::Reduce {
        let initial = evaluator.argument(arguments, 2, data)?;
        return reduce(evaluator, &list, arguments, initial);
    }
    let mut results = Vec::new();
    let mut index = 0;
    if let View::List(items) = list.view() {
        while let Some(item) = items.next(&mut index, evaluator.fuel)? {
            let result = evaluator.argument(arguments, 1, &item)?;
            match operator {
                Operator::Map => push(&mut results, result, evaluator.fuel)?,
                Operator::Filter if result.is_truthy() => push(&mut results, item, evaluator.fuel)?,
                Operator::All if !result.is_truthy() => return Ok(Datum::Bool(false)),
                Operator::None if result.is_truthy() => return Ok(Datum::Bool(false)),
                Operator::Some if result.is_truthy() => return Ok(Datum::Bool(true)),
                _ => {}
            }
        }
    }
    match operator {
        // Every item was true, and there was at least one: the last read found the end of the list.
        Operator::All => Ok(Datum::Bool(index > 1)),
        Operator::None => Ok(Datum::Bool(true)),
        Operator::Some => Ok(Datum::Bool(false)),
        _ => Datum::list(results, evaluator.fuel),
    }
}

fn reduce<'a>(
    evaluator: &mut Evaluator<'a, '_>,
    list: &Datum<'a>,
    arguments: &'a [Part],
    initial: Datum<'a>,
) -> Result<Datum<'a>, Error> {
    let View::List(items) = list.view() else { return Ok(initial) };
    let (mut accumulator, mut index) = (initial, 0);
    while let Some(current) = items.next(&mut index, evaluator.fuel)? {
        let pair = Datum::pair(current, accumulator, evaluator.fuel)?;
        accumulator = evaluator.argument(arguments, 1, &pair)?;
    }
    Ok(accumulator)
}

fn merge<'a>(evaluator: &mut Evaluator<'a, '_>, arguments: &'a [Part], data: &Datum<'a>) -> Result<Datum<'a>, Error> {
    let mut merged = Vec::new();
    for part in arguments {
        let argument = evaluator.evaluate(part, data)?;
        let View::List(items) = argument.view() else {
            push(&mut merged, argument, evaluator.fuel)?;
            continue;
        };
        let mut index = 0;
        while let Some(item) = items.next(&mut index, evaluator.fuel)? {
            push(&mut merged, item, evaluator.fuel)?;
        }
    }
    Datum::list(merged, evaluator.fuel)
}

/// `missing` and `missing_some`: the paths that have no value.
pub(super) fn missing<'a>(
    evaluator: &mut Evaluator<'a, '_>,
    operator: Operator,
    arguments: &'a [Part],
    data: &Datum<'a>,
) -> Result<Datum<'a>, Error> {
    let (needed, arguments) = match (operator, arguments) {
        (Operator::MissingSome, [needed, rest @ ..]) => (Some(evaluator.evaluate(needed, data)?), rest),
        _ => (None, arguments),
    };
    let mut paths = evaluator.evaluate_all(arguments, data)?;
    // One list of paths is equivalent to the paths in it.
    if let Some(View::List(items)) = paths.first().map(Datum::view) {
        let (mut listed, mut index) = (Vec::new(), 0);
        while let Some(path) = items.next(&mut index, evaluator.fuel)? {
            push(&mut listed, path, evaluator.fuel)?;
        }
        paths = listed;
    }
    let count = paths.len();
    let mut missing = Vec::new();
    for path in paths {
        evaluator.fuel.operate()?;
        let found = evaluator.read(&path, data)?.unwrap_or(Datum::NULL);
        if matches!(found.view(), View::Null | View::Text("")) {
            push(&mut missing, path, evaluator.fuel)?;
        }
    }
    if let Some(needed) = needed
        && (count - missing.len()) as f64 >= number(&needed, evaluator.fuel)?
    {
        missing.clear();
    }
    Datum::list(missing, evaluator.fuel)
}
