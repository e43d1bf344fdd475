//! The `Store`: each verb on a connection of a pool.

use std::time::Duration;

use async_trait::async_trait;
use everstep_core::ids::{NodeId, RunId, WorkspaceId};
use everstep_core::payload::Payload;
use everstep_core::time::Timestamp;
use tokio::sync::Mutex;
use uuid::Uuid;

use super::connections::Connections;
use super::url::Address;
use super::{schema, server};
use crate::access::{AuditFilter, AuditRow, KeyRow, WorkspaceRow};
use crate::error::Result;
use crate::expects::{Choice, Expects, Put, Registered};
use crate::filter::RunFilter;
use crate::item::{InboxId, Item, Outcome, Wait};
use crate::resources::{ResourceKind, ResourceRow};
use crate::rows::{
    Arrival, Counts, Deletion, Loaded, NewWorkflow, NodeRow, RunPage, RunRow, Snapshot, StoredEntry, Tick, VersionRow,
    Wants, WorkflowRow, WorkflowSummary,
};
use crate::store::Store;

#[derive(Clone, Debug)]
pub struct Options {
    /// Whether a pooler (PgBouncer in transaction mode) stands in between: statements are then not prepared,
    /// and nothing is set for longer than a transaction.
    pub pooled: bool,
    /// How many connections there may be at once; two at least.
    pub connections: usize,
    pub connect_timeout: Duration,
    /// How long a call may take before its outcome is unknown.
    pub call_timeout: Duration,
    /// How long a call of a node's heartbeat may take: so short that another try is in time for its lease.
    pub heartbeat_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            pooled: false,
            connections: 10,
            connect_timeout: Duration::from_secs(5),
            call_timeout: Duration::from_secs(10),
            heartbeat_timeout: Duration::from_secs(5),
        }
    }
}

/// A PostgreSQL database that other nodes may use too.
pub struct PostgresStore {
    pub(super) connections: Connections,
    /// For what a node asks in its tick, one thing after the other: it waits for no other caller, nor for long.
    pub(super) heartbeat: Connections,
    /// Held by whoever tells of new partitions.
    pub(super) telling: Mutex<()>,
}

