//! Our own filters: those that the library does not have, and those whose result would be unbounded in the library.

#![expect(clippy::needless_pass_by_value, reason = "the library passes arguments by value")]

use std::borrow::Cow;

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, State, Value, filters as builtin};

use crate::OUTPUT_BYTES_MAX;
use crate::convert;
use crate::fuel;

/// The maximum length of an argument, such as the characters of `trim` and the names of `sort`: each is compared with
/// every item.
const ARGUMENT_BYTES_MAX: usize = 256;
/// The greatest length of a character in bytes.
const CHARACTER_BYTES_MAX: u64 = 4;

/// Accepts a number.
pub(crate) fn number(value: &Value) -> Result<Value, Error> {
    match value.kind() {
        ValueKind::Number | ValueKind::Bool => Ok(value.clone()),
        ValueKind::Undefined => Err(Error::from(ErrorKind::UndefinedError)),
        kind => Err(invalid(format!("only numbers can be multiplied, and this is {kind}"))),
    }
}

/// Charges for an operand of `+`, which is copied and then compared so often.
pub(crate) fn charge_addition(value: Value, copies: u64, comparisons: u64) -> Result<Value, Error> {
    // The sum of two lists is lazy.
    fuel::charge_items(&value, fuel::COPY, copies)?;
    if comparisons > 0 {
        fuel::charge_value(&value, fuel::COMPARE, comparisons)?;
    }
    Ok(value)
}

/// Charges for an operand of `~`, whose text is copied so often.
pub(crate) fn charge_concatenation(value: Value, copies: u64) -> Result<Value, Error> {
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable | ValueKind::Map => {
            fuel::charge_value(&value, fuel::FORMAT, 1)?;
            fuel::charge_value(&value, fuel::COPY, copies)?;
        }
        _ => fuel::charge_value(&value, fuel::COPY, copies)?,
    }
    Ok(value)
}

/// Charges for a value that is compared so often.
pub(crate) fn charge_comparison(value: Value, comparisons: u64) -> Result<Value, Error> {
    fuel::charge_value(&value, fuel::COMPARE, comparisons)?;
    Ok(value)
}

/// Charges for a value that is cut so often. A slice with a literal length copies at most so many characters; the slice of
/// a list is lazy, and skips the items before it when it is read.
pub(crate) fn charge_slices(value: Value, slices: u64, characters: Option<u64>) -> Result<Value, Error> {
    fuel::charge_items(&value, fuel::SKIP, slices)?;
    if let Some(text) = value.as_str() {
        let bytes = text.len() as u64;
        let copied = characters.map_or(bytes, |characters| bytes.min(characters.saturating_mul(CHARACTER_BYTES_MAX)));
        fuel::charge(copied.saturating_mul(slices).saturating_mul(fuel::SLICED_BYTE))?;
    }
    Ok(value)
}

/// Charges for a value that is the key of an object, or an index.
pub(crate) fn charge_key(value: Value) -> Result<Value, Error> {
    fuel::charge_value(&value, fuel::SEARCH, 1)?;
    Ok(value)
}

pub(crate) fn join(
    value: &Value,
    joiner: Option<Cow<'_, str>>,
    attribute: Option<&str>,
    kwargs: Kwargs,
) -> Result<String, Error> {
    let attribute = match attribute {
        Some(attribute) => Some(attribute),
        None => kwargs.get::<Option<&str>>("attribute")?,
    };
    kwargs.assert_all_used()?;
    let joiner = joiner.unwrap_or_default();
    let mut output = String::new();
    for (index, item) in value.try_iter()?.checked().enumerate() {
        let item = match attribute {
            Some(attribute) => item?.get_attr(attribute)?,
            None => item?,
        };
        if index > 0 {
            output.push_str(&joiner);
        }
        output.push_str(&text(&item)?);
        within_output(output.len())?;
    }
    Ok(output)
}

