//! The entrance for definitions: decides whether a definition is a graph or a machine, and compiles it.
//!
//! A definition with `nodes` is a graph, one with `states` is a machine.

use serde_json::Value;

use super::{Care, Problem, nearest};
use crate::evaluate::Evaluate;
use crate::kinds::Kinds;
use crate::style::Style;
use crate::{graph, machine};

const HINT: &str = "a graph has `nodes` and `edges`, a state machine has `states`";

/// Reads, checks and compiles a definition that is to be saved.
pub fn compile(definition: &Value, kinds: &dyn Kinds, evaluate: &dyn Evaluate) -> Result<Style, Vec<Problem>> {
    build(definition, kinds, evaluate, Care::Saving)
}

/// Compiles a definition that was saved before. Checks that apply only to new definitions are skipped.
pub fn load(definition: &Value, kinds: &dyn Kinds, evaluate: &dyn Evaluate) -> Result<Style, Vec<Problem>> {
    build(definition, kinds, evaluate, Care::Loading)
}

fn build(definition: &Value, kinds: &dyn Kinds, evaluate: &dyn Evaluate, care: Care) -> Result<Style, Vec<Problem>> {
    let has = |field: &str| definition.get(field).is_some_and(|value| !value.is_null());
    let is_machine = match (has("nodes"), has("states")) {
        (true, true) => {
            let problem = Problem::at("/states", "a definition has either `nodes` or `states`, not both");
            return Err(vec![problem.hint(HINT)]);
        }
        (false, true) => true,
        (true, false) => false,
        (false, false) => match definition.as_object() {
            Some(fields) if !has("edges") => {
                let similar = fields.keys().find_map(|field| nearest(field, ["nodes", "states"]));
                let hint = similar.map_or_else(|| HINT.to_owned(), |near| format!("did you mean {near:?}?"));
                return Err(vec![Problem::at("", "a definition needs `nodes` or `states`").hint(hint)]);
            }
            // The reader of graphs reports it.
            Some(_) | None => false,
        },
    };
    // Generated clients send null for the fields of the other style.
    let others: &[&str] = if is_machine { &["nodes", "edges", "inputSchema"] } else { &["states"] };
    let mut own = std::borrow::Cow::Borrowed(definition);
    for field in others.iter().filter(|field| definition.get(**field).is_some_and(Value::is_null)) {
        own.to_mut().as_object_mut().map(|fields| fields.remove(*field));
    }
    let definition = &*own;
    match (is_machine, care) {
        (true, Care::Saving) => machine::compile(definition, evaluate).map(Style::Machine),
        (true, Care::Loading) => machine::load(definition, evaluate).map(Style::Machine),
        (false, Care::Saving) => graph::compile(definition, kinds, evaluate).map(Style::Graph),
        (false, Care::Loading) => graph::load(definition, kinds, evaluate).map(Style::Graph),
    }
}
