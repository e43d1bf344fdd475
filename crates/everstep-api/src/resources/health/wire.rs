//! Liveness and readiness of a server, for probes.

use everstep_core::ids::NodeId;
use schemars::JsonSchema;
use serde::Serialize;

use crate::http::schema::Id;

/// The process is running.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Alive {
    pub(crate) status: &'static str,
}

/// Whether a node can work.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Readiness {
    /// `ok` or `unavailable`.
    pub(crate) status: &'static str,
    #[schemars(with = "Id")]
    pub(crate) node: NodeId,
    pub(crate) store: Database,
    /// The number of runs in its memory.
    pub(crate) active_runs: usize,
    /// Whether other nodes have fenced it.
    pub(crate) fenced: bool,
    /// Whether its recent heartbeats to the database succeeded.
    pub(crate) in_touch: bool,
    /// The difference between the machine's clock and the clock that runs are stamped with (positive: the machine's is
    /// ahead), if it is more than a second. Nodes that share a database use its clock; a server alone uses its own,
    /// which never goes back when the machine's clock is corrected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) clock_skew_seconds: Option<f64>,
}

/// The state of a database.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Database {
    /// `sqlite` or `postgres`.
    pub(crate) kind: &'static str,
    /// `ok`, `unavailable`, or `full` while new work is rejected because the disk is full.
    pub(crate) status: &'static str,
    pub(crate) error: Option<String>,
}
