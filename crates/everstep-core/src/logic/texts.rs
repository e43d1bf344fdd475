//! Operators on texts.

use super::coerce::{append, number, text};
use super::compare::is_identical;
use super::datum::{Datum, View};
use super::evaluate::Evaluator;
use super::fuel::{Error, Fuel};
use super::operator::Operator;
use super::rule::Part;

/// `in`, `cat` and `substr`.
pub(super) fn operate<'a>(
    evaluator: &mut Evaluator<'a, '_>,
    operator: Operator,
    arguments: &'a [Part],
    data: &Datum<'a>,
) -> Result<Datum<'a>, Error> {
    if operator == Operator::Cat {
        let mut out = String::new();
        for part in arguments {
            let argument = evaluator.evaluate(part, data)?;
            append(&argument, &mut out, evaluator.fuel)?;
        }
        return Ok(Datum::text(&out));
    }
    let first = evaluator.argument(arguments, 0, data)?;
    let second = evaluator.argument(arguments, 1, data)?;
    if operator == Operator::In {
        return Ok(Datum::Bool(is_in(&first, &second, evaluator.fuel)?));
    }
    let length = arguments.get(2).map(|part| evaluator.evaluate(part, data)).transpose()?;
    substr(&first, &second, length.as_ref(), evaluator.fuel)
}

/// Whether a list has an item, or a text contains another.
fn is_in(part: &Datum<'_>, whole: &Datum<'_>, fuel: &mut Fuel) -> Result<bool, Error> {
    match whole.view() {
        View::Text(whole) => {
            let part = text(part, fuel)?;
            fuel.read(whole.len() + part.len())?;
            Ok(!whole.is_empty() && whole.contains(&*part))
        }
        View::List(items) => {
            let mut index = 0;
            while let Some(item) = items.next(&mut index, fuel)? {
                if is_identical(part, &item, fuel)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        View::Null | View::Bool(_) | View::Number(_) | View::Object => Ok(false),
    }
}

/// A part of a text, in UTF-16 code units. A negative length counts from the end, as in PHP.
fn substr<'a>(
    source: &Datum<'a>,
    start: &Datum<'a>,
    length: Option<&Datum<'a>>,
    fuel: &mut Fuel,
) -> Result<Datum<'a>, Error> {
    let source = text(source, fuel)?;
    // Twice the bytes: the text is copied in units of two bytes.
    fuel.read(2 * source.len())?;
    let units: Vec<u16> = source.encode_utf16().collect();
    let start = whole(number(start, fuel)?);
    let begin = if start < 0.0 { (units.len() as f64 + start).max(0.0) } else { start.min(units.len() as f64) };
    let rest = &units[begin as usize..];
    let count = match length {
        None => rest.len() as f64,
        Some(length) => match whole(number(length, fuel)?) {
            length if length < 0.0 => (rest.len() as f64 + length).max(0.0),
            length => length.min(rest.len() as f64),
        },
    };
    let part = String::from_utf16_lossy(&rest[..count as usize]);
    fuel.write(part.len())?;
    Ok(Datum::text(&part))
}

/// A number without its fraction; NaN is 0.
fn whole(number: f64) -> f64 {
    if number.is_nan() { 0.0 } else { number.trunc() }
}
