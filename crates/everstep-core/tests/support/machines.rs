//! Machines for tests.

use everstep_core::graph::Problem;
use everstep_core::machine::{self, Machine};
use everstep_expressions::Expressions;
use serde_json::{Value, json};

pub(crate) fn compile_machine(definition: &Value) -> Result<Machine, Vec<Problem>> {
    machine::compile(definition, &Expressions::default())
}

/// Like `compile_machine`, for a definition that was saved before.
pub(crate) fn load_machine(definition: &Value) -> Result<Machine, Vec<Problem>> {
    machine::load(definition, &Expressions::default())
}

/// A machine with these states and a terminal one, `closed`.
pub(crate) fn machine_with(states: &[Value]) -> Value {
    let closed = json!({"name": "closed", "terminal": true});
    json!({"states": states.iter().cloned().chain([closed]).collect::<Vec<_>>()})
}