pub(crate) fn replace(value: Cow<'_, str>, from: Cow<'_, str>, to: Cow<'_, str>) -> Result<String, Error> {
    let found = value.matches(&*from).count();
    within_output(value.len() - found * from.len() + found.saturating_mul(to.len()))?;
    Ok(value.replace(&*from, &to))
}

pub(crate) fn split(value: &Value, separator: Option<Cow<'_, str>>, most: Option<i64>) -> Result<Value, Error> {
    if value.as_str().is_none() {
        return Err(invalid(format!("only text can be split, and this is {}", value.kind())));
    }
    // Every part is a value, so many short parts use far more memory than the text.
    within_output(value.as_str().map_or(0, str::len))?;
    let parts = builtin::split(value, separator.map(Into::into), most.filter(|most| *most < i64::from(u32::MAX)))?;
    fuel::charge(parts.len().unwrap_or_default() as u64 * fuel::CUT_PART)?;
    Ok(parts)
}

pub(crate) fn trim(value: Cow<'_, str>, characters: Option<Cow<'_, str>>) -> Result<String, Error> {
    let Some(characters) = characters else {
        return Ok(value.trim().to_owned());
    };
    short(&characters)?;
    // Each character of the value may be compared with each of these.
    fuel::charge((value.len() * characters.len()) as u64 / 4)?;
    let characters: Vec<char> = characters.chars().collect();
    Ok(value.trim_matches(&characters[..]).to_owned())
}

pub(crate) fn sort(state: &State<'_, '_>, value: Value, kwargs: Kwargs) -> Result<Value, Error> {
    short(kwargs.peek::<Option<&str>>("attribute")?.unwrap_or_default())?;
    builtin::sort(state, value, kwargs)
}

/// Adds numbers. Unlike the library's filter, it begins at 0: lists of texts are joined, not added.
pub(crate) fn sum(
    state: &State<'_, '_>,
    value: Value,
    attribute: Option<&str>,
    kwargs: Kwargs,
) -> Result<Value, Error> {
    builtin::sum(state, value, attribute, Some(Value::from(0)), kwargs)
}

/// The text of a value, as in mixed text.
pub(crate) fn string(value: &Value) -> Result<String, Error> {
    text(value)
}

pub(crate) fn to_json(value: &Value) -> Result<String, Error> {
    let json = convert::from_library(value, OUTPUT_BYTES_MAX, convert::OnMissing::Reject).map_err(invalid)?;
    Ok(json.to_string())
}

pub(crate) fn keys(value: &Value) -> Result<Value, Error> {
    if value.kind() != ValueKind::Map {
        return Err(invalid(format!("only an object has keys, and this is {}", value.kind())));
    }
    Ok(value.try_iter()?.collect())
}

pub(crate) fn values(value: &Value) -> Result<Value, Error> {
    if value.kind() != ValueKind::Map {
        return Err(invalid(format!("only an object has values, and this is {}", value.kind())));
    }
    let values: Result<Vec<Value>, Error> = value.try_iter()?.map(|key| value.get_item(&key)).collect();
    values.map(Value::from)
}

fn text(value: &Value) -> Result<String, Error> {
    if value.is_undefined() {
        return Err(Error::from(ErrorKind::UndefinedError));
    }
    if let Some(text) = value.as_str() {
        within_output(text.len())?;
        return Ok(text.to_owned());
    }
    let json = convert::from_library(value, OUTPUT_BYTES_MAX, convert::OnMissing::Reject).map_err(invalid)?;
    Ok(convert::text(&json).into_owned())
}

fn short(argument: &str) -> Result<(), Error> {
    if argument.len() <= ARGUMENT_BYTES_MAX { Ok(()) } else { Err(invalid("this argument is too long")) }
}

fn within_output(bytes: usize) -> Result<(), Error> {
    if bytes <= OUTPUT_BYTES_MAX { Ok(()) } else { Err(invalid(convert::too_long(OUTPUT_BYTES_MAX))) }
}

fn invalid(message: impl Into<Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}
