//! Claims: due runs without an owner become the runs of a node.
//!
//! The runs of a worker's lane belong to one workspace, and are claimed oldest first. Those of the server's own lane
//! belong to all workspaces, which share the places of a claim:
//!
//! 1. If not more runs are due than there are places, all of them are claimed.
//! 2. Otherwise the claim visits workspaces in a circle, in the order of their ids. It begins after the *rotation*, which
//!    is the workspace that the claim before has visited last. It ends when it has found as many workspaces with due runs
//!    as there are places, when the circle is closed, or after [`visits_max`] visits.
//! 3. The workspaces with due runs have equal shares of the places, and each gives its oldest runs.
//! 4. The places that remain, because workspaces have fewer due runs than their shares, go to the oldest runs of all.
//!
//! A visit is one probe of an index, whatever the number of runs of the workspace: the backlog of a workspace delays no
//! other one. Workspaces whose runs all sleep are visited as well, so the number of visits is bounded; a workspace that
//! the claim did not reach is visited by one of the next claims.
//!
//! **Invariant**: a claim that returns fewer runs than it has places has left no run that was due and that no other node
//! was claiming.
//!
//! **Invariant**: while more runs are due than a claim has places, every workspace with due runs has its share of one of
//! the next claims of a node, after one circle of its rotation.

use everstep_core::ids::{RunId, WorkspaceId};

/// The lane of the runs that the server performs itself.
pub(crate) const SERVER_LANE: &str = "";

/// Visits of a claim for each of its places, and further ones: with few places, too, a circle ends after few claims.
const VISITS_PER_PLACE: usize = 2;
const FURTHER_VISITS: usize = 16;

/// The result of a claim.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClaimResult {
    /// The runs that the node owns from now on. In the server's own lane they are in rounds: the oldest run of each
    /// workspace, then the second one of each, and so on.
    pub runs: Vec<RunId>,
    /// The workspace after which the next claim begins: the one that was visited last.
    pub rotation: Option<WorkspaceId>,
}

/// The maximum number of workspaces that a claim visits.
pub(crate) fn visits_max(places: usize) -> usize {
    places.saturating_mul(VISITS_PER_PLACE).saturating_add(FURTHER_VISITS)
}
