//! Which workers a run needs.

use std::sync::Arc;

use everstep_core::ids::WorkspaceId;
use everstep_core::workflow::Workflow;

const CODE: &str = "code/";

/// The lane of a workflow's runs: empty for those that the server performs by itself.
pub(crate) fn lane(workspace: WorkspaceId, workflow: &Workflow) -> Arc<str> {
    if workflow.needs_worker() { lane_of(workspace, &workflow.name, workflow.version) } else { "".into() }
}

pub(crate) fn lane_of(workspace: WorkspaceId, name: &str, version: u32) -> Arc<str> {
    format!("{CODE}{workspace}/{name}/{version}").into()
}

/// Whether runs of a lane are of code workflows.
pub(crate) fn is_code(lane: &str) -> bool {
    lane.starts_with(CODE)
}
