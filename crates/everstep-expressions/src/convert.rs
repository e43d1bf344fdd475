//! Converts JSON to the library's values and back, and counts every byte.

use std::borrow::Cow;

use everstep_core::evaluate::Fields;
use everstep_core::limits::JSON_DEPTH;
use minijinja::value::ValueKind;
use serde_json::{Map, Number, Value};

use crate::fuel;

/// How a missing value inside a result is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnMissing {
    Reject,
    Null,
}

/// The approximate size of a value as JSON, and the number of values in it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Size {
    pub(crate) bytes: usize,
    values: u64,
}

impl Size {
    /// The fuel of converting a value of this size.
    pub(crate) fn fuel(self) -> u64 {
        self.values * fuel::CONVERTED_VALUE + self.bytes as u64 / fuel::CONVERTED_BYTES
    }
}

/// The size of a value. If it is longer than `most` or nested deeper than `depth`, the size is of the part that was
/// examined, so that the caller can charge for it, and the result is an error.
pub(crate) fn measure(value: &Value, most: usize, depth: usize) -> (Size, Result<(), String>) {
    let mut measure = Measure { most, left: most, values: 0 };
    let result = measure.add(value, depth);
    (measure.size(), result)
}

/// The size of an object that consists of these fields.
pub(crate) fn measure_fields(fields: &Fields<'_>, most: usize, depth: usize) -> (Size, Result<(), String>) {
    let mut measure = Measure { most, left: most, values: 1 };
    let result = measure.add_names(fields.iter().map(|(name, _)| name.len())).and_then(|()| {
        let depth = deeper(depth)?;
        fields.iter().try_for_each(|(_, value)| measure.add(value, depth))
    });
    (measure.size(), result)
}

/// A measurement in progress.
struct Measure {
    most: usize,
    left: usize,
    values: u64,
}

impl Measure {
    fn size(&self) -> Size {
        Size { bytes: self.most - self.left, values: self.values }
    }

    fn add(&mut self, value: &Value, depth: usize) -> Result<(), String> {
        self.values += 1;
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => self.spend(4),
            Value::String(text) => self.spend(text.len() + 2),
            Value::Array(items) => {
                self.spend(2)?;
                let depth = deeper(depth)?;
                items.iter().try_for_each(|item| self.add(item, depth))
            }
            Value::Object(object) => {
                self.add_names(object.keys().map(String::len))?;
                let depth = deeper(depth)?;
                object.values().try_for_each(|item| self.add(item, depth))
            }
        }
    }

    /// Adds the names of an object, of these lengths.
    fn add_names(&mut self, lengths: impl ExactSizeIterator<Item = usize>) -> Result<(), String> {
        self.values += lengths.len() as u64 * fuel::CONVERTED_FIELD_VALUES;
        self.spend(2 + lengths.map(|length| length + 4).sum::<usize>())
    }

    fn spend(&mut self, bytes: usize) -> Result<(), String> {
        spend_bytes(&mut self.left, bytes, self.most)
    }
}

/// Converts a value for the library. Call `measure` first: this function has no limit of depth.
pub(crate) fn to_library(value: &Value) -> minijinja::Value {
    match value {
        Value::Null => minijinja::Value::from(()),
        Value::Bool(flag) => minijinja::Value::from(*flag),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => minijinja::Value::from(number),
            (None, Some(number)) => minijinja::Value::from(number),
            (None, None) => minijinja::Value::from(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => minijinja::Value::from(text),
        Value::Array(items) => minijinja::Value::from(items.iter().map(to_library).collect::<Vec<_>>()),
        Value::Object(object) => {
            minijinja::Value::from_pairs(object.iter().map(|(key, value)| (key, to_library(value))))
        }
    }
}

/// Converts a value of the library to JSON. `most` bounds its bytes, including those of a lazy list.
pub(crate) fn from_library(value: &minijinja::Value, most: usize, missing: OnMissing) -> Result<Value, String> {
    let mut left = most;
    read_value(value, &mut left, most, JSON_DEPTH, missing)
}

fn read_value(
    value: &minijinja::Value,
    left: &mut usize,
    most: usize,
    depth: usize,
    missing: OnMissing,
) -> Result<Value, String> {
    let bytes = value.as_str().map_or(2, |text| text.len() + 2);
    spend_bytes(left, bytes, most)?;
    fuel::charge(fuel::CONVERTED_VALUE + bytes as u64 / fuel::CONVERTED_BYTES).map_err(|error| error.to_string())?;
    match value.kind() {
        ValueKind::Undefined if missing == OnMissing::Reject => Err("a part of it is undefined".to_owned()),
        ValueKind::Undefined | ValueKind::None => Ok(Value::Null),
        ValueKind::Bool => Ok(Value::Bool(value.is_true())),
        ValueKind::Number => number(value),
        ValueKind::String => Ok(Value::from(value.as_str().unwrap_or_default())),
        ValueKind::Seq | ValueKind::Iterable => {
            let depth = deeper(depth)?;
            let mut items = Vec::new();
            for item in value.try_iter().map_err(|error| error.to_string())? {
                items.push(read_value(&item, left, most, depth, missing)?);
            }
            Ok(Value::Array(items))
        }
        ValueKind::Map => {
            let depth = deeper(depth)?;
            let mut object = Map::new();
            for key in value.try_iter().map_err(|error| error.to_string())? {
                let item = value.get_item(&key).map_err(|error| error.to_string())?;
                let name = key.as_str().map_or_else(|| key.to_string(), str::to_owned);
                spend_bytes(left, name.len() + 4, most)?;
                let price = fuel::CONVERTED_VALUE * fuel::CONVERTED_FIELD_VALUES;
                fuel::charge(price).map_err(|error| error.to_string())?;
                object.insert(name, read_value(&item, left, most, depth, missing)?);
            }
            Ok(Value::Object(object))
        }
        kind => Err(format!("JSON cannot represent a value of type {kind}")),
    }
}

/// Integers of 64 bits stay exact, larger ones become floats.
fn number(value: &minijinja::Value) -> Result<Value, String> {
    if value.is_integer() {
        if let Ok(number) = i64::try_from(value.clone()) {
            return Ok(Value::from(number));
        }
        if let Ok(number) = u64::try_from(value.clone()) {
            return Ok(Value::from(number));
        }
    }
    let number = f64::try_from(value.clone()).or_else(|_| value.to_string().parse::<f64>());
    let number = number.map_err(|_| "this number is out of range".to_owned())?;
    Number::from_f64(number).map(Value::Number).ok_or_else(|| format!("JSON cannot represent the number {number}"))
}

/// The text of a value within mixed text.
pub(crate) fn text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Null => Cow::Borrowed(""),
        Value::String(text) => Cow::Borrowed(text),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => Cow::Owned(value.to_string()),
    }
}

pub(crate) fn too_long(most: usize) -> String {
    format!("the value is longer than {} KiB", most / 1024)
}

fn spend_bytes(left: &mut usize, bytes: usize, most: usize) -> Result<(), String> {
    *left = left.checked_sub(bytes).ok_or_else(|| too_long(most))?;
    Ok(())
}

fn deeper(depth: usize) -> Result<usize, String> {
    depth.checked_sub(1).ok_or_else(|| format!("the value is nested deeper than {JSON_DEPTH} levels"))
}
