//! Values while a rule is evaluated. Data and literals are borrowed; results are shared, so that a clone copies nothing.

use std::rc::Rc;

use serde_json::{Map, Number, Value};

use super::coerce::utf16_length;
use super::fuel::{Error, Fuel};

/// A value of an evaluation.
///
/// A number that is NaN is null: it is false, equal to null, and null as JSON. Unlike the null of the data, which counts as
/// 0, it has no order and makes every calculation with it NaN again. Otherwise a division by zero would satisfy a
/// condition such as `spent / limit < 1`.
#[derive(Clone)]
pub(super) enum Datum<'a> {
    Json(&'a Value),
    Bool(bool),
    Number(f64),
    Text(Rc<str>),
    List(Rc<List<'a>>),
    /// The data of the rule of a `reduce`: an object with the fields `current` and `accumulator`.
    Pair(Rc<Pair<'a>>),
}

pub(super) struct List<'a> {
    items: Vec<Datum<'a>>,
    /// The nesting depth of the results in it. Borrowed values do not count.
    levels: usize,
}

pub(super) struct Pair<'a> {
    current: Datum<'a>,
    accumulator: Datum<'a>,
    levels: usize,
}

/// The type and the content of a value, whether it is borrowed or a result.
pub(super) enum View<'d, 'a> {
    Null,
    Bool(bool),
    Number(f64),
    Text(&'d str),
    List(Items<'d, 'a>),
    Object,
}

/// The items of a list.
#[derive(Clone, Copy)]
pub(super) enum Items<'d, 'a> {
    Json(&'a [Value]),
    Results(&'d [Datum<'a>]),
}

/// The cost of reading one item of a list.
const ITEM_BYTES: usize = 16;

impl<'a> Datum<'a> {
    pub(super) const NULL: Self = Self::Json(&Value::Null);

    /// The result of a calculation. The infinities are NaN.
    pub(super) fn number(number: f64) -> Self {
        Self::Number(finite(number))
    }

    pub(super) fn text(text: &str) -> Self {
        Self::Text(text.into())
    }

    /// A list of results, whose bytes were charged while its items were pushed.
    pub(super) fn list(items: Vec<Self>, fuel: &Fuel) -> Result<Self, Error> {
        let levels = 1 + items.iter().map(Self::levels).max().unwrap_or(0);
        fuel.nest(levels)?;
        Ok(Self::List(Rc::new(List { items, levels })))
    }

    pub(super) fn pair(current: Self, accumulator: Self, fuel: &mut Fuel) -> Result<Self, Error> {
        fuel.write(2 * size_of::<Self>())?;
        let levels = 1 + current.levels().max(accumulator.levels());
        fuel.nest(levels)?;
        Ok(Self::Pair(Rc::new(Pair { current, accumulator, levels })))
    }

    fn levels(&self) -> usize {
        match self {
            Self::List(list) => list.levels,
            Self::Pair(pair) => pair.levels,
            Self::Json(_) | Self::Bool(_) | Self::Number(_) | Self::Text(_) => 0,
        }
    }

    pub(super) fn view(&self) -> View<'_, 'a> {
        match self {
            Self::Json(value) => match value {
                Value::Null => View::Null,
                Value::Bool(flag) => View::Bool(*flag),
                Value::Number(number) => number.as_f64().map_or(View::Null, View::Number),
                Value::String(text) => View::Text(text),
                Value::Array(items) => View::List(Items::Json(items)),
                Value::Object(_) => View::Object,
            },
            Self::Bool(flag) => View::Bool(*flag),
            Self::Number(number) if number.is_nan() => View::Null,
            Self::Number(number) => View::Number(*number),
            Self::Text(text) => View::Text(text),
            Self::List(list) => View::List(Items::Results(&list.items)),
            Self::Pair(_) => View::Object,
        }
    }

    /// The exact value of an integer, which a floating-point number may not be able to represent.
    pub(super) fn integer(&self) -> Option<i128> {
        let Self::Json(Value::Number(number)) = self else { return None };
        number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
    }

    /// Whether two lists or objects are the same value in memory: JavaScript compares them by identity.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Json(one), Self::Json(other)) => std::ptr::eq(*one, *other),
            (Self::List(one), Self::List(other)) => Rc::ptr_eq(one, other),
            (Self::Pair(one), Self::Pair(other)) => Rc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// Null, false, 0, the empty text and the empty list are false.
    pub(super) fn is_truthy(&self) -> bool {
        match self.view() {
            View::Null => false,
            View::Bool(flag) => flag,
            View::Number(number) => number != 0.0,
            View::Text(text) => !text.is_empty(),
            View::List(items) => items.len() > 0,
            View::Object => true,
        }
    }

