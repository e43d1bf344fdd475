//! JSON Schema (2020-12), compiled once and then used to check many values. Pure: no clock, no I/O.
//!
//! The validator checks every keyword that it accepts. A schema with any other keyword does not compile: a keyword
//! that is accepted and not checked would have no effect.
//!
//! * [`compile`] turns a schema into numbered [`rule`]s without recursion: a schema may refer to itself.
//! * [`check`] walks a value and the rules together. Its work is bounded, so that no schema can occupy a server.

mod check;
mod compile;
mod format;
mod number;
mod pattern;
mod rule;
mod secrets;
mod words;

use serde_json::Value;

pub use check::CheckMode;
pub use compile::FaultKind;

use crate::evaluate::Fault;
use crate::limits;
use crate::payload::json_depth;
use compile::Dialect;
use rule::{Rule, RuleId};

/// A compiled schema.
#[derive(Clone, Debug)]
pub struct Schema {
    source: Value,
    rules: Vec<Rule>,
}

impl PartialEq for Schema {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl Eq for Schema {}

impl Schema {
    /// Compiles a schema that a user wrote for the input of a workflow. Pointers are relative to the schema.
    pub fn for_input(source: &Value) -> Result<Self, Vec<Fault>> {
        Self::for_context(source).map_err(|faults| faults.into_iter().map(|(_, fault)| fault).collect())
    }

    /// Compiles a schema that a user wrote for the context of a state machine. Pointers are relative to the schema.
    pub fn for_context(source: &Value) -> Result<Self, Vec<(FaultKind, Fault)>> {
        let fault = |message: String| Err(vec![(FaultKind::Invalid, Fault { pointer: String::new(), message })]);
        if !source.is_object() {
            return fault(format!("expected a JSON Schema as an object, found {}", words::found(source)));
        }
        let size = source.to_string().len();
        if size > limits::INPUT_SCHEMA_BYTES {
            return fault(format!("the schema has {size} bytes; the limit is {}", limits::INPUT_SCHEMA_BYTES));
        }
        if json_depth(source) > limits::JSON_DEPTH {
            return fault(format!("the schema is nested deeper than {} levels", limits::JSON_DEPTH));
        }
        compile::compile(source, Dialect::User)
    }

    /// Compiles a schema that this build contains.
    pub fn built_in(source: &Value) -> Self {
        compile::compile(source, Dialect::BuiltIn)
            .unwrap_or_else(|faults| panic!("the validator checks every keyword of a schema of this build: {faults:?}"))
    }

    /// The schema as it was written.
    pub fn source(&self) -> &Value {
        &self.source
    }

    /// The faults of a value. Pointers are relative to the value.
    pub fn check(&self, value: &Value, mode: CheckMode<'_>) -> Vec<Fault> {
        check::check(&self.rules, value, mode, check::STEPS_MAX)
    }

    /// The faults of the input of a run: the first one of each path.
    pub fn check_input(&self, input: &Value) -> Vec<Fault> {
        first_of_each_path(self.check(input, CheckMode::Json))
    }

    /// The faults of the context of a state machine: the first one of each path. A decision checks it, so the work is
    /// bounded more strictly.
    pub fn check_context(&self, context: &Value, mode: CheckMode<'_>) -> Vec<Fault> {
        first_of_each_path(check::check(&self.rules, context, mode, limits::CONTEXT_CHECK_STEPS))
    }

    /// The places that accept a secret, as JSON pointers: `*` is any one part, `**` any number of them.
    pub fn secret_places(&self) -> Vec<String> {
        secrets::places(&self.rules)
    }

    /// The rule of the schema itself.
    const ROOT: RuleId = RuleId(0);
}

fn first_of_each_path(mut faults: Vec<Fault>) -> Vec<Fault> {
    let mut seen = std::collections::BTreeSet::new();
    faults.retain(|fault| seen.insert(fault.pointer.clone()));
    faults
}
