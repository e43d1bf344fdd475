//! The contract. Every promise here is proved by `everstep_testkit::contract`.

use std::time::Duration;

use async_trait::async_trait;
use everstep_core::ids::{NodeId, RunId, WorkspaceId};
use everstep_core::payload::Payload;
use everstep_core::time::Timestamp;
use uuid::Uuid;

use crate::access::{AuditFilter, AuditRow, KeyRow, WorkspaceRow};
use crate::error::{Error, Result};
use crate::expects::{Choice, Expects, Put, Registered};
use crate::filter::RunFilter;
use crate::item::{Item, Outcome};
use crate::resources::{ResourceKind, ResourceRow};
use crate::rows::{
    Arrival, Counts, Deletion, Loaded, NewWorkflow, NodeRow, RunPage, RunRow, Snapshot, StoredEntry, Tick, VersionRow,
    Wants, WorkflowRow, WorkflowSummary,
};

#[async_trait]
pub trait Store: Send + Sync {
    /// Registers a node under an id that was never used before ([`crate::Error::Refused`] if it was).
    /// Its lease runs from the database's clock.
    /// Returns the database's clock.
    async fn join(&self, node: NodeId, lease: Duration, address: Option<String>) -> Result<Timestamp>;

    /// All that a node asks of the database once a second, in one call and at one moment:
    ///
    /// 1. Renews its lease by the database's clock, also an expired one. When the node is fenced or unknown
    ///    ([`crate::Error::Fenced`]), nothing else happens.
    /// 2. Releases runs of fenced owners, as [`Store::release_runs`] does.
    /// 3. Claims due runs of each lane, as [`Store::claim_runs`] does. What was released in the same tick
    ///    is claimed in the next.
    /// 4. Reads the oldest rows of the inbox, as [`Store::inbox`] does.
    async fn tick(&self, node: NodeId, lease: Duration, now: Timestamp, wants: &Wants) -> Result<Tick>;

    /// All nodes that have joined and not been forgotten.
    async fn nodes(&self) -> Result<Vec<NodeRow>>;

    /// Fences a node if its lease still ends at `seen` and has expired by the database's clock.
    /// From then on it commits nothing; what it had in flight is visible to whoever claims its runs.
    /// It is not fenced while something of it is in flight: then ask again.
    async fn fence(&self, node: NodeId, seen: Timestamp) -> Result<bool>;

    /// Gives a node's own runs back (`wake_at` = `now`) and fences it. For a node that leaves in order.
    async fn leave(&self, node: NodeId, now: Timestamp) -> Result<()>;

    /// Makes at most `limit` runs of fenced owners claimable at `now`. Returns how many.
    async fn release_runs(&self, now: Timestamp, limit: usize) -> Result<usize>;

    /// Writes the items of many runs in one durable transaction.
    ///
    /// * Nothing is written when `node` is not a live member ([`crate::Error::Fenced`]).
    /// * Each item is all or nothing, and independent of its neighbours. Its outcome stands at its place.
    /// * An item with entries is gated by its first entry, one without by its run's row.
    ///   One without entries leaves no trace to recognise it by: resent, it is applied again or `Lost`.
    /// * A message to a run that has ended is dropped; its place holds `InboxId(0)`. One to a run that does not
    ///   exist (yet) is kept, and swept after an hour.
    /// * A run whose projection has an end time loses its waits.
    /// * A start without a projection is pending, unowned and due at its creation.
    /// * On an error nothing was written or the outcome is unknown; the same items may be sent again
    ///   and are then answered `Duplicate` if they had been written.
    ///   `Refused` and `Full` are certain: nothing was written.
    /// * No two items of one call are of the same run.
    async fn commit(&self, node: NodeId, items: &[Item]) -> Result<Vec<Outcome>>;

    /// Makes `node` the owner of at most `limit` runs of `lane` that nobody owns and that are due, oldest first.
    /// Two nodes never claim the same run. Runs of a newer format than ours are left alone.
    /// Nothing is claimed when `node` is not a live member ([`crate::Error::Fenced`]).
    async fn claim_runs(&self, node: NodeId, lane: &str, now: Timestamp, limit: usize) -> Result<Vec<RunId>>;

    /// The runs that `node` owns. What it claimed without learning of it is among them.
    async fn owned_runs(&self, node: NodeId) -> Result<Vec<RunId>>;

    /// The earliest `wake_at` of an unowned run of `lane` that has not ended; `None` when there is none
    /// or all of them wait without a timeout.
    async fn next_wake(&self, lane: &str) -> Result<Option<Timestamp>>;

