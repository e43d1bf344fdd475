//! Collects the values that an expression reads, and no others.

use std::collections::BTreeMap;

use everstep_core::evaluate::Lookup;
use everstep_core::limits::JSON_DEPTH;

use crate::INPUT_BYTES_MAX;
use crate::fuel;
use crate::path::{Path, Segment};
use crate::scan::PathRead;

/// The paths that an expression reads.
#[derive(Debug)]
pub(crate) struct Inputs {
    /// As written, for messages about missing values.
    written: Vec<PathRead>,
    /// Cut at the first index, without those that a shorter path covers: `ctx.a` covers `ctx.a.b`.
    covering: Vec<Vec<String>>,
}

/// The values that an expression is evaluated with.
pub(crate) struct GatheredInputs {
    pub(crate) root: minijinja::Value,
    pub(crate) bytes: usize,
    /// The first path without a value, and its position in the source.
    pub(crate) missing: Option<(String, usize)>,
    /// Whether a path with a fallback ends before its last segment, which the library does not accept.
    pub(crate) breaks_off: bool,
}

impl Inputs {
    pub(crate) fn new(written: Vec<PathRead>) -> Self {
        let names: Vec<Vec<String>> = written.iter().map(|path_read| names(&path_read.path)).collect();
        let mut covering: Vec<Vec<String>> = Vec::new();
        for path in &names {
            let is_covered = names.iter().any(|other| other.len() < path.len() && path.starts_with(other));
            if !is_covered && !covering.contains(path) {
                covering.push(path.clone());
            }
        }
        Self { written, covering }
    }

    pub(crate) fn written(&self) -> &[PathRead] {
        &self.written
    }

    /// Builds the smallest context in which the expression reads the same values as in the whole one. It charges for each
    /// value before it copies it, and also for one that is too large.
    ///
    /// A path without a value still gets its parents, so that only its last segment is undefined: `ctx.a.b|default(1)`
    /// then works without `ctx.a`.
    pub(crate) fn gather(&self, lookup: &dyn Lookup) -> Result<GatheredInputs, String> {
        let mut root = BTreeMap::new();
        let mut bytes = 0;
        for names in &self.covering {
            let path =
                Path { root: names[0].clone(), segments: names[1..].iter().cloned().map(Segment::Name).collect() };
            let value = path.resolve(lookup);
            if let Some(value) = &value {
                let (size, result) = value.measure(INPUT_BYTES_MAX - bytes, JSON_DEPTH);
                fuel::charge(size.fuel()).map_err(|error| error.to_string())?;
                result.map_err(|_| {
                    format!("with `{path}` it reads more than {} KiB or {JSON_DEPTH} levels", INPUT_BYTES_MAX / 1024)
                })?;
                bytes += size.bytes;
            }
            insert_value(&mut root, names, value.map(|value| value.to_library()));
        }
        let missing = self.written.iter().filter(|path_read| !path_read.path.has_value(lookup)).collect::<Vec<_>>();
        Ok(GatheredInputs {
            root: whole(root),
            bytes,
            missing: missing.first().map(|path_read| (path_read.path.to_string(), path_read.at)),
            breaks_off: missing.iter().any(|path_read| path_read.has_fallback && !self.has_parents(&path_read.path)),
        })
    }

    /// Whether `gather` creates the missing parents of a path.
    fn has_parents(&self, path: &Path) -> bool {
        let names = names(path);
        names.len() == path.segments.len() + 1 && self.covering.contains(&names)
    }
}

/// A context under construction.
enum Tree {
    Value(minijinja::Value),
    Parent(BTreeMap<String, Tree>),
}

fn insert_value(parent: &mut BTreeMap<String, Tree>, names: &[String], value: Option<minijinja::Value>) {
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
                insert_value(child, rest, value);
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
    let segments = path.segments.iter().map_while(|segment| match segment {
        Segment::Name(name) => Some(name.clone()),
        Segment::Index(_) => None,
    });
    std::iter::once(path.root.clone()).chain(segments).collect()
}
