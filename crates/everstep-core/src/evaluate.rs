//! The port through which the core evaluates expressions. Another crate implements the language.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::failure::Failure;
use crate::meter::Meter;

/// The fields of a value that is not stored as one value, in their order.
pub type Fields<'a> = Vec<(Cow<'a, str>, Cow<'a, Value>)>;

/// The values that an expression may read. `ctx.order.total` calls `variable("order")` and reads the rest from its
/// result.
pub trait Lookup {
    /// A variable of the context as visible at this place: first those of the iteration, then outer ones. `input` is
    /// the run's input, `__node_x` is `{output, status, outputVariable}` of node `x`.
    fn variable(&self, name: &str) -> Option<Cow<'_, Value>>;
    /// The fields of a variable that is not stored as one value, such as `__node_x`: an expression that reads one of them
    /// does not copy the others. `None` for any other variable.
    fn variable_fields(&self, _name: &str) -> Option<Fields<'_>> {
        None
    }
    /// The names of all variables, without those that begin with `__`.
    fn names(&self) -> Vec<String>;
    /// The run's input.
    fn payload(&self) -> &Value;
    /// A name that exists only inside an iteration: its item or index variable, else `None`.
    fn local(&self, name: &str) -> Option<Cow<'_, Value>>;
    /// The fields of such a name that is not stored as one value, such as the event of a subscription.
    fn local_fields(&self, _name: &str) -> Option<Fields<'_>> {
        None
    }
    /// Facts about the run: `{runId, workflow, version, startedAt}`.
    fn meta(&self) -> Value;
}

/// A fault in an expression, a config or an input, with its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The place in the checked value, as a JSON pointer; empty for a plain expression.
    pub pointer: String,
    pub message: String,
}

/// A name that an expression reads, found without evaluating it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The place in the checked value, as a JSON pointer; empty for a plain expression.
    pub pointer: String,
    /// Its first name: `ctx`, `payload`, the item variable of a loop.
    pub root: String,
    /// The name after the root, unless it is missing or computed.
    pub name: Option<String>,
    /// Whether the expression has a `default`, or a test for existence, for the case that the name is missing.
    pub has_fallback: bool,
}

/// Evaluates expressions and templates.
///
/// An evaluation charges the meter for its work. One expression uses at most [`crate::limits::EXPRESSION_FUEL`], and never
/// more than the meter has left for the present part of the decision; beyond that it fails with `EXPRESSION_TOO_COSTLY`.
pub trait Evaluate: Send + Sync {
    /// Resolves every `{{ … }}` and `{"$expr": …}` inside `template`, at any depth. `{"$secret": …}` stays unchanged. A
    /// string that consists of exactly one `{{ … }}` keeps the type of its value; mixed text is a string. An undefined
    /// name is an error with the path of the name.
    fn resolve(&self, template: &Value, lookup: &dyn Lookup, meter: &Meter) -> Result<Value, Failure>;

    /// Like `resolve`, but an undefined name is null.
    fn resolve_lenient(&self, template: &Value, lookup: &dyn Lookup, meter: &Meter) -> Result<Value, Failure>;

    /// Evaluates one expression, written with or without braces. An undefined name is null.
    fn expression(&self, source: &str, lookup: &dyn Lookup, meter: &Meter) -> Result<Value, Failure>;

    /// Finds the errors in the templates inside a value, without evaluating them.
    fn check(&self, template: &Value) -> Vec<Fault>;

    /// Finds the error in one expression, without evaluating it.
    fn check_expression(&self, source: &str) -> Option<Fault>;

    /// The names that the templates inside a value read. Templates with faults have none.
    fn references(&self, template: &Value) -> Vec<Reference>;

    /// The names that one expression reads.
    fn expression_references(&self, source: &str) -> Vec<Reference>;
}

/// Whether a value counts as true: every value except null, false, 0, NaN and the empty string.
pub fn is_truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(flag) => *flag,
        Value::Number(number) => number.as_f64().is_some_and(|number| number != 0.0 && !number.is_nan()),
        Value::String(text) => !text.is_empty(),
        Value::Array(_) | Value::Object(_) => true,
    }
}
