//! Counts the work of one expression, and the prices of its parts.
//!
//! A unit of fuel is about a nanosecond. The library calls filters with its own state only, so the tank is a value of the
//! thread: an evaluation begins and ends on one thread, and none is evaluated inside another.

use std::cell::Cell;

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind};

/// Fuel of an expression without its values: compiling it, and the calls of the library.
pub(crate) const EXPRESSION: u64 = 1_000;
/// Fuel per byte of the source.
pub(crate) const SOURCE_BYTE: u64 = 20;
/// Fuel of an expression that is only a path, without its value.
pub(crate) const PATH: u64 = 200;
/// Fuel per byte of the source of a path.
pub(crate) const PATH_BYTE: u64 = 5;
/// Fuel of a value that is converted between JSON and the library.
pub(crate) const CONVERTED_VALUE: u64 = 30;
/// The name and the place of a field are converted like so many values.
pub(crate) const CONVERTED_FIELD_VALUES: u64 = 3;
/// Converted bytes for one unit of fuel.
pub(crate) const CONVERTED_BYTES: u64 = 2;
/// Bytes of the inputs for one unit of fuel per index in brackets: an index of a text counts its characters.
pub(crate) const INDEXED_BYTES: u64 = 8;
/// Fuel of a part of a text that is cut.
pub(crate) const CUT_PART: u64 = 35;
/// Fuel of a character that is an item of its own.
pub(crate) const CHARACTER_ITEM: u64 = 64;
/// Fuel per byte of a text that a slice copies.
pub(crate) const SLICED_BYTE: u64 = 10;
/// Fuel of one comparison of two keys of a sort.
const KEY_COMPARISON: u64 = 40;
/// Slices that cost as much as another visit of the items.
const SLICES_PER_VISIT: u64 = 4;

/// Fuel of reading a value once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Price {
    /// Sixteenths of a unit per byte of a text.
    pub(crate) byte_16th: u64,
    /// The same for a text that is not ASCII.
    pub(crate) wide_16th: u64,
    /// Units per item of a list and per value that is not a text.
    pub(crate) item: u64,
    /// Units per field of an object.
    pub(crate) field: u64,
}

/// Copies of texts, and visits of items.
pub(crate) const COPY: Price = Price { byte_16th: 6, wide_16th: 6, item: 10, field: 10 };
/// Items that are passed over.
pub(crate) const SKIP: Price = Price { byte_16th: 6, wide_16th: 6, item: 15, field: 15 };
/// Comparisons, and searches by `in`.
pub(crate) const COMPARE: Price = Price { byte_16th: 8, wide_16th: 8, item: 60, field: 180 };
/// Searches in a text, and the hash of a key.
pub(crate) const SEARCH: Price = Price { byte_16th: 16, wide_16th: 16, item: 80, field: 180 };
/// Filters that change the case.
pub(crate) const CASE: Price = Price { byte_16th: 14, wide_16th: 96, item: 10, field: 10 };
/// Tests of the case.
pub(crate) const LETTERS: Price = Price { byte_16th: 96, wide_16th: 96, item: 10, field: 10 };
/// Filters that visit characters.
pub(crate) const CHARACTERS: Price = Price { byte_16th: 40, wide_16th: 40, item: 20, field: 20 };
/// A list of the items of another, or of the characters of a text.
pub(crate) const LIST: Price = Price { byte_16th: 520, wide_16th: 520, item: 20, field: 20 };
/// A filter that writes every character by itself.
pub(crate) const TITLE: Price = Price { byte_16th: 400, wide_16th: 400, item: 10, field: 10 };
/// Texts of lists and objects.
pub(crate) const FORMAT: Price = Price { byte_16th: 32, wide_16th: 32, item: 50, field: 200 };
/// One comparison of a sort.
const ORDER: Price = Price { byte_16th: 1, wide_16th: 1, item: 45, field: 250 };
/// The keys of a sort.
const KEYS: Price = Price { byte_16th: 14, wide_16th: 96, item: 25, field: 130 };

