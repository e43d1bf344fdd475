//! Finds actions that perform each other without end: every run that enters such a cycle would be paused.
//!
//! Only cycles without any condition are reported. A cycle with a condition may end, because each transition can change
//! the context.

use super::model::{Action, MachineState, SideEffect, SideEffectKind};
use super::problem_code as code;
use crate::definition::{Problem, escape};

/// An action in a state, by index.
type Place = (usize, usize);

pub(super) fn check(states: &[MachineState], problems: &mut Vec<Problem>) {
    let mut visits: Vec<Vec<Visit>> = states.iter().map(|state| vec![Visit::Never; state.on.len()]).collect();
    for state in 0..states.len() {
        for action in 0..states[state].on.len() {
            walk(states, (state, action), &mut visits, problems);
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Visit {
    Never,
    /// On the walk with this number.
    Current,
    Done,
}

/// Follows the actions that follow from one. Each place has at most one successor, so that a walk that meets itself has
/// found its cycle.
fn walk(states: &[MachineState], first: Place, visits: &mut [Vec<Visit>], problems: &mut Vec<Problem>) {
    let mut path = Vec::new();
    let mut place = Some(first);
    while let Some((state, action)) = place {
        match visits[state][action] {
            Visit::Done => break,
            Visit::Current => {
                let begin = path.iter().position(|known| *known == (state, action)).unwrap_or_default();
                problems.push(describe(states, &path[begin..]));
                break;
            }
            Visit::Never => {}
        }
        visits[state][action] = Visit::Current;
        path.push((state, action));
        place = successor(states, state, &states[state].on[action]);
    }
    for (state, action) in path {
        visits[state][action] = Visit::Done;
    }
}

/// The action that certainly follows an action that is performed in a state.
fn successor(states: &[MachineState], state: usize, action: &Action) -> Option<Place> {
    let [branch] = action.branches.as_slice() else { return None };
    if action.condition.is_some() || branch.condition.is_some() {
        return None;
    }
    let to = branch.to as usize;
    let entered = states.get(to)?;
    let lists = [&states[state].exit, &action.events, &branch.events, &entered.entry];
    let name = lists.into_iter().flatten().find_map(auto_action)?;
    Some((to, entered.on.iter().position(|action| action.name == name)?))
}

fn auto_action(effect: &SideEffect) -> Option<&str> {
    match &effect.kind {
        SideEffectKind::AutoAction { action, .. } => Some(action),
        SideEffectKind::Assign { .. } | SideEffectKind::Deliver(_) => None,
    }
}

fn describe(states: &[MachineState], cycle: &[Place]) -> Problem {
    let name = |(state, action): &Place| format!("{} in {}", states[*state].on[*action].name, states[*state].name);
    let mut names: Vec<_> = cycle.iter().map(name).collect();
    names.extend(cycle.first().map(name));
    names.truncate(12);
    let (state, action) = cycle.first().copied().unwrap_or_default();
    let path = format!("/states/{state}/on/{}", escape(&states[state].on[action].name));
    Problem::at(path, format!("these actions trigger each other endlessly: {}", names.join(" → ")))
        .code(code::AUTO_LOOP)
        .hint("add a condition to one of them, or remove an auto_action event")
}
