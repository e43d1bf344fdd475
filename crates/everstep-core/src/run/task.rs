//! The description of a task for its handler.

use std::time::Duration;

use serde_json::Value;

use super::State;
use crate::evaluate::Evaluate;
use crate::failure::{Failure, code};
use crate::ids::StepKey;
use crate::meter::Meter;
use crate::payload::Payload;
use crate::style;
use crate::workflow::Workflow;

/// An open task, with everything that its handler needs.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskSpec {
    pub kind: String,
    /// Resolved, except for the raw fields of the kind.
    pub config: Value,
    /// The places in the config where the definition names secrets, as JSON pointers.
    pub secrets: Vec<String>,
    /// The config as the definition has it, if it names secrets; else null. A handler compares the two before it sends
    /// a secret.
    pub written: Value,
    pub context: Payload,
    pub timeout: Option<Duration>,
}

/// The config of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct StepConfig {
    /// As the definition has it.
    pub written: Value,
    /// As the step received it; none if an expression in it fails.
    pub evaluated: Option<Value>,
}

/// What a definition says about a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitFacts<'w> {
    /// Whether a person decides: the signal contains `approved`.
    pub is_approval: bool,
    /// The name of the step, for people.
    pub title: Option<&'w str>,
}

impl TaskSpec {
    /// The failure of a task that the workflow does not contain.
    pub(crate) fn unknown(step: &StepKey) -> Failure {
        Failure::fatal(code::UNKNOWN_KIND, format!("{step} is not a task of this workflow"))
    }
}

/// What the definition says about the wait of a step; none for a style without definitions of waits.
pub fn wait_facts<'w>(workflow: &'w Workflow, step: &StepKey) -> Option<WaitFacts<'w>> {
    style::wait_facts(workflow, step)
}

/// The config of a step, evaluated in the state that its dispatch has left. Secrets stay unresolved. None if the style
/// has no configs, or the workflow no such step.
pub fn describe_config(
    workflow: &Workflow,
    state: &State,
    step: &StepKey,
    evaluate: &dyn Evaluate,
    meter: &Meter,
) -> Option<StepConfig> {
    style::describe_config(workflow, state, step, evaluate, meter)
}

/// Describes an open task. If an expression fails, that is the failure of the task.
pub fn describe(
    workflow: &Workflow,
    state: &State,
    step: &StepKey,
    evaluate: &dyn Evaluate,
    meter: &Meter,
) -> Result<TaskSpec, Failure> {
    style::describe_task(workflow, state, step, evaluate, meter)
}
