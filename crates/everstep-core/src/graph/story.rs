//! The facts that a story needs about the steps of a graph.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::model::{Graph, NodeKind, OnError, OnItemError};
use super::path::StepPath;
use crate::ids::StepKey;
use crate::status::StepStatus;
use crate::story::StepStory;
use crate::workflow::Workflow;

/// The facts about steps that the journal does not contain: they are properties of the graph's nodes.
#[derive(Clone, Debug)]
pub(crate) struct StepFacts {
    /// `None` if this build cannot read the workflow.
    workflow: Option<Arc<Workflow>>,
}

impl StepFacts {
    pub(crate) fn new(workflow: Option<&Arc<Workflow>>) -> Self {
        Self { workflow: workflow.cloned() }
    }

    pub(crate) fn kind(&self, key: &StepKey) -> Option<&str> {
        step_kind(self.graph()?, key)
    }

    /// Whether an `error` edge or the next item of a loop handles the failure. False if the graph is not known.
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

/// The type of the node of a step.
pub(crate) fn step_kind<'a>(graph: &'a Graph, key: &StepKey) -> Option<&'a str> {
    graph.find_node(key.node_name()).map(|node| node.kind.name())
}

/// The steps that a retry of the run reopens: those that were open when it ended. Failed steps are dispatched again.
pub(crate) fn reopened(steps: &BTreeMap<u64, StepStory>) -> Vec<(u64, StepStatus)> {
    steps.iter().filter_map(|(first_seq, step)| Some((*first_seq, step.reopens?))).collect()
}
