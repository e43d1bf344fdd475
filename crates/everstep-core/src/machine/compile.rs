//! Checks a definition as a whole and compiles it. All problems are reported together.

use std::sync::Arc;

use serde_json::Value;

use super::model::{AfterEffect, Machine, MachineState};
use super::read::{self, Definition};
use super::{auto_loop, problem_code as code, stalemate};
use crate::definition::{Care, Problem, secrets};
use crate::evaluate::Evaluate;
use crate::graph::NamedSecret;

/// Reads, checks and compiles a definition that is to be saved.
pub fn compile(definition: &Value, evaluate: &dyn Evaluate) -> Result<Machine, Vec<Problem>> {
    build(definition, evaluate, Care::Saving)
}

/// Compiles a definition that was saved before. Checks that apply only to new definitions are skipped, so that a run
/// continues even if a later version of the server would reject its workflow.
pub fn load(definition: &Value, evaluate: &dyn Evaluate) -> Result<Machine, Vec<Problem>> {
    build(definition, evaluate, Care::Loading)
}

fn build(definition: &Value, evaluate: &dyn Evaluate, care: Care) -> Result<Machine, Vec<Problem>> {
    let mut problems = Vec::new();
    let definition = read::read(definition, evaluate, care, &mut problems);
    let machine = definition.and_then(|definition| assemble(definition, care, &mut problems));
    match machine {
        Some(machine) if problems.is_empty() => Ok(machine),
        _ => Err(problems),
    }
}

fn assemble(definition: Definition, care: Care, problems: &mut Vec<Problem>) -> Option<Machine> {
    check_initial(&definition, problems);
    check_names(&definition, problems);
    // Numbers of states are places in the definition only if every state could be read.
    if definition.is_whole {
        check_dead_ends(&definition, problems);
        check_reach(&definition, problems);
        if care.is_saving() {
            stalemate::check(&definition.states, problems);
            auto_loop::check(&definition.states, problems);
        }
    }
    let secrets = named_secrets(&definition);
    let Definition { states, index, actions, initial, context_schema, start, retention_days, normal, .. } = definition;
    Some(Machine {
        states,
        index,
        initial: *initial.first()?,
        actions,
        context_schema: context_schema.map(Arc::new),
        start,
        retention_days,
        secrets,
        definition: normal,
    })
}

/// The secrets that the side effects of a definition name, each with its state.
fn named_secrets(definition: &Definition) -> Vec<NamedSecret> {
    let find = |(number, state): (usize, &Value)| {
        let name = definition.states.get(number).map(|state| state.name.clone()).unwrap_or_default();
        let named = secrets::find(state).into_iter().filter_map(move |named| {
            let secret = state.pointer(&named.pointer)?.get(secrets::MARK)?.as_str()?.to_owned();
            Some(NamedSecret { name: secret, node: name.clone(), path: format!("/states/{number}{}", named.pointer) })
        });
        named.collect::<Vec<_>>()
    };
    let states = definition.normal.get("states").and_then(Value::as_array);
    states.into_iter().flatten().enumerate().flat_map(find).collect()
}

fn check_initial(definition: &Definition, problems: &mut Vec<Problem>) {
    match definition.initial.as_slice() {
        // An unreadable state may be the initial one.
        [] if definition.is_whole => problems.push(
            Problem::at("/states", "no state is marked as the initial one")
                .code(code::MACHINE_NO_INITIAL)
                .hint("add initial: true to one state"),
        ),
        [] | [_] => {}
        [_, others @ ..] => {
            for other in others {
                let problem =
                    Problem::at(format!("/states/{other}/initial"), "several states are marked as the initial one");
                problems.push(problem.code(code::MACHINE_SEVERAL_INITIAL).hint("keep initial: true in one state"));
            }
        }
    }
}

fn check_names(definition: &Definition, problems: &mut Vec<Problem>) {
    for (number, state) in (0..).zip(&definition.states) {
        let first = definition.index.get(&state.name);
        if definition.is_whole && !state.name.is_empty() && first != Some(&number) {
            let problem =
                Problem::at(format!("/states/{number}/name"), format!("two states have the name {:?}", state.name));
            problems.push(problem.code(code::MACHINE_DUPLICATE_STATE).hint("give each state a different name"));
        }
    }
}

/// Reports states in which a run would stay for ever.
fn check_dead_ends(definition: &Definition, problems: &mut Vec<Problem>) {
    for (number, state) in (0..).zip(&definition.states) {
        let leaves = state.exits().any(|to| to != number) || definition.unread.contains(&number);
        if state.is_terminal() || leaves {
            continue;
        }
        let message = match state.exits().next() {
            None => format!("no action, timer or run leaves the state {:?}", state.name),
            Some(_) => format!("all transitions of the state {:?} lead back to it", state.name),
        };
        let problem = Problem::at(format!("/states/{number}"), message);
        problems.push(problem.code(code::MACHINE_DEAD_END).hint("add an action under `on`, or terminal: true"));
    }
}

fn check_reach(definition: &Definition, problems: &mut Vec<Problem>) {
    let states = &definition.states;
    if definition.initial.is_empty() || !definition.unread.is_empty() {
        return;
    }
    let mut reached = vec![false; states.len()];
    let mut todo = definition.initial.clone();
    while let Some(number) = todo.pop() {
        if !std::mem::replace(&mut reached[number as usize], true) {
            todo.extend(states[number as usize].exits());
        }
    }
    for (number, state) in (0..).zip(states) {
        let is_duplicate = definition.index.get(&state.name) != Some(&number);
        if reached[number as usize] || is_duplicate {
            continue;
        }
        let message = format!("no transition leads from the initial state to {:?}", state.name);
        let problem = Problem::at(format!("/states/{number}"), message);
        problems.push(problem.code(code::MACHINE_UNREACHABLE_STATE).hint("add a transition to it, or remove it"));
    }
}

impl MachineState {
    /// The states that transitions lead to from this one.
    pub(super) fn exits(&self) -> impl Iterator<Item = u32> {
        let actions = self.on.iter().flat_map(|action| action.branches.iter().map(|branch| branch.to));
        let timers = self.after.iter().filter_map(|after| match after.effect {
            AfterEffect::To(to) => Some(to),
            AfterEffect::Do(_) | AfterEffect::None => None,
        });
        let run = self.run.iter().flat_map(|run| std::iter::once(run.done).chain(run.error));
        actions.chain(timers).chain(run)
    }
}
