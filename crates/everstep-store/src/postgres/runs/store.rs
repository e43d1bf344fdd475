//! The port: most verbs are one statement, and are here; the others are in the files beside this one.

use std::time::Duration;

use async_trait::async_trait;
use everstep_core::ids::{NodeId, RunId, StepKey, WorkspaceId};
use everstep_core::journal::FORMAT;
use everstep_core::time::Timestamp;
use uuid::Uuid;

use super::rows;
use crate::claims::ClaimResult;
use crate::error::Result;
use crate::filter::RunFilter;
use crate::item::{CommitOutcome, HeldStart, InboxId, Item, NewFork, SideWrites, WaitKind};
use crate::ports::RunStore;
use crate::postgres::columns;
use crate::postgres::queries::{params, query};
use crate::postgres::store::PostgresStore;
use crate::rows::{
    Counts, InboxRow, NodeRow, RunGlance, RunPage, RunRow, Snapshot, StoredEntry, StoredRun, Tick, TickRequest, WaitRow,
};
use crate::space::Space;
use crate::stats::{MinuteStats, RunStats, StatsQuery};
use crate::{numbers, pack, texts};

/// The time limit for counting all runs.
const RECOUNT_TIMEOUT: Duration = Duration::from_secs(300);

#[async_trait]
impl RunStore for PostgresStore {
    async fn join(&self, node: NodeId, lease: Duration, address: Option<String>) -> Result<Timestamp> {
        let row = self
            .connections
            .query_one(
                query!("join"),
                params! { "node": node.uuid(), "lease": numbers::micros(lease), "address": address },
            )
            .await?;
        columns::time(&row, 0)
    }

    async fn tick(&self, node: NodeId, lease: Duration, now: Timestamp, request: &TickRequest) -> Result<Tick> {
        self.tick_node(node, lease, now, request).await
    }

    async fn nodes(&self) -> Result<Vec<NodeRow>> {
        self.connections.query(query!("nodes"), &[]).await?.iter().map(rows::node_from_row).collect()
    }

    async fn fence(&self, node: NodeId, seen: Timestamp) -> Result<bool> {
        Ok(self.heartbeat.execute(query!("fence"), params! { "node": node.uuid(), "seen": seen.micros() }).await? == 1)
    }

    /// Fences the node first, so that the second statement sees everything that the node wrote. If the second
    /// statement is never sent, other nodes release the runs.
    async fn leave(&self, node: NodeId, now: Timestamp) -> Result<()> {
        self.connections.execute(query!("leave/1_fence"), params! { "node": node.uuid() }).await?;
        self.connections
            .execute(query!("leave/2_release"), params! { "now": now.micros(), "node": node.uuid() })
            .await?;
        Ok(())
    }

    async fn commit(&self, node: NodeId, items: &[Item]) -> Result<Vec<CommitOutcome>> {
        self.commit_items(node, items).await
    }

    async fn claim_runs(
        &self,
        node: NodeId,
        lane: &str,
        now: Timestamp,
        limit: usize,
        rotation: Option<WorkspaceId>,
    ) -> Result<ClaimResult> {
        self.claim_lane(node, lane, now, limit, rotation).await
    }

    async fn due_workspaces(
        &self,
        now: Timestamp,
        after: Option<WorkspaceId>,
        limit: usize,
    ) -> Result<Vec<(WorkspaceId, bool)>> {
        self.find_due_workspaces(now, after, limit).await
    }

