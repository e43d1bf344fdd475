//! Queries for operators: the nodes, the database and the number of runs.

use everstep_core::ids::{NodeId, RunId, WorkspaceId};
use everstep_store::{Counts, NodeRow, Result, RunStats, Space, StatsQuery};

use crate::engine::Engine;

impl Engine {
    /// Whether other nodes may use the same database.
    pub fn is_shared(&self) -> bool {
        self.world().runs.is_shared()
    }

    /// All nodes of the database, this one among them.
    pub async fn nodes(&self) -> Result<Vec<NodeRow>> {
        self.world().runs.nodes().await
    }

    /// The runs that a node owns.
    pub async fn owned_runs(&self, node: NodeId) -> Result<Vec<RunId>> {
        self.world().runs.owned_runs(node).await
    }

    /// The number of runs of each workflow in each status.
    pub async fn counts(&self, workspace: WorkspaceId) -> Result<Vec<Counts>> {
        self.world().runs.counts(workspace).await
    }

    /// The figures of runs over time.
    pub async fn run_stats(&self, workspace: WorkspaceId, query: StatsQuery) -> Result<Vec<(usize, RunStats)>> {
        self.world().runs.run_stats(workspace, query).await
    }

    /// Sends the cheapest query to the database, to check that it replies.
    pub async fn check_database(&self) -> Result<()> {
        self.world().runs.next_wake("").await?;
        Ok(())
    }

    /// The space on the disk of the database.
    pub fn space(&self) -> Space {
        self.world().runs.space()
    }

    /// The number of calls that were sent to the database since it was opened.
    pub fn database_calls(&self) -> u64 {
        self.world().runs.calls()
    }
}
