//! The port: selects the thread that writes or one of those that read.
//!
//! The simulator calls [`Database`] directly, so the verbs are its synchronous methods, in the files beside this one.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use everstep_core::ids::{NodeId, RunId, StepKey, WorkspaceId};
use everstep_core::time::Timestamp;

use crate::claims::ClaimResult;
use crate::error::Result;
use crate::filter::RunFilter;
use crate::item::{CommitOutcome, Gate, HeldStart, InboxId, Item, NewFork, SideWrites, WaitKind};
use crate::pack::{self, Packed};
use crate::ports::RunStore;
use crate::retention::AUDIT_ROWS_PER_RUN_MAX;
use crate::rows::{
    Counts, InboxRow, NodeRow, RunGlance, RunPage, RunRow, Snapshot, StoredEntry, StoredRun, Tick, TickRequest, WaitRow,
};
use crate::space::Space;
use crate::sqlite::database::Database;
use crate::sqlite::disk::Purpose;
use crate::sqlite::store::{SqliteStore, Upkeep};
use crate::stats::{MinuteStats, RunStats, StatsQuery};

/// The steps of one maintenance: together they free 8 MiB of the file.
const VACUUMS_MAX: usize = 32;

#[async_trait]
impl RunStore for SqliteStore {
    async fn join(&self, node: NodeId, lease: Duration, address: Option<String>) -> Result<Timestamp> {
        self.write(move |database| {
            database.release_if_missed()?;
            database.join(node, lease, address.as_deref())
        })
        .await
    }

    async fn tick(&self, node: NodeId, lease: Duration, now: Timestamp, request: &TickRequest) -> Result<Tick> {
        let request = request.clone();
        self.write(move |database| database.tick(node, lease, now, &request)).await
    }

    async fn nodes(&self) -> Result<Vec<NodeRow>> {
        self.read(Database::nodes).await
    }

    async fn fence(&self, node: NodeId, seen: Timestamp) -> Result<bool> {
        self.write(move |database| database.fence(node, seen)).await
    }

    async fn leave(&self, node: NodeId, now: Timestamp) -> Result<()> {
        self.write(move |database| database.leave(node, now)).await
    }

    async fn commit(&self, node: NodeId, items: &[Item]) -> Result<Vec<CommitOutcome>> {
        self.commit_shared(node, Arc::new(items.to_vec())).await
    }

    async fn commit_shared(&self, node: NodeId, items: Arc<Vec<Item>>) -> Result<Vec<CommitOutcome>> {
        let purpose = purpose(&items);
        // Long payloads are compressed here, and not on the thread that writes.
        let compressed: Vec<_> = items.iter().map(pack::compress_long).collect();
        let commit = move |database: &mut Database| {
            let packed: Vec<_> = items.iter().zip(compressed).map(|(item, long)| Packed::new(item, long)).collect();
            database.commit_packed(node, &packed)
        };
        self.write_for(purpose, commit).await
    }

    async fn claim_runs(
        &self,
        node: NodeId,
        lane: &str,
        now: Timestamp,
        limit: usize,
        rotation: Option<WorkspaceId>,
    ) -> Result<ClaimResult> {
        let lane = lane.to_owned();
        self.write(move |database| database.claim_runs(node, &lane, now, limit, rotation)).await
    }

    async fn due_workspaces(
        &self,
        now: Timestamp,
        after: Option<WorkspaceId>,
        limit: usize,
    ) -> Result<Vec<(WorkspaceId, bool)>> {
        self.read(move |database| database.due_workspaces(now, after, limit)).await
    }

