//! Decides who may act. This is the only place that does: no owner and no administrator has another way.
//!
//! 1. `require.role`, `require.user` and `require.assigned` are alternatives; one of them suffices. A requirement
//!    without any of them admits every caller.
//! 2. A role that the role map does not know, and `__assigned__`, mean the persons to whom the state is assigned.
//! 3. `require.notBy` then excludes the actors that started or forked the run, and those that performed an action in it.
//! 4. A part of the server sends no requests.
//! 5. If an action has a quorum with voters, only they may perform it, in addition to the rules above.
//!
//! Templates of `require.user` read the context before the data of the request is merged, so that a request cannot
//! name its own sender.

use serde_json::Value;

use super::Rights;
use super::context::MachineContext;
use super::model::{Action, Machine, Requirement};
use super::progress::Progress;
use super::quorum;
use super::run::MachineRun;
use crate::actor::{Actor, ActorKind};
use crate::evaluate::Lookup;
use crate::payload::Payload;
use crate::planted::{self, Bug};
use crate::run::{Cx, State};
use crate::workflow::Workflow;

/// The role that means the persons to whom the state is assigned.
const ASSIGNED_ROLE: &str = "__assigned__";
/// The name of the start in `notBy`.
const START: &str = "@start";

/// A caller that may not act.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Denial {
    pub(super) message: String,
    /// The roles and names that may act, as the definition has them; nothing of the run.
    pub(super) required: Vec<String>,
}

/// Whether a caller may perform an action of the present state.
pub(super) fn authorize(
    run: MachineRun<'_>,
    action: &Action,
    by: &Actor,
    rights: &Rights,
    cx: Cx<'_>,
) -> Result<(), Denial> {
    let Some(place) = &run.progress.place else { return Err(Denial::new(action, "the run has no state yet")) };
    if by.kind == ActorKind::System {
        return Err(Denial::new(action, "a part of the server sends no requests"));
    }
    if let Some(require) = &action.require {
        let lookup = MachineContext::new(run, run.progress.context.value(), Some(&action.name), &Value::Null, cx);
        let is_assigned = place.assigned.iter().any(|name| by.is_named(name));
        if !admits(require, by, rights, is_assigned, &lookup, cx) {
            return Err(Denial::new(action, "your roles, your name and your assignments do not meet its `require`"));
        }
        let performed = |name: &String| match name.as_str() {
            START => is_starter(run.state, by),
            name => run.progress.performed.get(name).is_some_and(|actors| actors.contains(by)),
        };
        if let Some(name) = require.not_by.iter().find(|name| performed(name)) {
            let reason = match name.as_str() {
                START if run.state.started_by() == Some(by) => {
                    "you started this run, and `notBy` excludes the person who started it".to_owned()
                }
                START => "you forked this run, and `notBy` excludes the person who started it or forked it".to_owned(),
                name => format!("you performed {name} in this run, and the same person may not do both"),
            };
            return Err(Denial::new(action, &reason));
        }
    }
    let resolved = if planted::is_planted(Bug::VotersResolvedAgain) { voters_now(run, action, cx) } else { None };
    let frozen = place.ballots.get(&action.name).and_then(|ballot| ballot.of.as_ref());
    if resolved.as_ref().or(frozen).is_some_and(|voters| !voters.iter().any(|voter| by.is_named(voter))) {
        return Err(Denial::new(action, "you are not among its voters"));
    }
    Ok(())
}

/// The planted bug: the voters of an action by the present context.
#[cold]
fn voters_now(run: MachineRun<'_>, action: &Action, cx: Cx<'_>) -> Option<Vec<String>> {
    let lookup = MachineContext::new(run, run.progress.context.value(), Some(&action.name), &Value::Null, cx);
    quorum::resolve(&action.name, action.quorum.as_ref()?, &lookup, cx).ok()?.of
}

/// Rule 1 and 2.
fn admits(
    require: &Requirement,
    by: &Actor,
    rights: &Rights,
    is_assigned: bool,
    lookup: &dyn Lookup,
    cx: Cx<'_>,
) -> bool {
    if require.roles.is_empty() && require.users.is_empty() && !require.is_assigned {
        return true;
    }
    let has_role = |role: &String| match role != ASSIGNED_ROLE && rights.known.contains(role) {
        true => rights.granted.contains(role),
        false => is_assigned,
    };
    let is_user = |template: &Value| match cx.resolve_lenient(template, lookup) {
        Ok(Value::Array(names)) => names.iter().any(|name| is_name_of(name, by)),
        Ok(name) => is_name_of(&name, by),
        // A name that cannot be evaluated admits no one.
        Err(_) => false,
    };
    require.roles.iter().any(has_role) || require.is_assigned && is_assigned || require.users.iter().any(is_user)
}

