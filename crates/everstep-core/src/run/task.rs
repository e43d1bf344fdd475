//! What a task asks of its handler.

use std::time::Duration;

use serde_json::Value;

use crate::evaluate::Evaluate;
use crate::failure::{Failure, code};
use crate::graph::{Kind, Place, View};
use crate::ids::StepKey;
use crate::payload::Payload;
use crate::run::State;
use crate::workflow::Workflow;

/// An open task, with everything that its handler needs to know.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskSpec {
    pub kind: String,
    /// Resolved, but for the kind's raw fields.
    pub config: Value,
    /// Where in the config the definition names secrets, as JSON pointers.
    pub secrets: Vec<String>,
    pub context: Payload,
    pub timeout: Option<Duration>,
}

/// Describes an open task. An expression that fails is the task's failure.
pub fn describe(
    workflow: &Workflow,
    state: &State,
    step: &StepKey,
    evaluate: &dyn Evaluate,
) -> Result<TaskSpec, Failure> {
    let graph = workflow.graph();
    let unknown = || Failure::fatal(code::UNKNOWN_KIND, format!("{step} is not a task of this workflow"));
    let place = Place::find(graph, step).ok_or_else(unknown)?;
    let node = graph.node(place.node);
    let Kind::Task { kind, config, secrets, raw_fields, needs_context } = &node.kind else { return Err(unknown()) };
    let view = View::new(workflow, state, &place.path);
    let config = match config {
        Value::Object(fields) => {
            let mut resolved = serde_json::Map::with_capacity(fields.len());
            for (field, value) in fields {
                let value = if raw_fields.contains(field) { value.clone() } else { evaluate.resolve(value, &view)? };
                resolved.insert(field.clone(), value);
            }
            Value::Object(resolved)
        }
        other => other.clone(),
    };
    let context = if *needs_context {
        let names_nodes = config.as_object().is_some_and(|fields| {
            raw_fields.iter().filter_map(|field| fields.get(field)?.as_str()).any(|code| code.contains("__node_"))
        });
        view.document(names_nodes)
    } else {
        Payload::null()
    };
    Ok(TaskSpec { kind: kind.clone(), config, secrets: secrets.clone(), context, timeout: node.timeout })
}
