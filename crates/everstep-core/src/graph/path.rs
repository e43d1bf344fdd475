//! The position of a step in a graph: the iterations around it, and its node. A step key is the text of this path.

use serde::{Deserialize, Serialize};

use super::model::Graph;
use crate::ids::StepKey;

/// The iterations that lead to a scope: pairs of a loop's index and an iteration. The path of the graph itself is
/// empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ScopePath(Vec<(u32, u32)>);

impl ScopePath {
    pub(crate) fn inside(&self, node: u32, iteration: u32) -> Self {
        let mut path = self.0.clone();
        path.push((node, iteration));
        Self(path)
    }

    /// The loop or scope around this path, and the iteration.
    pub(crate) fn owner(&self) -> Option<(StepPath, u32)> {
        let ((node, iteration), outer) = self.0.split_last()?;
        Some((StepPath { path: Self(outer.to_vec()), node: *node }, *iteration))
    }

    /// Whether it is the graph itself.
    pub(crate) fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn is_within(&self, outer: &Self) -> bool {
        self.0.starts_with(&outer.0)
    }

    /// The path as part of a step key: `each[3]`, `each[3].inner[0]`.
    pub fn name(&self, graph: &Graph) -> String {
        let mut name = self.prefix(graph);
        name.pop();
        name
    }

    /// The text before a node's id in a step key.
    pub(crate) fn prefix(&self, graph: &Graph) -> String {
        let mut prefix = String::new();
        for (node, iteration) in &self.0 {
            prefix.push_str(&graph.node(*node).id);
            prefix.push_str(&format!("[{iteration}]."));
        }
        prefix
    }
}

/// A step: a node in one scope.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StepPath {
    pub path: ScopePath,
    pub node: u32,
}

impl StepPath {
    pub(crate) fn key(&self, graph: &Graph) -> StepKey {
        let id = &graph.node(self.node).id;
        if self.path.is_root() { StepKey::from(id.as_str()) } else { StepKey::from(self.path.prefix(graph) + id) }
    }

    /// Finds a step by its key; `None` if the graph has no such step.
    pub fn find(graph: &Graph, key: &StepKey) -> Option<Self> {
        // Most steps are not in a loop, so that their keys are names of nodes.
        if let Some(node) = graph.find(key.as_str()) {
            return (graph.node(node).home == 0).then(|| Self { path: ScopePath::default(), node });
        }
        let mut path = Vec::new();
        let mut home = 0;
        let mut segments = key.as_str().split('.').peekable();
        while let Some(segment) = segments.next() {
            if segments.peek().is_none() {
                let node = graph.find(segment)?;
                return (graph.node(node).home == home).then_some(Self { path: ScopePath(path), node });
            }
            let (id, iteration) = segment.strip_suffix(']')?.split_once('[')?;
            // A step has exactly one key: neither `[+1]` nor `[01]` is part of one.
            let is_plain = iteration == "0" || !iteration.starts_with(['0', '+']);
            let node = graph.find(id).filter(|_| is_plain)?;
            if graph.node(node).home != home {
                return None;
            }
            home = graph.node(node).body?;
            path.push((node, iteration.parse().ok()?));
        }
        None
    }
}
