//! The `Store`: one thread that writes, a few that read.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use everstep_core::ids::{NodeId, RunId, WorkspaceId};
use everstep_core::payload::Payload;
use everstep_core::time::Timestamp;
use uuid::Uuid;

use super::database::Database;
use super::folder::Folder;
use super::threads::Threads;
use crate::access::{AuditFilter, AuditRow, KeyRow, WorkspaceRow};
use crate::error::Result;
use crate::expects::{Choice, Expects, Put, Registered};
use crate::filter::RunFilter;
use crate::item::{InboxId, Item, Outcome, Wait};
use crate::pack::Packed;
use crate::resources::{ResourceKind, ResourceRow};
use crate::rows::{
    Arrival, Counts, Deletion, Loaded, NewWorkflow, NodeRow, RunPage, RunRow, Snapshot, StoredEntry, Tick, VersionRow,
    Wants, WorkflowRow, WorkflowSummary,
};
use crate::store::Store;

#[derive(Clone, Debug)]
pub struct Options {
    /// How many reads may go on at once.
    pub readers: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { readers: 2 }
    }
}

/// A data folder with a SQLite database, locked for this process.
pub struct SqliteStore {
    // Dropped in this order: the last connection to close is the writer's, which leaves one tidy file behind,
    // and the folder is unlocked after that.
    readers: Threads,
    writer: Threads,
    _folder: Folder,
    calls: AtomicU64,
}

impl SqliteStore {
    /// Opens a data folder, which is created if need be. Runs that are owned belonged to a process
    /// that is gone; they are released.
    pub fn open(folder: &Path, options: &Options) -> Result<Self> {
        let folder = Folder::lock(folder)?;
        let path = folder.database();
        let mut writer = Database::open(&path)?;
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        writer.release_all(Timestamp::EPOCH.plus(since))?;
        let readers = (0..options.readers.max(1)).map(|_| Database::open_reader(&path)).collect::<Result<Vec<_>>>()?;
        Ok(Self {
            readers: Threads::start("store-reader", readers)?,
            writer: Threads::start("store-writer", vec![writer])?,
            _folder: folder,
            calls: AtomicU64::new(0),
        })
    }

    /// Fences every node and makes all their runs claimable at `now`. Returns how many.
    pub async fn release_all(&self, now: Timestamp) -> Result<usize> {
        self.write(move |database| database.release_all(now)).await
    }

    /// Limits the file to a number of pages; a call that needs more is answered [`crate::Error::Full`].
    pub async fn set_max_pages(&self, pages: u32) -> Result<()> {
        self.write(move |database| database.set_max_pages(pages)).await
    }

    /// How many pages the file has.
    pub async fn pages(&self) -> Result<u32> {
        self.write(|database| database.pages()).await
    }

