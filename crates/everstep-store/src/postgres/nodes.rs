//! Who may write: joining, fencing, and giving runs back.

use std::time::Duration;

use everstep_core::ids::NodeId;
use everstep_core::time::Timestamp;

use super::queries::{params, query};
use super::rows;
use super::store::PostgresStore;
use crate::error::Result;
use crate::numbers;
use crate::rows::NodeRow;

impl PostgresStore {
    pub(super) async fn add_node(&self, node: NodeId, lease: Duration, address: Option<String>) -> Result<Timestamp> {
        let row = self
            .connections
            .query_one(query!("join"), params! { "node": node.uuid(), "lease": micros(lease), "address": address })
            .await?;
        rows::time(&row, 0)
    }

    pub(super) async fn read_nodes(&self) -> Result<Vec<NodeRow>> {
        self.connections.query(query!("nodes"), &[]).await?.iter().map(rows::node).collect()
    }

    pub(super) async fn fence_node(&self, node: NodeId, seen: Timestamp) -> Result<bool> {
        Ok(self.heartbeat.execute(query!("fence"), params! { "node": node.uuid(), "seen": seen.micros() }).await? == 1)
    }

    /// Fences the node first. Its runs are given back by a statement that sees all that it wrote until then;
    /// if that one is never sent, others release them.
    pub(super) async fn remove_node(&self, node: NodeId, now: Timestamp) -> Result<()> {
        self.connections.execute(query!("leave/1_fence"), params! { "node": node.uuid() }).await?;
        self.connections
            .execute(query!("leave/2_release"), params! { "now": now.micros(), "node": node.uuid() })
            .await?;
        Ok(())
    }

    pub(super) async fn release(&self, now: Timestamp, limit: usize) -> Result<usize> {
        let released = self
            .connections
            .execute(query!("release_runs"), params! { "limit": numbers::limit(limit), "now": now.micros() })
            .await?;
        Ok(usize::try_from(released).unwrap_or(usize::MAX))
    }
}

/// A time span as SQL adds it.
pub(super) fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}
