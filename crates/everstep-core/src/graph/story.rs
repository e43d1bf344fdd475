//! What a story asks about the steps of a graph.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::model::{Graph, NodeKind, OnError, OnItemError};
use super::path::StepPath;
use crate::ids::StepKey;
use crate::status::StepStatus;
use crate::story::StepStory;
use crate::workflow::Workflow;

/// What is known about the steps beside the journal: steps are nodes.
#[derive(Clone, Debug)]
pub(crate) struct StepFacts {
    /// None where this build cannot read it.
    workflow: Option<Arc<Workflow>>,
}

impl StepFacts {
    pub(crate) fn new(workflow: Option<&Arc<Workflow>>) -> Self {
        Self { workflow: workflow.cloned() }
    }

    pub(crate) fn kind(&self, key: &StepKey) -> Option<&str> {
        step_kind(self.graph()?, key)
    }

    /// By an `error` edge, or with the loop's next item. Not known, and so denied, without the graph.
    pub(crate) fn is_failure_handled(&self, key: &StepKey) -> bool {
        let Some(graph) = self.graph() else { return false };
        let Some(step) = StepPath::find(graph, key) else { return false };
        let node = graph.node(step.node);
        let skips_item = || {
            let owner = step.path.owner().map(|(owner, _)| &graph.node(owner.node).kind);
            matches!(owner, Some(NodeKind::Loop(config)) if config.on_item_error == OnItemError::Continue)
        };
        node.handles_failure() || node.on_error != OnError::FailWorkflow && skips_item()
    }

    fn graph(&self) -> Option<&Graph> {
        self.workflow.as_ref()?.graph()
    }
}

/// The type of the node that a step runs.
pub(crate) fn step_kind<'a>(graph: &'a Graph, key: &StepKey) -> Option<&'a str> {
    graph.find_node(key.node_name()).map(|node| node.kind.name())
}

/// The steps that a retry of the run opens again: those that were open when it ended. Steps that failed are dispatched
/// again.
pub(crate) fn reopened(steps: &BTreeMap<u64, StepStory>) -> Vec<(u64, StepStatus)> {
    steps.iter().filter_map(|(first_seq, step)| Some((*first_seq, step.reopens?))).collect()
}