    async fn claim_workspace(
        &self,
        node: NodeId,
        workspace: WorkspaceId,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<RunId>> {
        self.claim_one_workspace(node, workspace, now, limit).await
    }

    async fn owned_runs(&self, node: NodeId) -> Result<Vec<RunId>> {
        let runs = self.heartbeat.query(query!("owned_runs"), params! { "node": node.uuid() }).await?;
        runs.iter().map(|row| columns::get(row, 0).map(RunId::from_uuid)).collect()
    }

    async fn next_wake(&self, lane: &str) -> Result<Option<Timestamp>> {
        if texts::has_nul(lane) {
            return Ok(None);
        }
        let row = self
            .connections
            .query_opt(query!("next_wake"), params! { "lane": lane, "format": numbers::checked_integer(FORMAT)? })
            .await?;
        let wake = row.map(|row| columns::time(&row, 0)).transpose()?;
        Ok(wake.filter(|wake| *wake != Timestamp::NEVER))
    }

    async fn inbox(&self, node: NodeId, after: Option<InboxId>, limit: usize) -> Result<Vec<InboxRow>> {
        self.heartbeat
            .query(
                query!("inbox"),
                params! {
                    "after": after.map_or(0, |id| id.0),
                    "node": node.uuid(),
                    "limit": numbers::clamp_limit(limit),
                },
            )
            .await?
            .iter()
            .map(rows::read_inbox_row)
            .collect()
    }

    async fn arrivals(&self, run: RunId) -> Result<Vec<InboxRow>> {
        let rows = self.connections.query(query!("arrivals"), params! { "run": run.uuid() }).await?;
        rows.iter().map(rows::read_inbox_row).collect()
    }

    async fn load_run(&self, run: RunId) -> Result<Option<StoredRun>> {
        self.load(run).await
    }

    async fn put_snapshot(&self, run: RunId, snapshot: Snapshot) -> Result<()> {
        let (codec, state) = pack::pack(snapshot.state);
        self.connections
            .execute(
                query!("put_snapshot"),
                params! {
                    "seq": numbers::checked_seq(snapshot.seq)?,
                    "format": numbers::checked_integer(snapshot.format)?,
                    "codec": i16::from(codec.number()),
                    "state": state.as_slice(),
                    "run": run.uuid(),
                },
            )
            .await?;
        Ok(())
    }

    async fn journal(&self, run: RunId, after: u64, limit: usize) -> Result<Vec<StoredEntry>> {
        self.connections
            .query(
                query!("journal"),
                params! {
                    "run": run.uuid(),
                    "after": numbers::clamp_seq(after),
                    "limit": numbers::clamp_limit(limit),
                },
            )
            .await?
            .iter()
            .map(rows::entry_from_row)
            .collect()
    }

    async fn get_run(&self, workspace: WorkspaceId, run: RunId) -> Result<Option<RunRow>> {
        let row = self
            .connections
            .query_opt(query!("get_run"), params! { "run": run.uuid(), "workspace": workspace.uuid() })
            .await?;
        row.as_ref().map(rows::run_from_row).transpose()
    }

    async fn keyed_run(&self, workspace: WorkspaceId, scope: &str, key: &str) -> Result<Option<RunId>> {
        if texts::has_nul(scope) || texts::has_nul(key) {
            return Ok(None);
        }
        let workspace = workspace.uuid();
        let params = params! { "workspace": workspace, "scope": scope, "key": key };
        let row = self.connections.query_opt(query!("keyed_run"), params).await?;
        row.map(|row| columns::get(&row, 0).map(RunId::from_uuid)).transpose()
    }

    async fn glance(&self, workspace: WorkspaceId, run: RunId) -> Result<Option<RunGlance>> {
        let row = self
            .connections
            .query_opt(query!("glance"), params! { "run": run.uuid(), "workspace": workspace.uuid() })
            .await?;
        row.as_ref().map(rows::glance_from_row).transpose()
    }

    async fn list_runs(
        &self,
        workspace: WorkspaceId,
        filter: RunFilter,
        after: Option<(Timestamp, RunId)>,
        limit: usize,
    ) -> Result<RunPage> {
        self.read_page(workspace, &filter, after, limit).await
    }

    async fn fork_run(&self, workspace: WorkspaceId, source: RunId, fork: NewFork) -> Result<Option<u64>> {
        self.fork(workspace, source, fork).await
    }

    async fn hold_start(&self, run: RunId, hold: HeldStart, side: SideWrites) -> Result<bool> {
        self.hold(run, &hold, &side).await
    }

    async fn delete_test_run(&self, workspace: WorkspaceId, run: RunId) -> Result<bool> {
        let (workspace, run) = (workspace.uuid(), run.uuid());
        let params = params! { "run": run, "workspace": workspace };
        let row = self.connections.query_one(query!("delete_test_run"), params).await?;
        Ok(columns::get::<i64>(&row, 0)? == 1)
    }

    async fn add_counts(&self, workspace: WorkspaceId, deltas: Vec<Counts>, stats: Vec<MinuteStats>) -> Result<()> {
        let figures = |of: fn(&RunStats) -> i64| stats.iter().map(|minute| of(&minute.stats)).collect::<Vec<_>>();
        let durations: Vec<_> = stats.iter().map(|minute| array_text(&minute.stats.durations)).collect();
        self.connections
            .execute(
                query!("add_counts"),
                params! {
                    "workspace": workspace.uuid(),
                    "workflows": deltas.iter().map(|delta| delta.workflow.as_str()).collect::<Vec<_>>(),
                    "statuses": deltas.iter().map(|delta| delta.status.as_str()).collect::<Vec<_>>(),
                    "numbers": deltas.iter().map(|delta| delta.n).collect::<Vec<_>>(),
                    "minutes": stats.iter().map(|minute| minute.minute).collect::<Vec<_>>(),
                    "stat_workflows": stats.iter().map(|minute| minute.workflow.as_str()).collect::<Vec<_>>(),
                    "started": figures(|stats| stats.started),
                    "completed": figures(|stats| stats.completed),
                    "failed": figures(|stats| stats.failed),
                    "cancelled": figures(|stats| stats.cancelled),
                    "durations": durations,
                },
            )
            .await?;
        Ok(())
    }

    async fn run_stats(&self, workspace: WorkspaceId, query: StatsQuery) -> Result<Vec<(usize, RunStats)>> {
        let StatsQuery { since, until, every, workflow } = query;
        if workflow.as_deref().is_some_and(texts::has_nul) {
            return Ok(Vec::new());
        }
        let (workspace, every, workflow) = (workspace.uuid(), every.max(1), workflow.as_deref());
        let params = params! {
            "since": since, "every": every, "workspace": workspace, "until": until, "workflow": workflow,
        };
        let rows = self.connections.query(query!("run_stats"), params).await?;
        rows.iter().map(rows::stats_from_row).collect()
    }

    /// Counts all runs. This statement reads the whole table, so sequential scans are allowed for it.
    async fn recount(&self) -> Result<()> {
        let connection = self.connections.get_for(RECOUNT_TIMEOUT).await?;
        connection.begin("begin").await?;
        connection.define("set local statement_timeout = 0; set local enable_seqscan = on").await?;
        for query in [query!("recount/1_lock"), query!("recount/2_clear"), query!("recount/3_count")] {
            connection.execute(query, &[]).await?;
        }
        Ok(connection.commit().await?)
    }

    async fn list_waits(
        &self,
        workspace: WorkspaceId,
        kind: WaitKind,
        workflow: Option<String>,
        after: Option<(RunId, StepKey)>,
        limit: usize,
    ) -> Result<Vec<WaitRow>> {
        let (run, step) = after.as_ref().map_or((Uuid::nil(), ""), |(run, step)| (run.uuid(), step.as_str()));
        if [workflow.as_deref(), Some(step)].into_iter().flatten().any(texts::has_nul) {
            return Ok(Vec::new());
        }
        let (workspace, kind, workflow) = (workspace.uuid(), kind.as_str(), workflow.as_deref());
        let limit = numbers::clamp_limit(limit);
        let params = params! {
            "workspace": workspace, "kind": kind, "run": run, "step": step, "workflow": workflow, "limit": limit,
        };
        let rows = self.connections.query(query!("list_waits"), params).await?;
        rows.iter().map(rows::wait_from_row).collect()
    }

    async fn counts(&self, workspace: WorkspaceId) -> Result<Vec<Counts>> {
        let rows = self.connections.query(query!("counts"), params! { "workspace": workspace.uuid() }).await?;
        rows.iter().map(rows::count_from_row).collect()
    }

    async fn sweep(&self, now: Timestamp, limit: usize) -> Result<usize> {
        self.delete_expired(now, limit).await
    }

    async fn maintain(&self, now: Timestamp) -> Result<()> {
        self.maintain_partitions(now).await
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn calls(&self) -> u64 {
        self.connections.calls() + self.heartbeat.calls()
    }

    fn space(&self) -> Space {
        self.connections.full.space()
    }
}

/// An array of numbers in the notation of PostgreSQL.
fn array_text(numbers: &[i64]) -> String {
    format!("{{{}}}", numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(","))
}