impl PostgresStore {
    /// Connects to `postgres://user:password@host:port/name?sslmode=…` and brings the database to the newest schema.
    /// Several nodes may do so at once.
    pub async fn open(url: &str, options: &Options) -> Result<Self> {
        let address = Address::parse(url)?;
        let connections = Connections::new(&address, options, options.connections.max(2) - 1)?;
        let hurried = Options { call_timeout: options.heartbeat_timeout, ..options.clone() };
        let heartbeat = Connections::new(&address, &hurried, 2)?;
        let server = server::greet(&connections, &address).await?;
        schema::migrate(&connections, &server).await?;
        let store = Self { connections, heartbeat, telling: Mutex::new(()) };
        store.make_partitions_ahead(server.clock).await?;
        Ok(store)
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn join(&self, node: NodeId, lease: Duration, address: Option<String>) -> Result<Timestamp> {
        self.add_node(node, lease, address).await
    }

    async fn tick(&self, node: NodeId, lease: Duration, now: Timestamp, wants: &Wants) -> Result<Tick> {
        self.tick_node(node, lease, now, wants).await
    }

    async fn nodes(&self) -> Result<Vec<NodeRow>> {
        self.read_nodes().await
    }

    async fn fence(&self, node: NodeId, seen: Timestamp) -> Result<bool> {
        self.fence_node(node, seen).await
    }

    async fn leave(&self, node: NodeId, now: Timestamp) -> Result<()> {
        self.remove_node(node, now).await
    }

    async fn release_runs(&self, now: Timestamp, limit: usize) -> Result<usize> {
        self.release(now, limit).await
    }

    async fn commit(&self, node: NodeId, items: &[Item]) -> Result<Vec<Outcome>> {
        self.commit_items(node, items).await
    }

    async fn claim_runs(&self, node: NodeId, lane: &str, now: Timestamp, limit: usize) -> Result<Vec<RunId>> {
        self.claim(node, lane, now, limit).await
    }

    async fn owned_runs(&self, node: NodeId) -> Result<Vec<RunId>> {
        self.read_owned_runs(node).await
    }

    async fn next_wake(&self, lane: &str) -> Result<Option<Timestamp>> {
        self.read_next_wake(lane).await
    }

    async fn inbox(&self, node: NodeId, after: Option<InboxId>, limit: usize) -> Result<Vec<Arrival>> {
        self.read_inbox(node, after, limit).await
    }

    async fn arrivals(&self, run: RunId) -> Result<Vec<Arrival>> {
        self.read_arrivals(run).await
    }

    async fn save_workflow(&self, workflow: NewWorkflow, activate: bool, expects: Expects) -> Result<Put> {
        self.save(&workflow, activate, expects).await
    }

    async fn register_workflows(&self, workflows: Vec<(NewWorkflow, u32)>) -> Result<Vec<Registered>> {
        self.register(&workflows).await
    }

    async fn choose_version(
        &self,
        workspace: WorkspaceId,
        name: &str,
        version: u32,
        expects: Expects,
    ) -> Result<Choice> {
        self.choose(workspace, name, version, expects).await
    }

    async fn delete_workflow(&self, workspace: WorkspaceId, name: &str) -> Result<Deletion> {
        self.remove_workflow(workspace, name).await
    }

    async fn put_snapshot(&self, run: RunId, snapshot: Snapshot) -> Result<()> {
        self.replace_snapshot(run, snapshot).await
    }

    async fn add_counts(&self, workspace: WorkspaceId, deltas: Vec<Counts>) -> Result<()> {
        self.count(workspace, &deltas).await
    }

    async fn recount(&self) -> Result<()> {
        self.count_anew().await
    }

    async fn fork_run(
        &self,
        workspace: WorkspaceId,
        source: RunId,
        at: u64,
        run: RunId,
        now: Timestamp,
    ) -> Result<Option<u64>> {
        self.fork(workspace, source, at, run, now).await
    }

    async fn delete_test_run(&self, workspace: WorkspaceId, run: RunId) -> Result<bool> {
        self.remove_test_run(workspace, run).await
    }

    async fn sweep(&self, now: Timestamp, limit: usize) -> Result<usize> {
        self.delete_expired(now, limit).await
    }

    async fn maintain(&self, now: Timestamp) -> Result<()> {
        self.maintain_partitions(now).await
    }

    async fn setting(&self, name: &str, default: &[u8]) -> Result<Vec<u8>> {
        self.agree(name, default).await
    }

    async fn add_key(&self, key: &KeyRow) -> Result<()> {
        self.insert_key(key).await
    }

    async fn add_first_key(&self, key: &KeyRow) -> Result<bool> {
        self.insert_first_key(key).await
    }

    async fn find_key(&self, hash: &[u8; 32]) -> Result<Option<KeyRow>> {
        self.read_key(hash).await
    }

    async fn list_keys(&self, workspace: WorkspaceId) -> Result<Vec<KeyRow>> {
        self.read_keys(workspace).await
    }

    async fn revoke_key(&self, workspace: WorkspaceId, id: Uuid, now: Timestamp) -> Result<Option<KeyRow>> {
        self.revoke(workspace, id, now).await
    }

    async fn add_workspace(&self, row: &WorkspaceRow) -> Result<bool> {
        self.insert_workspace(row).await
    }

    async fn set_workspace_options(&self, id: WorkspaceId, options: &Payload) -> Result<bool> {
        self.replace_workspace_options(id, options).await
    }

    async fn workspaces(&self) -> Result<Vec<WorkspaceRow>> {
        self.read_workspaces().await
    }

    async fn add_audit(&self, rows: &[AuditRow]) -> Result<()> {
        self.insert_audit(rows).await
    }

    async fn list_audit(
        &self,
        workspace: WorkspaceId,
        filter: AuditFilter,
        before: Option<Uuid>,
        limit: usize,
    ) -> Result<Vec<AuditRow>> {
        self.read_audit(workspace, &filter, before, limit).await
    }

    async fn put_resource(&self, row: &ResourceRow) -> Result<bool> {
        self.save_resource(row).await
    }

    async fn resource(&self, workspace: WorkspaceId, kind: ResourceKind, name: &str) -> Result<Option<ResourceRow>> {
        self.read_resource(workspace, kind, name).await
    }

    async fn resources(
        &self,
        workspace: WorkspaceId,
        kind: ResourceKind,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<ResourceRow>> {
        self.read_resources(workspace, kind, after, limit).await
    }

    async fn delete_resource(&self, workspace: WorkspaceId, kind: ResourceKind, name: &str) -> Result<bool> {
        self.remove_resource(workspace, kind, name).await
    }

    async fn load_run(&self, run: RunId) -> Result<Option<Loaded>> {
        self.load(run).await
    }

    async fn get_run(&self, workspace: WorkspaceId, run: RunId) -> Result<Option<RunRow>> {
        self.read_run(workspace, run).await
    }

    async fn find_run(&self, workspace: WorkspaceId, scope: &str, key: &str) -> Result<Option<RunRow>> {
        self.read_keyed_run(workspace, scope, key).await
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

    async fn journal(&self, run: RunId, after: u64, limit: usize) -> Result<Vec<StoredEntry>> {
        self.read_journal(run, after, limit).await
    }

    async fn workflow(&self, workspace: WorkspaceId, name: &str, version: Option<u32>) -> Result<Option<WorkflowRow>> {
        self.read_workflow(workspace, name, version).await
    }

    async fn list_workflows(
        &self,
        workspace: WorkspaceId,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<WorkflowSummary>> {
        self.read_workflows(workspace, after, limit).await
    }

    async fn list_versions(
        &self,
        workspace: WorkspaceId,
        name: &str,
        before: Option<u32>,
        limit: usize,
    ) -> Result<Vec<VersionRow>> {
        self.read_versions(workspace, name, before, limit).await
    }

    async fn waits_for(&self, workspace: WorkspaceId, event: &str, limit: usize) -> Result<Vec<(RunId, Wait)>> {
        self.read_waits(workspace, event, limit).await
    }

    async fn counts(&self, workspace: WorkspaceId) -> Result<Vec<Counts>> {
        self.read_counts(workspace).await
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn calls(&self) -> u64 {
        self.connections.calls() + self.heartbeat.calls()
    }
}