    /// The field of an object, the item of a list, the length of a list or a text.
    pub(super) fn field(&self, name: &str, fuel: &mut Fuel) -> Result<Option<Self>, Error> {
        fuel.read(ITEM_BYTES)?;
        let found = match self {
            Self::Json(Value::Object(fields)) => {
                fuel.read(name.len())?;
                fields.get(name).map(Self::Json)
            }
            Self::Pair(pair) => match name {
                "current" => Some(pair.current.clone()),
                "accumulator" => Some(pair.accumulator.clone()),
                _ => None,
            },
            _ => match self.view() {
                View::List(items) if name == "length" => Some(Self::Number(items.len() as f64)),
                View::List(items) => {
                    fuel.read(name.len())?;
                    index(name).and_then(|index| items.get(index))
                }
                View::Text(text) if name == "length" => {
                    fuel.read(text.len())?;
                    Some(Self::Number(utf16_length(text) as f64))
                }
                View::Null | View::Bool(_) | View::Number(_) | View::Text(_) | View::Object => None,
            },
        };
        Ok(found)
    }

    /// The value as JSON.
    pub(super) fn to_json(&self, fuel: &mut Fuel) -> Result<Value, Error> {
        fuel.write(ITEM_BYTES)?;
        Ok(match self {
            Self::Json(value) => copy(value, fuel)?,
            Self::Bool(flag) => Value::Bool(*flag),
            Self::Number(number) => to_number(*number),
            Self::Text(text) => {
                fuel.write(text.len())?;
                Value::String(text.to_string())
            }
            Self::List(list) => {
                Value::Array(list.items.iter().map(|item| item.to_json(fuel)).collect::<Result<_, _>>()?)
            }
            Self::Pair(pair) => {
                let mut fields = Map::new();
                fields.insert("current".to_owned(), pair.current.to_json(fuel)?);
                fields.insert("accumulator".to_owned(), pair.accumulator.to_json(fuel)?);
                Value::Object(fields)
            }
        })
    }
}

impl<'d, 'a> Items<'d, 'a> {
    pub(super) fn len(self) -> usize {
        match self {
            Self::Json(items) => items.len(),
            Self::Results(items) => items.len(),
        }
    }

    pub(super) fn get(self, index: usize) -> Option<Datum<'a>> {
        match self {
            Self::Json(items) => items.get(index).map(Datum::Json),
            Self::Results(items) => items.get(index).cloned(),
        }
    }

    /// The items one by one, each charged when it is read.
    pub(super) fn next(self, index: &mut usize, fuel: &mut Fuel) -> Result<Option<Datum<'a>>, Error> {
        fuel.read(ITEM_BYTES)?;
        let item = self.get(*index);
        *index += 1;
        Ok(item)
    }
}

/// Adds an item to a list of results.
pub(super) fn push<'a>(items: &mut Vec<Datum<'a>>, item: Datum<'a>, fuel: &mut Fuel) -> Result<(), Error> {
    fuel.write(size_of::<Datum<'_>>())?;
    items.push(item);
    Ok(())
}

/// The position in a list that a name denotes: digits without a sign and without leading zeros.
fn index(name: &str) -> Option<usize> {
    let is_plain = name == "0" || !name.starts_with(['0', '+']);
    name.parse().ok().filter(|_| is_plain)
}

/// A number, NaN if it is infinite.
pub(super) fn finite(number: f64) -> f64 {
    if number.is_finite() { number } else { f64::NAN }
}

/// A number as JSON: whole numbers without a fraction, NaN as null.
fn to_number(number: f64) -> Value {
    /// Every whole number up to this one has an exact floating-point representation.
    const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() <= WHOLE_MAX {
        return Value::from(number as i64);
    }
    Number::from_f64(number).map_or(Value::Null, Value::Number)
}

/// A copy of a value, charged as it grows.
fn copy(value: &Value, fuel: &mut Fuel) -> Result<Value, Error> {
    Ok(match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        Value::String(text) => {
            fuel.write(text.len())?;
            value.clone()
        }
        Value::Array(items) => {
            fuel.write(items.len() * ITEM_BYTES)?;
            Value::Array(items.iter().map(|item| copy(item, fuel)).collect::<Result<_, _>>()?)
        }
        Value::Object(fields) => {
            let mut copies = Map::new();
            for (name, field) in fields {
                fuel.write(name.len() + ITEM_BYTES)?;
                copies.insert(name.clone(), copy(field, fuel)?);
            }
            Value::Object(copies)
        }
    })
}