    /// The oldest inbox rows, after `after`, of runs that `node` owns or nobody owns, and that have not ended.
    /// Reading deletes nothing: the item that answers a row does. Rows of runs that do not exist are not among them.
    /// On a shared database a row may appear after one with a greater id: who reads on from the last row
    /// must begin anew now and then.
    async fn inbox(&self, node: NodeId, after: Option<crate::InboxId>, limit: usize) -> Result<Vec<Arrival>>;

    /// The inbox rows of one run, existing or not, oldest first.
    async fn arrivals(&self, run: RunId) -> Result<Vec<Arrival>>;

    /// Saves an immutable version and makes it the active one when `activate`.
    /// The same digest as the newest version returns that version and `false`.
    /// Of two at once, the later version stays active. A workflow that was deleted is new, and its numbers go on.
    async fn put_workflow(&self, workflow: NewWorkflow, activate: bool) -> Result<(u32, bool)> {
        match self.save_workflow(workflow, activate, Expects::Anything).await? {
            Put::Saved { version, is_new, .. } => Ok((version, is_new)),
            Put::Unexpected { .. } => unreachable!("nothing was expected"),
            Put::OtherStyle(style) => {
                Err(Error::Refused(format!("there is a workflow of that name, of style {style}")))
            }
        }
    }

    /// As [`Store::put_workflow`], if the workflow is as expected. Of two at once, one is first.
    /// A workflow that is written as code has versions of no other style.
    async fn save_workflow(&self, workflow: NewWorkflow, activate: bool, expects: Expects) -> Result<Put>;

    /// Saves versions under numbers of their own, which whoever wrote them has chosen. Each is answered in its place.
    ///
    /// * A version becomes the active one when it is brought for the first time, if it is the newest that was brought.
    /// * A version that is there stays as it is, but for its retention: the last word counts.
    /// * A version without a digest is only named: it is there, and nothing else changes, until somebody brings it.
    /// * A workflow of that name and another style stays as it is, and then nothing of the list is written.
    /// * A workflow that was deleted is new, also under numbers that it had; unless runs refer to versions
    ///   of another style that have these numbers.
    /// * When nothing changes, nothing is written and nobody waits.
    async fn register_workflows(&self, workflows: Vec<(NewWorkflow, u32)>) -> Result<Vec<Registered>>;

    /// Makes a version the one that new runs take. `false`: there is no such version.
    async fn activate_workflow(&self, workspace: WorkspaceId, name: &str, version: u32) -> Result<bool> {
        Ok(self.choose_version(workspace, name, version, Expects::Anything).await? == Choice::Chosen)
    }

    /// As [`Store::activate_workflow`], if the workflow is as expected. Of two at once, one is first.
    async fn choose_version(
        &self,
        workspace: WorkspaceId,
        name: &str,
        version: u32,
        expects: Expects,
    ) -> Result<Choice>;

    /// Deletes a workflow of which no run goes on. Its versions are listed no more; who knows the number of one
    /// finds it for a day at least, and as long as runs refer to it: a start that has read it may still begin.
    async fn delete_workflow(&self, workspace: WorkspaceId, name: &str) -> Result<Deletion>;

    /// Replaces a run's snapshot, unless a later one is there or the run is gone.
    async fn put_snapshot(&self, run: RunId, snapshot: Snapshot) -> Result<()>;

    /// Adds to the counts of runs per workflow and status.
    async fn add_counts(&self, workspace: WorkspaceId, deltas: Vec<Counts>) -> Result<()>;

    /// Counts all runs anew. What is added meanwhile and was counted already is counted twice.
    async fn recount(&self) -> Result<()>;

    /// Makes a new run that begins as another did: it has the same workflow, version, input and tags, and the entries
    /// up to the end of the item that holds entry `at`. Nobody owns it, it is running and due at `now`,
    /// has no parent and no idempotency key, and opens no waits. The other run stays as it is.
    /// Returns how far the journal was copied; `None` when there is no such run or entry.
    async fn fork_run(
        &self,
        workspace: WorkspaceId,
        source: RunId,
        at: u64,
        run: RunId,
        now: Timestamp,
    ) -> Result<Option<u64>>;

    /// Deletes a test run that has ended, with all that belongs to it. `false`: there is no such run.
    async fn delete_test_run(&self, workspace: WorkspaceId, run: RunId) -> Result<bool>;

    /// Deletes at most `limit` ended runs whose retention is over (test runs: an hour after their end), with all
    /// that belongs to them, and hour-old inbox rows of ended or missing runs. Returns how many runs.
    /// They are taken off the counts.
    /// Forgets fenced nodes a day after their lease, once they own nothing, rows of the audit after 365 days,
    /// and versions of deleted workflows a day after, once no run refers to any of them.
    async fn sweep(&self, now: Timestamp, limit: usize) -> Result<usize>;

    /// Does what a database needs now and then, in small bites: gives free space back, prepares the weeks to come.
    async fn maintain(&self, now: Timestamp) -> Result<()>;

