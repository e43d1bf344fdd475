//! The environment of an expression: empty, except for the filters and tests listed here.

use std::sync::LazyLock;

use minijinja::{Environment, UndefinedBehavior, filters as builtin, tests};

use crate::filters;
use crate::fuel::{CASE, CHARACTERS, COMPARE, COPY, FORMAT, LETTERS, LIST, SEARCH, TITLE};
use crate::metered::{self, Cost};

/// The filter that accepts only numbers, inserted after the operands of `*`. Users cannot write it, nor the next ones.
pub(crate) const NUMBER_GUARD: &str = "__number";
/// The filters that charge for a value and return it, inserted before operators read it.
pub(crate) const ADD_GUARD: &str = "__add";
pub(crate) const CONCAT_GUARD: &str = "__concat";
pub(crate) const COMPARE_GUARD: &str = "__compare";
pub(crate) const SLICE_GUARD: &str = "__slice";
pub(crate) const KEY_GUARD: &str = "__key";

/// Instructions that the library executes for one expression.
const FUEL_MAX: u64 = 50_000;

/// How a missing value is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// It is an error with the path.
    Strict,
    /// It is null.
    Lenient,
}

pub(crate) fn environment(mode: Mode) -> &'static Environment<'static> {
    static STRICT: LazyLock<Environment<'static>> = LazyLock::new(|| build(UndefinedBehavior::Strict));
    static LENIENT: LazyLock<Environment<'static>> = LazyLock::new(|| build(UndefinedBehavior::Chainable));
    match mode {
        Mode::Strict => &STRICT,
        Mode::Lenient => &LENIENT,
    }
}

macro_rules! offer {
    ($add:ident, $names:ident, $has:ident, $method:ident; $($name:literal => $function:expr, $cost:expr;)*) => {
        fn $add(environment: &mut Environment<'static>) {
            $(metered::$method(environment, $name, $function, $cost);)*
        }

        pub(crate) fn $names() -> &'static [&'static str] {
            &[$($name,)*]
        }

        pub(crate) fn $has(name: &str) -> bool {
            $names().contains(&name)
        }
    };
}

offer! { add_filters, filter_names, has_filter, add_filter;
    "abs" => builtin::abs, Cost::Constant;
    "bool" => builtin::bool, Cost::Constant;
    "capitalize" => builtin::capitalize, Cost::Values(CASE);
    "count" => builtin::length, Cost::Length;
    "d" => builtin::default, Cost::Constant;
    "default" => builtin::default, Cost::Constant;
    "first" => builtin::first, Cost::Length;
    "float" => builtin::float, Cost::Values(COPY);
    "int" => builtin::int, Cost::Values(COPY);
    "items" => builtin::items, Cost::Items(FORMAT);
    "join" => filters::join, Cost::Each(FORMAT);
    "keys" => filters::keys, Cost::Items(FORMAT);
    "last" => builtin::last, Cost::Length;
    "length" => builtin::length, Cost::Length;
    "list" => builtin::list, Cost::Items(LIST);
    "lower" => builtin::lower, Cost::Values(CASE);
    "max" => builtin::max, Cost::Each(COMPARE);
    "min" => builtin::min, Cost::Each(COMPARE);
    "replace" => filters::replace, Cost::Values(CHARACTERS);
    "reverse" => builtin::reverse, Cost::Items(CHARACTERS);
    "round" => builtin::round, Cost::Constant;
    "sort" => filters::sort, Cost::Sort;
    "split" => filters::split, Cost::Values(CHARACTERS);
    "string" => filters::string, Cost::Values(FORMAT);
    "sum" => filters::sum, Cost::Items(FORMAT);
    "title" => builtin::title, Cost::Values(TITLE);
    "tojson" => filters::to_json, Cost::Values(FORMAT);
    "trim" => filters::trim, Cost::Values(CHARACTERS);
    "unique" => builtin::unique, Cost::Sort;
    "upper" => builtin::upper, Cost::Values(CASE);
    "values" => filters::values, Cost::Items(FORMAT);
}

offer! { add_tests, test_names, has_test, add_test;
    "boolean" => tests::is_boolean, Cost::Constant;
    "defined" => tests::is_defined, Cost::Constant;
    "divisibleby" => tests::is_divisibleby, Cost::Constant;
    "endingwith" => tests::is_endingwith, Cost::Values(COPY);
    "eq" => tests::is_eq, Cost::Values(COMPARE);
    "even" => tests::is_even, Cost::Constant;
    "false" => tests::is_false, Cost::Constant;
    "float" => tests::is_float, Cost::Constant;
    "ge" => tests::is_ge, Cost::Values(COMPARE);
    "gt" => tests::is_gt, Cost::Values(COMPARE);
    "in" => tests::is_in, Cost::Values(SEARCH);
    "integer" => tests::is_integer, Cost::Constant;
    "iterable" => tests::is_iterable, Cost::Constant;
    "le" => tests::is_le, Cost::Values(COMPARE);
    "lower" => tests::is_lower, Cost::Values(LETTERS);
    "lt" => tests::is_lt, Cost::Values(COMPARE);
    "mapping" => tests::is_mapping, Cost::Constant;
    "ne" => tests::is_ne, Cost::Values(COMPARE);
    "none" => tests::is_none, Cost::Constant;
    "number" => tests::is_number, Cost::Constant;
    "odd" => tests::is_odd, Cost::Constant;
    "sequence" => tests::is_sequence, Cost::Constant;
    "startingwith" => tests::is_startingwith, Cost::Values(COPY);
    "string" => tests::is_string, Cost::Constant;
    "true" => tests::is_true, Cost::Constant;
    "undefined" => tests::is_undefined, Cost::Constant;
    "upper" => tests::is_upper, Cost::Values(LETTERS);
}

fn build(behavior: UndefinedBehavior) -> Environment<'static> {
    let mut environment = Environment::empty();
    environment.set_undefined_behavior(behavior);
    environment.set_fuel(Some(FUEL_MAX));
    // In debug mode the library names the path of an undefined value in its errors.
    environment.set_debug(true);
    environment.add_filter(NUMBER_GUARD, filters::number);
    environment.add_filter(ADD_GUARD, filters::charge_addition);
    environment.add_filter(CONCAT_GUARD, filters::charge_concatenation);
    environment.add_filter(COMPARE_GUARD, filters::charge_comparison);
    environment.add_filter(SLICE_GUARD, filters::charge_slices);
    environment.add_filter(KEY_GUARD, filters::charge_key);
    add_filters(&mut environment);
    add_tests(&mut environment);
    environment
}
