//! Gathers the values that an expression looks at, and no others.

use everstep_core::evaluate::Lookup;
use everstep_core::limits::JSON_DEPTH;
use serde_json::{Map, Value};

use crate::INPUT_BYTES;
use crate::convert;
use crate::path::{Path, Step};

/// The paths that an expression reads, the shortest of each kind: `ctx.a` covers `ctx.a.b`.
#[derive(Debug)]
pub(crate) struct Needs {
    /// As written, to name what is missing.
    written: Vec<Path>,
    /// Cut at the first index, without those that a shorter one covers.
    covering: Vec<Vec<String>>,
}

/// What an expression is given.
pub(crate) struct Given {
    pub(crate) root: minijinja::Value,
    pub(crate) bytes: usize,
    /// The first path that leads nowhere.
    pub(crate) missing: Option<String>,
}

impl Needs {
    pub(crate) fn new(written: Vec<Path>) -> Self {
        let names: Vec<Vec<String>> = written.iter().map(names).collect();
        let mut covering: Vec<Vec<String>> = Vec::new();
        for path in &names {
            let is_covered = names.iter().any(|other| other.len() < path.len() && path.starts_with(other));
            if !is_covered && !covering.contains(path) {
                covering.push(path.clone());
            }
        }
        Self { written, covering }
    }

    /// Builds the smallest context in which the expression sees what it would see in the whole one.
    ///
    /// A path that leads nowhere still gets its parents, so that only its last step is undefined:
    /// `ctx.a.b|default(1)` then works without `ctx.a`.
    pub(crate) fn gather(&self, lookup: &dyn Lookup) -> Result<Given, String> {
        let mut root = Map::new();
        let mut bytes = 0;
        for names in &self.covering {
            let path = Path { root: names[0].clone(), steps: names[1..].iter().cloned().map(Step::Name).collect() };
            let value = path.resolve(lookup);
            if let Some(value) = &value {
                let limit = INPUT_BYTES.saturating_sub(bytes);
                // The parents in `root` come on top of the value's own depth.
                let measured = convert::measure(value, limit, JSON_DEPTH + 1);
                bytes += measured.map_err(|message| format!("`{path}`: {message} that an expression may look at"))?;
            }
            place(&mut root, names, value.map(std::borrow::Cow::into_owned));
        }
        let missing = self.written.iter().find(|path| path.resolve(lookup).is_none()).map(Path::to_string);
        Ok(Given { root: convert::to_library(&Value::Object(root)), bytes, missing })
    }
}

/// The steps of a path up to its first index.
fn names(path: &Path) -> Vec<String> {
    let steps = path.steps.iter().map_while(|step| match step {
        Step::Name(name) => Some(name.clone()),
        Step::Index(_) => None,
    });
    std::iter::once(path.root.clone()).chain(steps).collect()
}

fn place(parent: &mut Map<String, Value>, names: &[String], value: Option<Value>) {
    match names {
        [] => {}
        [name] => {
            if let Some(value) = value {
                parent.insert(name.clone(), value);
            }
        }
        [name, rest @ ..] => {
            let child = parent.entry(name.clone()).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(child) = child {
                place(child, rest, value);
            }
        }
    }
}
