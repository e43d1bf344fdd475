//! The values that are shown to the person who decides, and their digest.
//!
//! The digest is the SHA-256 of the JSON of `{fields, state, version, workflow}`, with sorted keys and without spaces.
//! A request that carries it proves which values its sender has seen.

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::context::at_path;
use super::run::MachineRun;
use crate::run::State;
use crate::workflow::Workflow;

/// The values that a person is shown, with their digest.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// In hexadecimal.
    pub digest: String,
    /// The values by their paths; a path that the context does not have is null.
    pub fields: Value,
}

/// The values that the present state shows; none for a run that is not in a state of a machine.
pub fn shown(workflow: &Workflow, state: &State) -> Option<Shown> {
    shown_in(MachineRun::find(workflow, state)?)
}

pub(super) fn shown_in(run: MachineRun<'_>) -> Option<Shown> {
    let (place, definition) = run.place()?;
    let context = run.progress.context.value();
    let fields = match definition.show.as_slice() {
        [] => context.clone(),
        paths => {
            let fields = paths.iter().map(|path| (path.clone(), at_path(context, path).cloned().unwrap_or_default()));
            Value::Object(fields.collect::<Map<_, _>>())
        }
    };
    let document = json!({
        "fields": fields,
        "state": place.state,
        "version": run.workflow.version,
        "workflow": run.workflow.name,
    });
    Some(Shown { digest: digest(&document), fields })
}

/// The names of the shown fields that were set since the state was entered; all of them if none was.
pub(super) fn changed_fields(run: MachineRun<'_>, shown: &Shown) -> Vec<String> {
    let names = || shown.fields.as_object().into_iter().flat_map(Map::keys);
    let changed = run.progress.place.as_ref().map(|place| &place.changed);
    let is_changed = |path: &&String| {
        let name = path.split('.').next().unwrap_or_default();
        changed.is_some_and(|changed| changed.contains(*path) || changed.contains(name))
    };
    let found: Vec<_> = names().filter(is_changed).cloned().collect();
    if found.is_empty() { names().cloned().collect() } else { found }
}

/// The SHA-256 of a value as JSON with sorted keys and without spaces, in hexadecimal.
pub(super) fn digest(value: &Value) -> String {
    let mut text = String::new();
    write_sorted(value, &mut text);
    let bytes = Sha256::digest(text.as_bytes());
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn write_sorted(value: &Value, out: &mut String) {
    match value {
        Value::Object(fields) => {
            let mut names: Vec<_> = fields.keys().collect();
            names.sort();
            out.push('{');
            for (at, name) in names.into_iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                out.push_str(&Value::from(name.as_str()).to_string());
                out.push(':');
                write_sorted(&fields[name], out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_sorted(item, out);
            }
            out.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => out.push_str(&value.to_string()),
    }
}
