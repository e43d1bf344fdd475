//! Equality and order, as in JavaScript.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::coerce::{number, text};
use super::datum::{Datum, View};
use super::fuel::{Error, Fuel};

/// `===`. Two lists or two objects are equal only if they are the same value in memory.
pub(super) fn is_identical(one: &Datum<'_>, other: &Datum<'_>, fuel: &mut Fuel) -> Result<bool, Error> {
    Ok(match (one.view(), other.view()) {
        (View::Null, View::Null) => true,
        (View::Bool(one), View::Bool(other)) => one == other,
        (View::Number(left), View::Number(right)) => match (one.integer(), other.integer()) {
            (Some(left), Some(right)) => left == right,
            _ => left == right,
        },
        (View::Text(one), View::Text(other)) => is_equal_text(one, other, fuel)?,
        (View::List(_), View::List(_)) | (View::Object, View::Object) => one.is_same(other),
        _ => false,
    })
}

/// `==`. Values of different types are compared as numbers, or as texts if one is a list or an object.
pub(super) fn is_equal(one: &Datum<'_>, other: &Datum<'_>, fuel: &mut Fuel) -> Result<bool, Error> {
    Ok(match (one.view(), other.view()) {
        (View::Null, _) | (_, View::Null) => matches!((one.view(), other.view()), (View::Null, View::Null)),
        (View::List(_) | View::Object, View::List(_) | View::Object) => one.is_same(other),
        (View::Text(_), View::Text(_)) | (View::Number(_), View::Number(_)) | (View::Bool(_), View::Bool(_)) => {
            is_identical(one, other, fuel)?
        }
        (View::List(_) | View::Object, View::Text(right)) => is_equal_text(&text(one, fuel)?, right, fuel)?,
        (View::Text(left), View::List(_) | View::Object) => is_equal_text(left, &text(other, fuel)?, fuel)?,
        (View::Bool(_) | View::Number(_) | View::Text(_) | View::List(_) | View::Object, _) => {
            number(one, fuel)? == number(other, fuel)?
        }
    })
}

/// How two values are ordered: texts by their UTF-16 code units, everything else as numbers. NaN has no order.
pub(super) fn order(one: &Datum<'_>, other: &Datum<'_>, fuel: &mut Fuel) -> Result<Option<Ordering>, Error> {
    if let (Some(one), Some(other)) = (one.integer(), other.integer()) {
        return Ok(Some(one.cmp(&other)));
    }
    if let (Some(one), Some(other)) = (primitive_text(one, fuel)?, primitive_text(other, fuel)?) {
        fuel.read(one.len().min(other.len()))?;
        return Ok(Some(one.encode_utf16().cmp(other.encode_utf16())));
    }
    Ok(number(one, fuel)?.partial_cmp(&number(other, fuel)?))
}

/// The text of a text, a list or an object; numbers, booleans and null have none.
fn primitive_text<'d>(datum: &'d Datum<'_>, fuel: &mut Fuel) -> Result<Option<Cow<'d, str>>, Error> {
    Ok(match datum.view() {
        View::Text(_) | View::List(_) | View::Object => Some(text(datum, fuel)?),
        View::Null | View::Bool(_) | View::Number(_) => None,
    })
}

fn is_equal_text(one: &str, other: &str, fuel: &mut Fuel) -> Result<bool, Error> {
    if one.len() != other.len() {
        return Ok(false);
    }
    fuel.read(one.len())?;
    Ok(one == other)
}
