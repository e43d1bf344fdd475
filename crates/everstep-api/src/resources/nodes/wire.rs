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
}

impl Node {
    pub(crate) fn from_row(row: NodeRow, this: NodeId, runs: usize, is_shared: bool) -> Self {
        Self {
            is_self: row.id == this,
            id: row.id,
            address: row.address,
            lease_until: is_shared.then(|| Time::from_timestamp(row.lease_until)),
            is_expired: is_shared && row.is_expired,
            is_fenced: row.fenced,
            runs,
        }
    }
}