    async fn write<T: Send + 'static>(
        &self,
        call: impl FnOnce(&mut Database) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.writer.call(call).await
    }

    async fn read<T: Send + 'static>(&self, call: impl FnOnce(&Database) -> Result<T> + Send + 'static) -> Result<T> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.readers.call(move |database| call(database)).await
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn join(&self, node: NodeId, lease: Duration, address: Option<String>) -> Result<Timestamp> {
        self.write(move |database| database.join(node, lease, address.as_deref())).await
    }

    async fn tick(&self, node: NodeId, lease: Duration, now: Timestamp, wants: &Wants) -> Result<Tick> {
        let wants = wants.clone();
        self.write(move |database| database.tick(node, lease, now, &wants)).await
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

    async fn release_runs(&self, now: Timestamp, limit: usize) -> Result<usize> {
        self.write(move |database| database.release_runs(now, limit)).await
    }

    async fn commit(&self, node: NodeId, items: &[Item]) -> Result<Vec<Outcome>> {
        let packed: Vec<_> = items.iter().map(Packed::owned).collect();
        self.write(move |database| database.commit_packed(node, &packed)).await
    }

    async fn claim_runs(&self, node: NodeId, lane: &str, now: Timestamp, limit: usize) -> Result<Vec<RunId>> {
        let lane = lane.to_owned();
        self.write(move |database| database.claim_runs(node, &lane, now, limit)).await
    }

    async fn owned_runs(&self, node: NodeId) -> Result<Vec<RunId>> {
        self.read(move |database| database.owned_runs(node)).await
    }

    async fn next_wake(&self, lane: &str) -> Result<Option<Timestamp>> {
        let lane = lane.to_owned();
        self.read(move |database| database.next_wake(&lane)).await
    }

    async fn inbox(&self, node: NodeId, after: Option<InboxId>, limit: usize) -> Result<Vec<Arrival>> {
        self.read(move |database| database.inbox(node, after, limit)).await
    }

    async fn arrivals(&self, run: RunId) -> Result<Vec<Arrival>> {
        self.read(move |database| database.arrivals(run)).await
    }

    async fn save_workflow(&self, workflow: NewWorkflow, activate: bool, expects: Expects) -> Result<Put> {
        self.write(move |database| database.save_workflow(&workflow, activate, expects)).await
    }

    async fn register_workflows(&self, workflows: Vec<(NewWorkflow, u32)>) -> Result<Vec<Registered>> {
        self.write(move |database| database.register_workflows(&workflows)).await
    }

    async fn choose_version(
        &self,
        workspace: WorkspaceId,
        name: &str,
        version: u32,
        expects: Expects,
    ) -> Result<Choice> {
        let name = name.to_owned();
        self.write(move |database| database.choose_version(workspace, &name, version, expects)).await
    }

    async fn delete_workflow(&self, workspace: WorkspaceId, name: &str) -> Result<Deletion> {
        let name = name.to_owned();
        self.write(move |database| database.delete_workflow(workspace, &name)).await
    }

    async fn put_snapshot(&self, run: RunId, snapshot: Snapshot) -> Result<()> {
        self.write(move |database| database.put_snapshot(run, snapshot)).await
    }

    async fn add_counts(&self, workspace: WorkspaceId, deltas: Vec<Counts>) -> Result<()> {
        self.write(move |database| database.add_counts(workspace, &deltas)).await
    }

    async fn recount(&self) -> Result<()> {
        self.write(Database::recount).await
    }

    async fn fork_run(
        &self,
        workspace: WorkspaceId,
        source: RunId,
        at: u64,
        run: RunId,
        now: Timestamp,
    ) -> Result<Option<u64>> {
        self.write(move |database| database.fork_run(workspace, source, at, run, now)).await
    }

    async fn delete_test_run(&self, workspace: WorkspaceId, run: RunId) -> Result<bool> {
        self.write(move |database| database.delete_test_run(workspace, run)).await
    }

    async fn sweep(&self, now: Timestamp, limit: usize) -> Result<usize> {
        let mut runs = 0;
        loop {
            let left = limit - runs;
            let swept = self.write(move |database| database.sweep(now, left)).await?;
            runs += swept.runs;
            if !swept.is_cut {
                return Ok(runs);
            }
        }
    }

    async fn maintain(&self, _now: Timestamp) -> Result<()> {
        self.write(Database::maintain).await
    }

    async fn setting(&self, name: &str, default: &[u8]) -> Result<Vec<u8>> {
        let (name, default) = (name.to_owned(), default.to_owned());
        self.write(move |database| database.setting(&name, &default)).await
    }

    async fn add_key(&self, key: &KeyRow) -> Result<()> {
        let key = key.clone();
        self.write(move |database| database.add_key(&key)).await
    }

    async fn add_first_key(&self, key: &KeyRow) -> Result<bool> {
        let key = key.clone();
        self.write(move |database| database.add_first_key(&key)).await
    }

    async fn find_key(&self, hash: &[u8; 32]) -> Result<Option<KeyRow>> {
        let hash = *hash;
        self.read(move |database| database.find_key(&hash)).await
    }

    async fn list_keys(&self, workspace: WorkspaceId) -> Result<Vec<KeyRow>> {
        self.read(move |database| database.list_keys(workspace)).await
    }

    async fn revoke_key(&self, workspace: WorkspaceId, id: Uuid, now: Timestamp) -> Result<Option<KeyRow>> {
        self.write(move |database| database.revoke_key(workspace, id, now)).await
    }

    async fn add_workspace(&self, row: &WorkspaceRow) -> Result<bool> {
        let row = row.clone();
        self.write(move |database| database.add_workspace(&row)).await
    }

    async fn set_workspace_options(&self, id: WorkspaceId, options: &Payload) -> Result<bool> {
        let options = options.clone();
        self.write(move |database| database.set_workspace_options(id, &options)).await
    }

    async fn workspaces(&self) -> Result<Vec<WorkspaceRow>> {
        self.read(Database::workspaces).await
    }

    async fn add_audit(&self, rows: &[AuditRow]) -> Result<()> {
        let rows = rows.to_vec();
        self.write(move |database| database.add_audit(&rows)).await
    }

    async fn list_audit(
        &self,
        workspace: WorkspaceId,
        filter: AuditFilter,
        before: Option<Uuid>,
        limit: usize,
    ) -> Result<Vec<AuditRow>> {
        self.read(move |database| database.list_audit(workspace, &filter, before, limit)).await
    }

    async fn put_resource(&self, row: &ResourceRow) -> Result<bool> {
        let row = row.clone();
        self.write(move |database| database.put_resource(&row)).await
    }

    async fn resource(&self, workspace: WorkspaceId, kind: ResourceKind, name: &str) -> Result<Option<ResourceRow>> {
        let name = name.to_owned();
        self.read(move |database| database.resource(workspace, kind, &name)).await
    }

    async fn resources(
        &self,
        workspace: WorkspaceId,
        kind: ResourceKind,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<ResourceRow>> {
        let after = after.map(str::to_owned);
        self.read(move |database| database.resources(workspace, kind, after.as_deref(), limit)).await
    }

    async fn delete_resource(&self, workspace: WorkspaceId, kind: ResourceKind, name: &str) -> Result<bool> {
        let name = name.to_owned();
        self.write(move |database| database.delete_resource(workspace, kind, &name)).await
    }

    async fn load_run(&self, run: RunId) -> Result<Option<Loaded>> {
        self.read(move |database| database.load_run(run)).await
    }

    async fn get_run(&self, workspace: WorkspaceId, run: RunId) -> Result<Option<RunRow>> {
        self.read(move |database| database.get_run(workspace, run)).await
    }

    async fn find_run(&self, workspace: WorkspaceId, scope: &str, key: &str) -> Result<Option<RunRow>> {
        let (scope, key) = (scope.to_owned(), key.to_owned());
        self.read(move |database| database.find_run(workspace, &scope, &key)).await
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

    async fn journal(&self, run: RunId, after: u64, limit: usize) -> Result<Vec<StoredEntry>> {
        self.read(move |database| database.journal(run, after, limit)).await
    }

    async fn workflow(&self, workspace: WorkspaceId, name: &str, version: Option<u32>) -> Result<Option<WorkflowRow>> {
        let name = name.to_owned();
        self.read(move |database| database.workflow(workspace, &name, version)).await
    }

    async fn list_workflows(
        &self,
        workspace: WorkspaceId,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<WorkflowSummary>> {
        let after = after.map(str::to_owned);
        self.read(move |database| database.list_workflows(workspace, after.as_deref(), limit)).await
    }

    async fn list_versions(
        &self,
        workspace: WorkspaceId,
        name: &str,
        before: Option<u32>,
        limit: usize,
    ) -> Result<Vec<VersionRow>> {
        let name = name.to_owned();
        self.read(move |database| database.list_versions(workspace, &name, before, limit)).await
    }

    async fn waits_for(&self, workspace: WorkspaceId, event: &str, limit: usize) -> Result<Vec<(RunId, Wait)>> {
        let event = event.to_owned();
        self.read(move |database| database.waits_for(workspace, &event, limit)).await
    }

    async fn counts(&self, workspace: WorkspaceId) -> Result<Vec<Counts>> {
        self.read(move |database| database.counts(workspace)).await
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }
}
