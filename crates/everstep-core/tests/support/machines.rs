//! Machines for tests.

use everstep_core::definition;
use everstep_core::graph::Problem;
use everstep_core::machine::{self, Machine};
use everstep_core::workflow::Style;
use everstep_expressions::Expressions;
use serde_json::{Value, json};

use super::TestKinds;

pub(crate) fn compile_machine(definition: &Value) -> Result<Machine, Vec<Problem>> {
    machine::compile(definition, &Expressions::default())
}

/// Like `compile_machine`, for a definition that was saved before.
pub(crate) fn load_machine(definition: &Value) -> Result<Machine, Vec<Problem>> {
    machine::load(definition, &Expressions::default())
}

/// Compiles a definition of any style.
pub(crate) fn compile_definition(definition: &Value) -> Result<Style, Vec<Problem>> {
    definition::compile(definition, &TestKinds::new(), &Expressions::default())
}

/// A machine with these states and a terminal one, `closed`.
pub(crate) fn machine_with(states: &[Value]) -> Value {
    let closed = json!({"name": "closed", "terminal": true});
    json!({"states": states.iter().cloned().chain([closed]).collect::<Vec<_>>()})
}
