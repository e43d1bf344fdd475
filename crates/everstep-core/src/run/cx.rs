//! The values that a decision receives from outside the run.

use serde_json::Value;

use crate::evaluate::{Evaluate, Lookup};
use crate::failure::Failure;
use crate::meter::Meter;
use crate::time::Timestamp;

/// The time of a decision, the evaluator of its expressions, and the meter of its work.
#[derive(Clone, Copy)]
pub struct Cx<'a> {
    pub now: Timestamp,
    pub evaluate: &'a dyn Evaluate,
    pub meter: &'a Meter,
}

impl Cx<'_> {
    /// Resolves a template, and charges the meter.
    pub(crate) fn resolve(&self, template: &Value, lookup: &dyn Lookup) -> Result<Value, Failure> {
        self.evaluate.resolve(template, lookup, self.meter)
    }

    /// Resolves a template in which an undefined name is null, and charges the meter.
    pub(crate) fn resolve_lenient(&self, template: &Value, lookup: &dyn Lookup) -> Result<Value, Failure> {
        self.evaluate.resolve_lenient(template, lookup, self.meter)
    }

    /// Evaluates an expression in which an undefined name is null, and charges the meter.
    pub(crate) fn expression(&self, source: &str, lookup: &dyn Lookup) -> Result<Value, Failure> {
        self.evaluate.expression(source, lookup, self.meter)
    }
}