thread_local! {
    static TANK: Cell<Tank> = const { Cell::new(Tank { used: 0, budget: 0, laziness: 1 }) };
}

#[derive(Clone, Copy)]
struct Tank {
    used: u64,
    budget: u64,
    /// How often an item of a lazy list is visited for one visit: a slice of a slice visits its items again.
    laziness: u64,
}

/// Evaluates something with a budget. Returns the fuel that it has used, which is greater than the budget if it was
/// ended.
pub(crate) fn spend<T>(budget: u64, slices: u64, evaluate: impl FnOnce() -> T) -> (T, u64) {
    TANK.set(Tank { used: 0, budget, laziness: 1 + slices / SLICES_PER_VISIT });
    let result = evaluate();
    (result, TANK.get().used)
}

/// Charges for work that is about to be done.
pub(crate) fn charge(fuel: u64) -> Result<(), Error> {
    let mut tank = TANK.get();
    tank.used = tank.used.saturating_add(fuel);
    TANK.set(tank);
    if tank.used <= tank.budget {
        Ok(())
    } else {
        Err(Error::new(ErrorKind::OutOfFuel, "the expression is too costly"))
    }
}

/// Charges for reading a value with everything in it, a number of times.
pub(crate) fn charge_value(value: &Value, price: Price, times: u64) -> Result<(), Error> {
    if let Some(text) = value.as_str() {
        let is_wide = price.wide_16th != price.byte_16th && !text.is_ascii();
        let byte_16th = if is_wide { price.wide_16th } else { price.byte_16th };
        return charge((10 + text.len() as u64 * byte_16th / 16).saturating_mul(times));
    }
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => {
            let item_price = price.item.saturating_mul(visits(value));
            for item in value.try_iter()? {
                charge(item_price.saturating_mul(times))?;
                charge_value(&item, price, times)?;
            }
            Ok(())
        }
        ValueKind::Map => {
            charge(price.field.saturating_mul(times))?;
            for key in value.try_iter()? {
                charge(price.field.saturating_mul(times))?;
                charge_value(&key, price, times)?;
                charge_value(&value.get_item(&key)?, price, times)?;
            }
            Ok(())
        }
        _ => charge(price.item.saturating_mul(times)),
    }
}

/// Charges for visiting the items of a list, or the bytes of a text, without what is in the items.
pub(crate) fn charge_items(value: &Value, price: Price, times: u64) -> Result<(), Error> {
    if value.as_str().is_some() {
        return charge_value(value, price, times);
    }
    let mut length = value.len().map_or(0, |length| length as u64);
    if value.len().is_none() && value.kind() == ValueKind::Iterable {
        // The length of a lazy list is found by visiting it.
        for _ in value.try_iter()? {
            charge(price.item.saturating_mul(visits(value)))?;
            length += 1;
        }
    }
    charge(price.item.saturating_mul(length.max(1)).saturating_mul(visits(value)).saturating_mul(times))
}

/// Whether the items of a sort are compared as they are, or by a key of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SortBy {
    Items,
    Keys,
}

/// Charges for sorting a list, or for finding equal items in it.
pub(crate) fn charge_sort(value: &Value, by: SortBy) -> Result<(), Error> {
    let length = value.len().unwrap_or(1).max(2) as u64;
    let comparisons = 1 + u64::from(length.ilog2());
    match (value.as_str(), by) {
        (Some(text), _) => charge((text.len() as u64 * CHARACTER_ITEM).saturating_mul(comparisons)),
        (None, SortBy::Items) => charge_value(value, ORDER, comparisons),
        (None, SortBy::Keys) => {
            charge(length.saturating_mul(comparisons).saturating_mul(KEY_COMPARISON))?;
            charge_value(value, KEYS, 1)
        }
    }
}

fn visits(value: &Value) -> u64 {
    if value.kind() == ValueKind::Iterable { TANK.get().laziness } else { 1 }
}
