//! Gathers the values that an expression looks at, and no others.

use std::collections::BTreeMap;

use everstep_core::evaluate::Lookup;
use everstep_core::limits::JSON_DEPTH;

use crate::INPUT_BYTES;
use crate::convert;
use crate::path::{Path, Step};
use crate::scan::Sight;

/// The paths that an expression reads.
#[derive(Debug)]
pub(crate) struct Needs {
    /// As written, to name what is missing.
    written: Vec<Sight>,
    /// Cut at the first index, without those that a shorter one covers: `ctx.a` covers `ctx.a.b`.
    covering: Vec<Vec<String>>,
}

/// What an expression is given.
pub(crate) struct Given {
    pub(crate) root: minijinja::Value,
    pub(crate) bytes: usize,
    /// The first path that leads nowhere, and where it stands.
    pub(crate) missing: Option<(String, usize)>,
    /// Whether a path with a fallback breaks off before its last step, which the library does not forgive by itself.
    pub(crate) breaks_off: bool,
}

impl Needs {
    pub(crate) fn new(written: Vec<Sight>) -> Self {
        let names: Vec<Vec<String>> = written.iter().map(|sight| names(&sight.path)).collect();
        let mut covering: Vec<Vec<String>> = Vec::new();
        for path in &names {
            let is_covered = names.iter().any(|other| other.len() < path.len() && path.starts_with(other));
            if !is_covered && !covering.contains(path) {
                covering.push(path.clone());
            }
        }
        Self { written, covering }
    }

    pub(crate) fn written(&self) -> &[Sight] {
        &self.written
    }

    /// Builds the smallest context in which the expression sees what it would see in the whole one.
    ///
    /// A path that leads nowhere still gets its parents, so that only its last step is undefined:
    /// `ctx.a.b|default(1)` then works without `ctx.a`.
    pub(crate) fn gather(&self, lookup: &dyn Lookup) -> Result<Given, String> {
        let mut root = BTreeMap::new();
        let mut bytes = 0;
        for names in &self.covering {
            let path = Path { root: names[0].clone(), steps: names[1..].iter().cloned().map(Step::Name).collect() };
            let value = path.resolve(lookup);
            if let Some(value) = &value {
                bytes += convert::measure(value, INPUT_BYTES - bytes, JSON_DEPTH).map_err(|_| {
                    format!("with `{path}` it looks at more than {} KiB or {JSON_DEPTH} levels", INPUT_BYTES / 1024)
                })?;
            }
            place(&mut root, names, value.map(|value| convert::to_library(&value)));
        }
        let missing = self.written.iter().filter(|sight| !sight.path.leads_somewhere(lookup)).collect::<Vec<_>>();
        Ok(Given {
            root: whole(root),
            bytes,
            missing: missing.first().map(|sight| (sight.path.to_string(), sight.at)),
            breaks_off: missing.iter().any(|sight| sight.has_fallback && !self.has_parents(&sight.path)),
        })
    }

    /// Whether `gather` makes the parents of a path where they are missing.
    fn has_parents(&self, path: &Path) -> bool {
        let names = names(path);
        names.len() == path.steps.len() + 1 && self.covering.contains(&names)
    }
}

/// A context in the making.
enum Tree {
    Value(minijinja::Value),
    Parent(BTreeMap<String, Tree>),
}

fn place(parent: &mut BTreeMap<String, Tree>, names: &[String], value: Option<minijinja::Value>) {
    match names {
        [] => {}
        [name] => {
            if let Some(value) = value {
                parent.insert(name.clone(), Tree::Value(value));
            }
        }
        [name, rest @ ..] => {
            let child = parent.entry(name.clone()).or_insert_with(|| Tree::Parent(BTreeMap::new()));
            if let Tree::Parent(child) = child {
                place(child, rest, value);
            }
        }
    }
}

fn whole(tree: BTreeMap<String, Tree>) -> minijinja::Value {
    minijinja::Value::from_pairs(tree.into_iter().map(|(name, tree)| match tree {
        Tree::Value(value) => (name, value),
        Tree::Parent(children) => (name, whole(children)),
    }))
}

/// The names of a path up to its first index.
fn names(path: &Path) -> Vec<String> {
    let steps = path.steps.iter().map_while(|step| match step {
        Step::Name(name) => Some(name.clone()),
        Step::Index(_) => None,
    });
    std::iter::once(path.root.clone()).chain(steps).collect()
}
