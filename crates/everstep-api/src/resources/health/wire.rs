//! Whether a server lives and can work, as probes see it.

use everstep_core::ids::NodeId;
use schemars::JsonSchema;
use serde::Serialize;

use crate::http::schema::Id;

/// The process lives.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Alive {
    pub(crate) status: &'static str,
}

/// Whether a node can do its work.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Readiness {
    /// `ok` or `unavailable`.
    pub(crate) status: &'static str,
    #[schemars(with = "Id")]
    pub(crate) node: NodeId,
    pub(crate) store: Database,
    /// Runs that it holds in memory.
    pub(crate) active_runs: usize,
    /// Whether it was shut out by others.
    pub(crate) fenced: bool,
    /// Whether it has heard of its database lately.
    pub(crate) in_touch: bool,
    /// How far the machine's clock is ahead of the clock that runs are stamped with (negative: behind), if that is
    /// more than a second. Nodes that share a database are stamped with its clock; a server alone with its own, which
    /// never goes back when the machine's clock is corrected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) clock_skew_seconds: Option<f64>,
}

/// The state of a database.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Database {
    /// `sqlite` or `postgres`.
    pub(crate) kind: &'static str,
    /// `ok` or `unavailable`.
    pub(crate) status: &'static str,
    pub(crate) error: Option<String>,
}