fn is_name_of(name: &Value, by: &Actor) -> bool {
    match name {
        Value::String(name) => by.is_named(name),
        Value::Number(number) => by.is_named(&number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => false,
    }
}

impl Denial {
    fn new(action: &Action, reason: &str) -> Self {
        Self { message: format!("you may not perform {}: {reason}", action.name), required: required(action) }
    }
}

/// The requirements of an action, as the definition has them: those who may perform it, and those who may not.
pub(super) fn required(action: &Action) -> Vec<String> {
    let excluded = action.require.iter().flat_map(|require| &require.not_by).map(|name| format!("not by {name}"));
    admitted(action, defined_users).into_iter().chain(excluded).collect()
}

/// The roles and names that may perform an action; `users` describes a template of `require.user`.
pub(super) fn admitted(action: &Action, users: impl Fn(&Value) -> Vec<String>) -> Vec<String> {
    let mut required = action.require.as_ref().map(|require| requirement_names(require, users)).unwrap_or_default();
    if action.quorum.as_ref().is_some_and(|quorum| quorum.voters.is_some()) {
        required.push("voters".to_owned());
    }
    required
}

fn requirement_names(require: &Requirement, users: impl Fn(&Value) -> Vec<String>) -> Vec<String> {
    let is_role = |role: &&String| *role != ASSIGNED_ROLE;
    let mut names: Vec<_> = require.roles.iter().filter(is_role).cloned().collect();
    if require.is_assigned || require.roles.iter().any(|role| role == ASSIGNED_ROLE) {
        names.push("assigned".to_owned());
    }
    names.extend(require.users.iter().flat_map(users));
    names
}

/// The users of a template, as the definition has them.
fn defined_users(template: &Value) -> Vec<String> {
    texts(template).into_iter().map(|user| format!("user {user}")).collect()
}

/// The texts of a template: a name, or a list of names.
fn texts(template: &Value) -> Vec<String> {
    match template {
        Value::String(text) => vec![text.clone()],
        Value::Array(items) => items.iter().flat_map(texts).collect(),
        other => vec![other.to_string()],
    }
}

/// Whether a caller may start a run of a machine with this input. Without `start.require`, the callers that may manage
/// runs.
pub fn may_start(machine: &Machine, by: &Actor, rights: &Rights, input: &Payload, cx: Cx<'_>) -> bool {
    match &machine.start {
        None => rights.can_manage,
        Some(require) => {
            let lookup = MachineContext::from_input(input.value());
            admits(require, by, rights, false, &lookup, cx)
        }
    }
}

/// The roles and names that may start a run of a machine, as the definition has them; empty if it does not name them.
pub fn required_to_start(machine: &Machine) -> Vec<String> {
    machine.start.as_ref().map(|require| requirement_names(require, defined_users)).unwrap_or_default()
}

/// The roles and names that may perform an action of the present state, as the definition has them; nothing of the run.
pub fn required_to_act(workflow: &Workflow, state: &State, action: &str) -> Vec<String> {
    let place = MachineRun::find(workflow, state).and_then(MachineRun::place);
    let found = place.and_then(|(_, definition)| definition.on.iter().find(|defined| defined.name == action));
    found.map(|action| admitted(action, defined_users)).unwrap_or_default()
}

/// Whether a caller without the permission to view runs may read this one: they take part in it, or they may act now.
pub fn may_read(workflow: &Workflow, state: &State, by: &Actor, rights: &Rights, cx: Cx<'_>) -> bool {
    let Some(run) = MachineRun::find(workflow, state) else { return false };
    let may_act = || {
        let actions = run.place().filter(|_| !state.has_ended()).map_or(&[][..], |(_, definition)| &definition.on);
        actions.iter().any(|action| authorize(run, action, by, rights, cx).is_ok())
    };
    takes_part(run.state, run.progress, by) || may_act()
}

/// Whether an actor started a run, or an ancestor of it, or forked one of them.
fn is_starter(state: &State, by: &Actor) -> bool {
    state.started_by() == Some(by) || state.forked_by().contains(by)
}

/// Whether an actor started or forked a run, acted in it, or is or was assigned to one of its states.
pub(super) fn takes_part(state: &State, progress: &Progress, by: &Actor) -> bool {
    let is_nameable = matches!(by.kind, ActorKind::Person | ActorKind::Key);
    is_starter(state, by)
        || progress.participants.contains(by)
        || is_nameable && progress.assigned_ever.contains(by.name().as_ref())
}
