//! What a machine's run waits for, as data for a sentence: "is in review since …: APPROVE by Manager (1 of 3 votes) or
//! REJECT; goes to escalated at …".
//!
//! Every view of a run contains its situation, so nothing is evaluated for it. A template of `require.user` is resolved
//! if it is one path, such as `{{ctx.manager}}` or `{{meta.startedBy}}`.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::slice;

use serde_json::Value;

use super::Tally;
use super::authorize::admitted;
use super::context::{at_path, is_person};
use super::model::Action;
use super::read::is_template;
use super::run::{MachineRun, step_of_run};
use super::timers::next_exit;
use crate::ids::RunId;
use crate::run::State;
use crate::time::Timestamp;
use crate::workflow::Workflow;

/// The maximum number of users that are named for one template; the others are counted.
const USERS_NAMED_MAX: usize = 10;
/// The users of a template that is not resolved.
const UNNAMED_USER: &str = "a user that the definition names";

/// The place of a machine, and the ways out of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Situation {
    pub state: String,
    pub title: Option<String>,
    pub version_no: u32,
    pub since: Timestamp,
    /// The actions of the state, in the order of the definition.
    pub choices: Vec<Choice>,
    /// The next time at which a timer moves the machine.
    pub exit: Option<Exit>,
    /// The run that the state waits for.
    pub child: Option<RunId>,
    /// The number of side effects that are still to be performed.
    pub deliveries: usize,
}

/// An action that a person may perform.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    pub action: String,
    pub title: Option<String>,
    /// The roles and persons that may perform it in this run; empty for every caller.
    pub by: Vec<String>,
    /// Its votes, if it needs several.
    pub votes: Option<Tally>,
}

/// A timer that moves the machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Exit {
    pub at: Timestamp,
    /// The state that it leads to, unless a condition decides it.
    pub to: Option<String>,
}

/// The situation of a run that is in a state of a machine.
pub fn situation(workflow: &Workflow, state: &State) -> Option<Situation> {
    let run = MachineRun::find(workflow, state)?;
    let (place, definition) = run.place()?;
    let choices = definition.on.iter().map(|action| choice(run, action));
    let step = step_of_run(run.progress.version_no);
    let child = state.open.get(&step).and_then(|open| open.own_child(state.run, &step)).map(|child| child.run);
    Some(Situation {
        state: place.state.clone(),
        title: definition.title.clone(),
        version_no: run.progress.version_no,
        since: place.last.at,
        choices: choices.collect(),
        exit: next_exit(run).map(|(at, to)| Exit { at, to: to.map(str::to_owned) }),
        child,
        deliveries: state.open_deliveries(),
    })
}

fn choice(run: MachineRun<'_>, action: &Action) -> Choice {
    let mut by = admitted(action, |template| users(run, template));
    let mut known = BTreeSet::new();
    by.retain(|name| known.insert(name.clone()));
    Choice { action: action.name.clone(), title: action.title.clone(), by, votes: run.progress.tally(&action.name) }
}

/// The users that a template means in a run. A list of the context may have millions of items.
fn users(run: MachineRun<'_>, template: &Value) -> Vec<String> {
    let value = if is_template(template) { read_path(run, template) } else { Some(Cow::Borrowed(template)) };
    let items = match value.as_deref() {
        Some(Value::Array(items)) => items.as_slice(),
        Some(item) => slice::from_ref(item),
        None => &[],
    };
    let mut users: Vec<_> = items.iter().take(USERS_NAMED_MAX).filter_map(user).collect();
    match items.len().saturating_sub(USERS_NAMED_MAX) {
        0 if users.is_empty() => users.push(UNNAMED_USER.to_owned()),
        0 => {}
        others => users.push(format!("{others} more")),
    }
    users
}

fn user(name: &Value) -> Option<String> {
    match name {
        Value::String(name) if is_person(name) => Some(format!("user {name}")),
        Value::Number(number) => Some(format!("user {number}")),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The value of a template that is one path; none of any other template.
fn read_path<'a>(run: MachineRun<'a>, template: &Value) -> Option<Cow<'a, Value>> {
    let source = match template {
        Value::String(text) => text.strip_prefix("{{")?.strip_suffix("}}")?,
        Value::Object(fields) => fields.get("$expr")?.as_str()?,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => return None,
    };
    let (root, path) = source.trim().split_once('.')?;
    if !path.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.')) {
        return None;
    }
    match root {
        "ctx" | "vars" if !path.starts_with("__") => at_path(run.progress.context.value(), path).map(Cow::Borrowed),
        "payload" => at_path(run.state.input.value(), path).map(Cow::Borrowed),
        "meta" if path == "startedBy" => {
            run.state.started_by().map(|actor| Cow::Owned(Value::String(actor.name().into_owned())))
        }
        _ => None,
    }
}
