//! The values that are shown to the person who decides, and their digest.
//!
//! The digest is the SHA-256 of the JSON of `{fields, state, version, workflow}`, with sorted keys and without spaces.
//! A request that carries it proves which values its sender has seen.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use serde::Serialize;
use serde_json::{Map, Value};
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

/// The digest of the values that a place shows. It is computed when it is first needed, and is no part of the state:
/// two states with the same values have the same digest. Copies of a state share it; a change of the values replaces it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShownDigest(Arc<OnceLock<String>>);

impl PartialEq for ShownDigest {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// The values that the present state shows; none for a run that is not in a state of a machine.
pub fn shown(workflow: &Workflow, state: &State) -> Option<Shown> {
    let run = MachineRun::find(workflow, state)?;
    let digest = digest_of(run)?.to_owned();
    let (_, definition) = run.place()?;
    let context = run.progress.context.value();
    let fields = match definition.show.as_slice() {
        [] => context.clone(),
        paths => {
            let fields = paths.iter().map(|path| (path.clone(), at_path(context, path).cloned().unwrap_or_default()));
            Value::Object(fields.collect::<Map<_, _>>())
        }
    };
    Some(Shown { digest, fields })
}

/// The digest of the values that the present state shows. It copies no value: the context may be large, and requests
/// are decided on the loop that owns the runs of all workspaces.
pub(super) fn digest_of(run: MachineRun<'_>) -> Option<&str> {
    let (place, definition) = run.place()?;
    Some(place.shown.0.get_or_init(|| {
        let mut hash = Sorted::default();
        hash.text("{\"fields\":");
        match definition.show.as_slice() {
            [] => hash.value(run.progress.context.value()),
            paths => {
                let paths: BTreeSet<_> = paths.iter().map(String::as_str).collect();
                let context = run.progress.context.value();
                hash.fields(paths.into_iter().map(|path| (path, at_path(context, path).unwrap_or(&Value::Null))));
            }
        }
        hash.text(",\"state\":");
        hash.value(&Value::from(place.state.as_str()));
        hash.text(",\"version\":");
        hash.value(&Value::from(run.workflow.version));
        hash.text(",\"workflow\":");
        hash.value(&Value::from(run.workflow.name.as_str()));
        hash.text("}");
        hash.finish()
    }))
}

/// The names of the shown fields that were set since the state was entered; all of them if none was.
pub(super) fn changed_fields(run: MachineRun<'_>) -> Vec<String> {
    let Some((place, definition)) = run.place() else { return Vec::new() };
    let mut names: Vec<&String> = match definition.show.as_slice() {
        [] => run.progress.context.value().as_object().into_iter().flat_map(Map::keys).collect(),
        paths => paths.iter().collect(),
    };
    let mut known = BTreeSet::new();
    names.retain(|name| known.insert(*name));
    let is_changed = |path: &&&String| {
        let name = path.split('.').next().unwrap_or_default();
        place.changed.contains(**path) || place.changed.contains(name)
    };
    let found: Vec<_> = names.iter().filter(is_changed).copied().cloned().collect();
    if found.is_empty() { names.into_iter().cloned().collect() } else { found }
}

/// The SHA-256 of JSON with sorted keys and without spaces, which is hashed as it is written.
#[derive(Default)]
struct Sorted {
    hash: Sha256,
    /// Bytes that are not hashed yet: many short texts are slower than a few long ones.
    buffer: Vec<u8>,
}

impl Sorted {
    const BUFFER_BYTES: usize = 8 * 1024;

    fn text(&mut self, text: &str) {
        self.buffer.extend_from_slice(text.as_bytes());
        self.flush_full();
    }

    fn flush_full(&mut self) {
        if self.buffer.len() >= Self::BUFFER_BYTES {
            self.hash.update(&self.buffer);
            self.buffer.clear();
        }
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Object(fields) => {
                let mut fields: Vec<_> = fields.iter().map(|(name, value)| (name.as_str(), value)).collect();
                fields.sort_by_key(|(name, _)| *name);
                self.fields(fields.into_iter());
            }
            Value::Array(items) => {
                self.text("[");
                for (at, item) in items.iter().enumerate() {
                    if at > 0 {
                        self.text(",");
                    }
                    self.value(item);
                }
                self.text("]");
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => self.plain(value),
        }
    }

    /// An object with these fields, which are in the order of their names.
    fn fields<'v>(&mut self, fields: impl Iterator<Item = (&'v str, &'v Value)>) {
        self.text("{");
        for (at, (name, value)) in fields.enumerate() {
            if at > 0 {
                self.text(",");
            }
            self.plain(name);
            self.text(":");
            self.value(value);
        }
        self.text("}");
    }

    fn plain(&mut self, value: &(impl Serialize + ?Sized)) {
        serde_json::to_writer(&mut self.buffer, value).expect("a vector takes any text");
        self.flush_full();
    }

    /// In hexadecimal.
    fn finish(mut self) -> String {
        self.hash.update(&self.buffer);
        self.hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