    /// A setting that all nodes share. The first who asks stores its `default`; all others get that.
    async fn setting(&self, name: &str, default: &[u8]) -> Result<Vec<u8>>;

    /// Adds an API key ([`crate::Error::Refused`] if its id or its hash is taken).
    async fn add_key(&self, key: &KeyRow) -> Result<()>;

    /// Adds an API key only if there has never been one. Of two calls at once, one does.
    async fn add_first_key(&self, key: &KeyRow) -> Result<bool>;

    /// The key with a hash, unless it was revoked.
    async fn find_key(&self, hash: &[u8; 32]) -> Result<Option<KeyRow>>;

    /// The keys of a workspace, oldest first, revoked ones too.
    async fn list_keys(&self, workspace: WorkspaceId) -> Result<Vec<KeyRow>>;

    /// Revokes a key, which keeps the time at which it was revoked first. `None`: there is no such key.
    async fn revoke_key(&self, workspace: WorkspaceId, id: Uuid, now: Timestamp) -> Result<Option<KeyRow>>;

    /// Adds a workspace. `false`: its id or its name is taken. There is always the one called `default`.
    async fn add_workspace(&self, row: &WorkspaceRow) -> Result<bool>;

    /// Replaces the options of a workspace. `false`: there is no such workspace.
    async fn set_workspace_options(&self, id: WorkspaceId, options: &Payload) -> Result<bool>;

    /// All workspaces, by name.
    async fn workspaces(&self) -> Result<Vec<WorkspaceRow>>;

    /// Adds rows to the audit, all or none. A row that is there already is left as it is.
    async fn add_audit(&self, rows: &[AuditRow]) -> Result<()>;

    /// At most `limit` rows of the audit, newest first, before the row `before`.
    async fn list_audit(
        &self,
        workspace: WorkspaceId,
        filter: AuditFilter,
        before: Option<Uuid>,
        limit: usize,
    ) -> Result<Vec<AuditRow>>;

    /// Adds a resource (`true`), or replaces the body of the one with its name, which keeps its `created_at`.
    async fn put_resource(&self, row: &ResourceRow) -> Result<bool>;

    async fn resource(&self, workspace: WorkspaceId, kind: ResourceKind, name: &str) -> Result<Option<ResourceRow>>;

    /// At most `limit` resources of a kind, by name, after the name `after`.
    async fn resources(
        &self,
        workspace: WorkspaceId,
        kind: ResourceKind,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<ResourceRow>>;

    /// `false`: there is no such resource.
    async fn delete_resource(&self, workspace: WorkspaceId, kind: ResourceKind, name: &str) -> Result<bool>;

    /// A run with what is needed to own it, read at one moment.
    async fn load_run(&self, run: RunId) -> Result<Option<Loaded>>;

    async fn get_run(&self, workspace: WorkspaceId, run: RunId) -> Result<Option<RunRow>>;

    /// The run that holds an idempotency key.
    async fn find_run(&self, workspace: WorkspaceId, scope: &str, key: &str) -> Result<Option<RunRow>>;

    /// A page of runs, newest first, by keyset: what is added meanwhile moves nothing.
    /// It looks at no more than 10,000 runs: then the page is short, even empty, and still has a next one.
    async fn list_runs(
        &self,
        workspace: WorkspaceId,
        filter: RunFilter,
        after: Option<(Timestamp, RunId)>,
        limit: usize,
    ) -> Result<RunPage>;

    /// Entries with a seq above `after`, in order.
    async fn journal(&self, run: RunId, after: u64, limit: usize) -> Result<Vec<StoredEntry>>;

    /// One version of a workflow; `None` as version means the active one.
    async fn workflow(&self, workspace: WorkspaceId, name: &str, version: Option<u32>) -> Result<Option<WorkflowRow>>;

    /// At most `limit` workflows of a workspace, by name, after the name `after`. Deleted ones are not among them.
    async fn list_workflows(
        &self,
        workspace: WorkspaceId,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<WorkflowSummary>>;

    /// At most `limit` versions of a workflow, newest first, before the version `before`.
    async fn list_versions(
        &self,
        workspace: WorkspaceId,
        name: &str,
        before: Option<u32>,
        limit: usize,
    ) -> Result<Vec<VersionRow>>;

    /// Open waits for an event, oldest run first: `(run, wait)`.
    async fn waits_for(&self, workspace: WorkspaceId, event: &str, limit: usize) -> Result<Vec<(RunId, crate::Wait)>>;

    /// How many runs each workflow has in each status.
    async fn counts(&self, workspace: WorkspaceId) -> Result<Vec<Counts>>;

    /// Whether other nodes may use the same database.
    fn is_shared(&self) -> bool;

    /// How many calls this store has sent to the database since it was opened.
    fn calls(&self) -> u64;
}
