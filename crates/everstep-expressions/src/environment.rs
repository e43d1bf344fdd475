//! The environment of an expression: empty, except for the filters and tests listed here.

use std::sync::LazyLock;

use minijinja::{Environment, UndefinedBehavior, filters as builtin, tests};

use crate::filters;

/// The filter that accepts only numbers, inserted after the operands of `*`. Users cannot write it.
pub(crate) const NUMBER_GUARD: &str = "__number";

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
    ($add:ident, $names:ident, $has:ident, $method:ident; $($name:literal => $function:expr,)*) => {
        fn $add(environment: &mut Environment<'static>) {
            $(environment.$method($name, $function);)*
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
    "abs" => builtin::abs,
    "bool" => builtin::bool,
    "capitalize" => builtin::capitalize,
    "count" => builtin::length,
    "d" => builtin::default,
    "default" => builtin::default,
    "first" => builtin::first,
    "float" => builtin::float,
    "int" => builtin::int,
    "items" => builtin::items,
    "join" => filters::join,
    "keys" => filters::keys,
    "last" => builtin::last,
    "length" => builtin::length,
    "list" => builtin::list,
    "lower" => builtin::lower,
    "max" => builtin::max,
    "min" => builtin::min,
    "replace" => filters::replace,
    "reverse" => builtin::reverse,
    "round" => builtin::round,
    "sort" => filters::sort,
    "split" => filters::split,
    "string" => filters::string,
    "sum" => filters::sum,
    "title" => builtin::title,
    "tojson" => filters::to_json,
    "trim" => filters::trim,
    "unique" => builtin::unique,
    "upper" => builtin::upper,
    "values" => filters::values,
}

offer! { add_tests, test_names, has_test, add_test;
    "boolean" => tests::is_boolean,
    "defined" => tests::is_defined,
    "divisibleby" => tests::is_divisibleby,
    "endingwith" => tests::is_endingwith,
    "eq" => tests::is_eq,
    "even" => tests::is_even,
    "false" => tests::is_false,
    "float" => tests::is_float,
    "ge" => tests::is_ge,
    "gt" => tests::is_gt,
    "in" => tests::is_in,
    "integer" => tests::is_integer,
    "iterable" => tests::is_iterable,
    "le" => tests::is_le,
    "lower" => tests::is_lower,
    "lt" => tests::is_lt,
    "mapping" => tests::is_mapping,
    "ne" => tests::is_ne,
    "none" => tests::is_none,
    "number" => tests::is_number,
    "odd" => tests::is_odd,
    "sequence" => tests::is_sequence,
    "startingwith" => tests::is_startingwith,
    "string" => tests::is_string,
    "true" => tests::is_true,
    "undefined" => tests::is_undefined,
    "upper" => tests::is_upper,
}

fn build(behavior: UndefinedBehavior) -> Environment<'static> {
    let mut environment = Environment::empty();
    environment.set_undefined_behavior(behavior);
    environment.set_fuel(Some(FUEL_MAX));
    // In debug mode the library names the path of an undefined value in its errors.
    environment.set_debug(true);
    environment.add_filter(NUMBER_GUARD, filters::number);
    add_filters(&mut environment);
    add_tests(&mut environment);
    environment
}
