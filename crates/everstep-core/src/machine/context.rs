//! The context of a machine, as templates and conditions read it.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::run::MachineRun;
use crate::evaluate::Lookup;
use crate::failure::{Failure, code};
use crate::limits;
use crate::payload::{self, Payload};
use crate::run::Cx;
use crate::time::Timestamp;

/// The name in the context that means the input of the run. Requests and definitions do not replace it, because a
/// requirement may read the name of a person from it.
pub(super) const INPUT: &str = "input";

/// The values that the templates of a machine read: `ctx` is the context, `payload` the input of the run, and `meta`
/// also has the state, the versionNo, the action, its actor and the time.
pub(super) struct MachineContext<'a> {
    pub(super) context: &'a Value,
    pub(super) input: &'a Value,
    facts: Option<Facts<'a>>,
}

/// The facts of `meta`.
struct Facts<'a> {
    run: MachineRun<'a>,
    action: Option<&'a str>,
    user: &'a Value,
    now: Timestamp,
}

impl<'a> MachineContext<'a> {
    /// The context of a run. `user` is the actor that performs the action, if an action is performed.
    pub(super) fn new(
        run: MachineRun<'a>,
        context: &'a Value,
        action: Option<&'a str>,
        user: &'a Value,
        cx: Cx<'_>,
    ) -> Self {
        Self { context, input: run.state.input.value(), facts: Some(Facts { run, action, user, now: cx.now }) }
    }

    /// The context of a run that does not exist yet.
    pub(super) fn from_input(input: &'a Value) -> Self {
        Self { context: input, input, facts: None }
    }
}

impl Lookup for MachineContext<'_> {
    fn variable(&self, name: &str) -> Option<Cow<'_, Value>> {
        let own = self.context.get(name);
        own.or(if name == INPUT { Some(self.input) } else { None }).map(Cow::Borrowed)
    }

    fn names(&self) -> Vec<String> {
        let mut names = vec![INPUT.to_owned()];
        let own = self.context.as_object().into_iter().flat_map(Map::keys);
        names.extend(own.filter(|name| !name.starts_with("__")).cloned());
        names.sort();
        names.dedup();
        names
    }

    fn payload(&self) -> &Value {
        self.input
    }

    fn local(&self, _: &str) -> Option<Cow<'_, Value>> {
        None
    }

    fn meta(&self) -> Value {
        let Some(Facts { run, action, user, now }) = &self.facts else { return json!({}) };
        json!({
            "runId": run.state.run.to_string(),
            "workflow": run.workflow.name,
            "version": run.workflow.version,
            "startedAt": run.state.started_at.to_string(),
            "startedBy": run.state.started_by().map(ToString::to_string),
            "trigger": run.state.trigger(),
            "state": run.progress.state_name(),
            "versionNo": run.progress.version_no,
            "action": action,
            "user": user,
            "now": now.to_string(),
        })
    }
}

/// An object with the fields of others on top; later values replace earlier ones.
pub(super) fn merge<'a>(context: &Payload, values: impl IntoIterator<Item = &'a Payload>) -> Payload {
    let mut merged = None;
    for (name, value) in values.into_iter().filter_map(|values| values.value().as_object()).flatten() {
        let merged: &mut Map<_, _> =
            merged.get_or_insert_with(|| context.value().as_object().cloned().unwrap_or_default());
        merged.insert(name.clone(), value.clone());
    }
    merged.map_or_else(|| context.clone(), |merged| Payload::from(Value::Object(merged)))
}

/// Rejects a context that exceeds a limit, or that cannot be read back.
pub(super) fn check_size(context: &Payload) -> Result<(), Failure> {
    if context.size() > limits::CONTEXT_BYTES {
        let message = format!("the context would exceed {} bytes", limits::CONTEXT_BYTES);
        return Err(Failure::fatal(code::CONTEXT_TOO_LARGE, message));
    }
    payload::check(context.json()).map_err(|error| Failure::fatal(error.code(), format!("the context {error}")))
}

/// A value at a path such as `order.total` or `lines.0.price`.
pub(super) fn at_path<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |value, name| match value {
        Value::Object(fields) => fields.get(name),
        Value::Array(items) => items.get(name.parse::<usize>().ok()?),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    })
}

/// The names of persons that templates resolve to: each is a name or a list of names. A list of the context may have
/// millions of items, so the work per item does not grow with the list.
pub(super) fn persons(
    templates: &[Value],
    lookup: &dyn Lookup,
    cx: Cx<'_>,
    what: &str,
) -> Result<Vec<String>, Failure> {
    let (mut names, mut known) = (Vec::new(), BTreeSet::new());
    for template in templates {
        let value = cx.resolve(template, lookup)?;
        let items = if let Value::Array(items) = value { items } else { vec![value] };
        for item in items {
            let name = match item {
                Value::String(name) if is_person(&name) => name,
                Value::Number(number) => number.to_string(),
                other => {
                    let message = format!("{what}: expected a name or a list of names, found {}", excerpt(&other));
                    return Err(Failure::fatal(code::EXPRESSION_ERROR, message));
                }
            };
            if known.insert(name.clone()) {
                names.push(name);
            }
            if names.len() > limits::PERSONS {
                let message = format!("{what}: more than {} names", limits::PERSONS);
                return Err(Failure::fatal(code::EXPRESSION_ERROR, message));
            }
        }
    }
    Ok(names)
}

/// Whether a text can be the name of a person.
pub(super) fn is_person(name: &str) -> bool {
    !name.trim().is_empty() && name.chars().count() <= limits::PERSON_CHARS
}

fn excerpt(value: &Value) -> String {
    const CHARS_MAX: usize = 80;
    let text = value.to_string();
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
