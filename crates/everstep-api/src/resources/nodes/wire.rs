//! Nodes in the API.

use everstep_core::ids::NodeId;
use everstep_store::NodeRow;
use schemars::JsonSchema;
use serde::Serialize;

use crate::http::schema::Id;
use crate::http::time::Time;

/// The servers that share a database.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Nodes {
    pub(crate) nodes: Vec<Node>,
}

/// One server.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Node {
    #[schemars(with = "Id")]
    id: NodeId,
    /// The address at which other nodes reach it.
    address: Option<String>,
    /// None if no other node can use the database: such a node needs no lease.
    lease_until: Option<Time>,
    /// Whether its lease has expired by the database's clock.
    is_expired: bool,
    /// Whether it was fenced: it writes nothing, and other nodes continue its runs.
    is_fenced: bool,
    /// Whether it is the node of this response.
    is_self: bool,
    /// The number of runs that it owns.
    runs: usize,
    /// The difference between the wall clock of its machine and the clock that all nodes follow, positive if the wall
    /// clock is ahead. Only the node of this response knows its own; null for the others.
    skew_ms: Option<i64>,
}

impl Node {
    /// `skew` is that of the node `this`, in microseconds.
    pub(crate) fn from_row(row: NodeRow, this: NodeId, skew: Option<i64>, runs: usize, is_shared: bool) -> Self {
        let is_self = row.id == this;
        Self {
            is_self,
            skew_ms: skew.filter(|_| is_self).map(|micros| micros / 1_000),
            id: row.id,
            address: row.address,
            lease_until: is_shared.then(|| Time::from_timestamp(row.lease_until)),
            is_expired: is_shared && row.is_expired,
            is_fenced: row.fenced,
            runs,
        }
    }
}
