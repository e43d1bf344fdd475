//! Filters and tests that charge for their arguments before they are called.

use minijinja::functions::Function;
use minijinja::value::{FunctionArgs, FunctionResult, Rest, Value, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, State};

use crate::fuel::{self, Price, SortBy};

/// What a filter or a test reads of its arguments.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cost {
    /// It reads no more than a number or the kind of a value.
    Constant,
    /// The length of a text or of a list.
    Length,
    /// The items of a list, without what is in them, or every byte of a text.
    Items(Price),
    /// The items of a list, with everything in them, or each character of a text as an item.
    Each(Price),
    /// Everything in its arguments.
    Values(Price),
    /// The items of a list, compared with each other, or each character of a text as an item.
    Sort,
}

pub(crate) fn add_filter<F, Rv, Args>(
    environment: &mut Environment<'static>,
    name: &'static str,
    function: F,
    cost: Cost,
) where
    F: Function<Rv, Args>,
    Rv: FunctionResult,
    Args: for<'a> FunctionArgs<'a>,
{
    if matches!(cost, Cost::Constant) {
        return environment.add_filter(name, function);
    }
    let inner = inner_name(name);
    environment.add_filter(inner.clone(), function);
    environment.add_filter(name, move |state: &mut State<'_, '_>, arguments: Rest<ValueOrKwargs>| {
        let arguments = arguments.into_values();
        cost.charge(&arguments)?;
        state.apply_filter(&inner, &arguments)
    });
}

pub(crate) fn add_test<F, Rv, Args>(environment: &mut Environment<'static>, name: &'static str, function: F, cost: Cost)
where
    F: Function<Rv, Args>,
    Rv: FunctionResult,
    Args: for<'a> FunctionArgs<'a>,
{
    if matches!(cost, Cost::Constant) {
        return environment.add_test(name, function);
    }
    let inner = inner_name(name);
    environment.add_test(inner.clone(), function);
    environment.add_test(name, move |state: &mut State<'_, '_>, arguments: Rest<ValueOrKwargs>| {
        let arguments = arguments.into_values();
        cost.charge(&arguments)?;
        state.perform_test(&inner, &arguments)
    });
}

/// The name of the function itself, which users cannot write.
fn inner_name(name: &str) -> String {
    format!("__{name}")
}

impl Cost {
    fn charge(self, arguments: &[Value]) -> Result<(), Error> {
        let Some(first) = arguments.first() else { return Ok(()) };
        match self {
            Self::Constant => Ok(()),
            Self::Length => match first.kind() {
                ValueKind::String => fuel::charge_value(first, fuel::COPY, 1),
                ValueKind::Iterable if first.len().is_none() => fuel::charge_items(first, fuel::LIST, 1),
                _ => fuel::charge(fuel::COPY.item),
            },
            Self::Items(price) => fuel::charge_items(first, price, 1),
            Self::Each(price) => match first.as_str() {
                Some(text) => fuel::charge(text.len() as u64 * fuel::CHARACTER_ITEM),
                None => charge_all(arguments, price),
            },
            Self::Values(price) => charge_all(arguments, price),
            Self::Sort => {
                let has_key = |argument: &Value| argument.get_attr("attribute").is_ok_and(|name| !name.is_undefined());
                let options = arguments.iter().find(|argument| argument.is_kwargs());
                let by = if options.is_some_and(has_key) { SortBy::Keys } else { SortBy::Items };
                fuel::charge_sort(first, by)
            }
        }
    }
}

fn charge_all(arguments: &[Value], price: Price) -> Result<(), Error> {
    let mut positional = arguments.iter().filter(|argument| !argument.is_kwargs());
    positional.try_for_each(|argument| fuel::charge_value(argument, price, 1))
}