    async fn claim_workspace(
        &self,
        node: NodeId,
        workspace: WorkspaceId,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<RunId>> {
        self.write(move |database| database.claim_workspace(node, workspace, now, limit)).await
    }

    async fn owned_runs(&self, node: NodeId) -> Result<Vec<RunId>> {
        self.read(move |database| database.owned_runs(node)).await
    }

    async fn next_wake(&self, lane: &str) -> Result<Option<Timestamp>> {
        let lane = lane.to_owned();
        self.read(move |database| database.next_wake(&lane)).await
    }

    async fn inbox(&self, node: NodeId, after: Option<InboxId>, limit: usize) -> Result<Vec<InboxRow>> {
        self.read(move |database| database.inbox(node, after, limit)).await
    }

    async fn arrivals(&self, run: RunId) -> Result<Vec<InboxRow>> {
        self.read(move |database| database.arrivals(run)).await
    }

    async fn load_run(&self, run: RunId) -> Result<Option<StoredRun>> {
        self.read(move |database| database.load_run(run)).await
    }

    async fn put_snapshot(&self, run: RunId, snapshot: Snapshot) -> Result<()> {
        self.write_for(Purpose::NewWork, move |database| database.put_snapshot(run, snapshot)).await
    }

    async fn journal(&self, run: RunId, after: u64, limit: usize) -> Result<Vec<StoredEntry>> {
        self.read(move |database| database.journal(run, after, limit)).await
    }

    async fn get_run(&self, workspace: WorkspaceId, run: RunId) -> Result<Option<RunRow>> {
        self.read(move |database| database.get_run(workspace, run)).await
    }

    async fn keyed_run(&self, workspace: WorkspaceId, scope: &str, key: &str) -> Result<Option<RunId>> {
        let (scope, key) = (scope.to_owned(), key.to_owned());
        self.read(move |database| database.keyed_run(workspace, &scope, &key)).await
    }

    async fn glance(&self, workspace: WorkspaceId, run: RunId) -> Result<Option<RunGlance>> {
        self.read(move |database| database.glance(workspace, run)).await
    }

    async fn list_runs(
        &self,
        workspace: WorkspaceId,
        filter: RunFilter,
        after: Option<(Timestamp, RunId)>,
        limit: usize,
    ) -> Result<RunPage> {
        self.read(move |database| database.list_runs(workspace, &filter, after, limit)).await
    }

    async fn fork_run(&self, workspace: WorkspaceId, source: RunId, fork: NewFork) -> Result<Option<u64>> {
        self.write_for(Purpose::NewWork, move |database| database.fork_run(workspace, source, &fork)).await
    }

    async fn hold_start(&self, run: RunId, hold: HeldStart, side: SideWrites) -> Result<bool> {
        self.write_for(Purpose::AcceptedWork, move |database| database.hold_start(run, &hold, &side)).await
    }

    async fn delete_test_run(&self, workspace: WorkspaceId, run: RunId) -> Result<bool> {
        self.write(move |database| database.delete_test_run(workspace, run)).await
    }

    async fn add_counts(&self, workspace: WorkspaceId, deltas: Vec<Counts>, stats: Vec<MinuteStats>) -> Result<()> {
        self.write(move |database| database.add_counts(workspace, &deltas, &stats)).await
    }

    async fn run_stats(&self, workspace: WorkspaceId, query: StatsQuery) -> Result<Vec<(usize, RunStats)>> {
        self.read(move |database| database.run_stats(workspace, &query)).await
    }

    async fn recount(&self) -> Result<()> {
        self.write(Database::recount).await
    }

    async fn list_waits(
        &self,
        workspace: WorkspaceId,
        kind: WaitKind,
        workflow: Option<String>,
        after: Option<(RunId, StepKey)>,
        limit: usize,
    ) -> Result<Vec<WaitRow>> {
        self.read(move |database| database.list_waits(workspace, kind, workflow.as_deref(), after.as_ref(), limit))
            .await
    }

    async fn counts(&self, workspace: WorkspaceId) -> Result<Vec<Counts>> {
        self.read(move |database| database.counts(workspace)).await
    }

    async fn sweep(&self, now: Timestamp, limit: usize) -> Result<usize> {
        let mut runs = 0;
        loop {
            let (left, rows) = (limit - runs, self.pace.rows());
            let call = move |database: &mut Database| {
                database.sweep_runs(now, left, rows).map(|swept| ((swept.runs, swept.is_cut), swept.rows))
            };
            let (swept, is_cut) = self.upkeep(Upkeep::Rows, call).await?;
            runs += swept;
            if !is_cut {
                break;
            }
        }
        if runs < limit {
            self.pace.end_backlog();
        }
        // Rows of a workspace that has many runs are old for the same reason, and are as many.
        let figures = limit.saturating_mul(AUDIT_ROWS_PER_RUN_MAX);
        self.sweep_all(figures, 1, move |database, batch| database.sweep_figures(now, batch)).await?;
        let call = move |database: &mut Database| database.sweep_others(now, limit).map(|rows| ((), rows));
        self.upkeep(Upkeep::Pages, call).await?;
        Ok(runs)
    }

    async fn maintain(&self, _now: Timestamp) -> Result<()> {
        for _ in 0..VACUUMS_MAX {
            let has_more = self.upkeep(Upkeep::Pages, |database| database.maintain().map(|more| (more, 0))).await?;
            if !has_more {
                break;
            }
        }
        Ok(())
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn calls(&self) -> u64 {
        self.calls()
    }

    fn space(&self) -> Space {
        self.space()
    }
}

/// What a batch of items writes. Items that end runs are sent alone if there is no space for others.
fn purpose(items: &[Item]) -> Purpose {
    if items.iter().any(|item| matches!(item.gate, Gate::Start(_))) {
        Purpose::NewWork
    } else if items.iter().all(Item::ends_run) {
        Purpose::Upkeep
    } else {
        Purpose::AcceptedWork
    }
}
