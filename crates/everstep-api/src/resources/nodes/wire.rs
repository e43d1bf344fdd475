//! Nodes as clients see them.

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
    /// Where other nodes reach it.
    address: Option<String>,
    /// None where nobody else may use the database: such a node needs no lease.
    lease_until: Option<Time>,
    /// Whether its lease is over by the database's clock.
    is_expired: bool,
    /// Whether it was shut out: it writes nothing any more, and others go on with its runs.
    is_fenced: bool,
    /// Whether it is the one that answers.
    is_self: bool,
    /// Runs that it holds.
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
