//! A run of a graph, as the functions of this style use it.

use super::model::Graph;
use super::path::{ScopePath, StepPath};
use super::progress::Progress;
use super::scope_context::ScopeContext;
use crate::ids::StepKey;
use crate::payload::Payload;
use crate::run::State;
use crate::status::StepStatus;
use crate::workflow::Workflow;

#[derive(Clone, Copy)]
pub struct GraphRun<'a> {
    pub(crate) workflow: &'a Workflow,
    pub(crate) graph: &'a Graph,
    pub(crate) state: &'a State,
    pub(crate) progress: &'a Progress,
}

impl<'a> GraphRun<'a> {
    /// `graph` is the graph of the workflow with which the state was folded.
    pub fn from_state(workflow: &'a Workflow, graph: &'a Graph, state: &'a State) -> Self {
        let progress = state.progress.graph().expect("the state of a graph's run has a graph's progress");
        Self { workflow, graph, state, progress }
    }

    /// The status of a step that is not open.
    pub(crate) fn step_status(self, step: &StepKey) -> Option<StepStatus> {
        self.progress.step_status(self.graph, step, self.state.has_ended())
    }

    /// The variables of the run as one JSON object.
    pub(crate) fn context(self) -> Payload {
        ScopeContext::new(self, &ScopePath::default()).document(false)
    }

    /// The variables of each iteration in progress, by the iteration's name.
    pub(crate) fn scopes(self) -> Vec<(String, Payload)> {
        let paths = self.progress.iterations();
        paths.map(|path| (path.name(self.graph), ScopeContext::new(self, path).own())).collect()
    }

    /// Compares the folded agenda with the one that is found by visiting every node.
    pub(crate) fn check_counts(self) -> Result<(), String> {
        let found = self.progress.scan(self.graph);
        match found == self.progress.agenda {
            true => Ok(()),
            false => Err(format!("the agenda is {:?} and should be {found:?}", self.progress.agenda)),
        }
    }
}

/// The position of a step in a graph, or why it has none.
pub(super) fn find(graph: &Graph, step: &StepKey) -> Result<StepPath, &'static str> {
    StepPath::find(graph, step).ok_or("the workflow has no such step")
}
