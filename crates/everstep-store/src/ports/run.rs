//! The port of the engine and the simulator: nodes, runs, journals and the inbox.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use everstep_core::ids::{NodeId, RunId, StepKey, WorkspaceId};
use everstep_core::time::Timestamp;

use crate::claims::ClaimResult;
use crate::error::Result;
use crate::filter::RunFilter;
use crate::item::{CommitOutcome, HeldStart, InboxId, Item, NewFork, SideWrites, WaitKind};
use crate::rows::{
    Counts, InboxRow, NodeRow, RunGlance, RunPage, RunRow, Snapshot, StoredEntry, StoredRun, Tick, TickRequest, WaitRow,
};
use crate::space::Space;
use crate::stats::{MinuteStats, RunStats, StatsQuery};

/// Every promise here is proved by `everstep_testkit::contract::runs`.
#[async_trait]
pub trait RunStore: Send + Sync {
    /// Registers a node under an id that was never used before ([`crate::Error::Refused`] if it was). Its lease is
    /// measured by the database's clock. Returns the database's clock.
    async fn join(&self, node: NodeId, lease: Duration, address: Option<String>) -> Result<Timestamp>;

    /// The periodic work of a node, once a second, in one call and in one snapshot:
    ///
    /// 1. Renews its lease by the database's clock, even an expired one. If the node is fenced or unknown
    ///    ([`crate::Error::Fenced`]), nothing else happens.
    /// 2. Makes runs of fenced owners claimable at `now`.
    /// 3. Claims due runs of each lane, as [`RunStore::claim_runs`] does. Runs that were released in this tick are
    ///    claimed in the next one.
    /// 4. Reads the oldest rows of the inbox, as [`RunStore::inbox`] does.
    /// 5. Reads whether the fan-out of an event that was published more than two seconds before `now` is not done.
    async fn tick(&self, node: NodeId, lease: Duration, now: Timestamp, request: &TickRequest) -> Result<Tick>;

    /// All nodes that have joined and were not deleted by a sweep.
    async fn nodes(&self) -> Result<Vec<NodeRow>>;

    /// Fences a node if its lease still ends at `seen` and has expired by the database's clock. From then on it commits
    /// nothing; the node that claims its runs sees every commit that was in flight. A node is not fenced while a commit
    /// of it is in flight: call again.
    async fn fence(&self, node: NodeId, seen: Timestamp) -> Result<bool>;

    /// Releases a node's own runs (`wake_at` = `now`) and fences the node. For an orderly shutdown.
    async fn leave(&self, node: NodeId, now: Timestamp) -> Result<()>;

    /// Writes the items of many runs in one durable transaction.
    ///
    /// * Nothing is written if `node` is not a live member ([`crate::Error::Fenced`]).
    /// * Each item is all or nothing, and independent of the others. Its outcome has the item's index.
    /// * An item with entries is gated by its first entry, one without entries by its run's row.
    ///   An item without entries cannot be recognised later: if it is resent, it is applied again or `Lost`.
    /// * An inbox input for a run that has ended is dropped. One for a run that does not exist (yet) is kept, and
    ///   deleted by a sweep after an hour.
    /// * A run whose projection has an end time loses its waits.
    /// * Side writes ([`crate::SideWrites`]) exist with their item or not at all. A row that exists does not change, so items
    ///   may share one: it exists if one of them was written.
    /// * A start without a projection is pending, unowned and due at its creation.
    /// * A start without entries writes the row of a run that begins later. It is recognised by the id of its run: if it
    ///   is resent, it is a `Duplicate`.
    /// * A start, and an item with a projection, raise the format of the run's row to the item's format, and never lower
    ///   it.
    /// * After an error either nothing was written or the outcome is unknown; the same items may be sent again
    ///   and are then answered `Duplicate` if they had been written.
    ///   After `Refused` and `Full` nothing was written.
    /// * No two items of one call belong to the same run.
    async fn commit(&self, node: NodeId, items: &[Item]) -> Result<Vec<CommitOutcome>>;

    /// The same, for items that the caller shares: a store that writes on another thread does not copy them.
    async fn commit_shared(&self, node: NodeId, items: Arc<Vec<Item>>) -> Result<Vec<CommitOutcome>> {
        self.commit(node, &items).await
    }

    /// Makes `node` the owner of at most `limit` unowned runs of `lane` that are due. The runs of a workspace are claimed
    /// oldest first. If more runs of the server's own lane are due than `limit`, the workspaces share the places: the
    /// claim begins with the workspace after `rotation`, and returns the rotation of the next claim. No workspace with
    /// due runs waits for more than its turn, whatever the backlogs of the others are.
    /// Two nodes never claim the same run. Runs of a newer format than this build's are not claimed, and a claim does not
    /// change the format of a run: a node of an earlier release may claim it afterwards.
    /// Nothing is claimed if `node` is not a live member ([`crate::Error::Fenced`]).
    async fn claim_runs(
        &self,
        node: NodeId,
        lane: &str,
        now: Timestamp,
        limit: usize,
        rotation: Option<WorkspaceId>,
    ) -> Result<ClaimResult>;

    /// The next workspaces after `after`, by their ids, that have unowned runs in the server's own lane: at most `limit`,
    /// each with whether one of its runs is due. Workspaces whose runs wait without a timeout are left out.
    async fn due_workspaces(
        &self,
        now: Timestamp,
        after: Option<WorkspaceId>,
        limit: usize,
    ) -> Result<Vec<(WorkspaceId, bool)>>;

    /// Like [`RunStore::claim_runs`] of the server's own lane, but only the runs of one workspace.
    async fn claim_workspace(
        &self,
        node: NodeId,
        workspace: WorkspaceId,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<RunId>>;

    /// The runs that `node` owns, including those of a claim whose reply was lost.
    async fn owned_runs(&self, node: NodeId) -> Result<Vec<RunId>>;

    /// The earliest `wake_at` of an unowned run of `lane` that has not ended; `None` if no such run exists or all of
    /// them wait without a timeout.
    async fn next_wake(&self, lane: &str) -> Result<Option<Timestamp>>;

    /// The oldest inbox rows after `after`, of runs that have not ended and that `node` owns or no node owns. Rows of an
    /// unowned run without a journal are left out: the node that claims the run loads them with it. Reading deletes
    /// nothing: the item that answers a row deletes it. Rows of runs that do not exist are left out. On a
    /// shared database a row may become visible after a row with a greater id, so a reader that continues after its
    /// last row must start from the beginning from time to time.
    async fn inbox(&self, node: NodeId, after: Option<InboxId>, limit: usize) -> Result<Vec<InboxRow>>;

    /// The inbox rows of one run, whether it exists or not, oldest first.
    async fn arrivals(&self, run: RunId) -> Result<Vec<InboxRow>>;

    /// A run with everything that its owner needs, read in one snapshot of the database.
    async fn load_run(&self, run: RunId) -> Result<Option<StoredRun>>;

    /// Replaces a run's snapshot, unless a later one exists or the run was deleted.
    async fn put_snapshot(&self, run: RunId, snapshot: Snapshot) -> Result<()>;

    /// Entries with a seq above `after`, in order.
    async fn journal(&self, run: RunId, after: u64, limit: usize) -> Result<Vec<StoredEntry>>;

    async fn get_run(&self, workspace: WorkspaceId, run: RunId) -> Result<Option<RunRow>>;

    /// The run that was started under an idempotency key in a scope: see [`crate::NewRun::key`].
    async fn keyed_run(&self, workspace: WorkspaceId, scope: &str, key: &str) -> Result<Option<RunId>>;

    /// The owner, the status and the place of a run, without its documents.
    async fn glance(&self, workspace: WorkspaceId, run: RunId) -> Result<Option<RunGlance>>;

    /// A page of runs, newest first. Paging is by keyset: runs created while you page do not shift later pages. A call
    /// examines at most 10,000 runs; after that the page may be short or even empty, and still have a next page.
    ///
    /// Runs are found by their tags, and by the search attributes that their workflow declares, without examining others.
    /// Without a workflow, all workflows of the workspace must declare the attribute.
    async fn list_runs(
        &self,
        workspace: WorkspaceId,
        filter: RunFilter,
        after: Option<(Timestamp, RunId)>,
        limit: usize,
    ) -> Result<RunPage>;

    /// Open waits of one kind, by their runs and steps, after one of them; of all workflows, or of one. Waits of test
    /// runs are left out.
    async fn list_waits(
        &self,
        workspace: WorkspaceId,
        kind: WaitKind,
        workflow: Option<String>,
        after: Option<(RunId, StepKey)>,
        limit: usize,
    ) -> Result<Vec<WaitRow>>;

    /// Makes a new run from the beginning of another one: it has the same workflow, version, input and tags, and the
    /// entries up to the end of the item that holds entry `at`. It is unowned, running and due at `now`,
    /// has no parent and no idempotency key, and opens no waits. The source does not change.
    /// Its side writes exist with it or not at all.
    /// Returns the seq of the last copied entry; `None` if there is no such run or entry.
    async fn fork_run(&self, workspace: WorkspaceId, source: RunId, fork: NewFork) -> Result<Option<u64>>;

    /// Pauses or resumes a run without a journal, if no node owns the run, it has the status before the change and it
    /// still has no journal. The side writes exist with the change or not at all. Returns whether the row was changed.
    async fn hold_start(&self, run: RunId, hold: HeldStart, side: SideWrites) -> Result<bool>;

    /// Deletes a test run that has ended, with all its rows. `false`: no such run exists.
    async fn delete_test_run(&self, workspace: WorkspaceId, run: RunId) -> Result<bool>;

    /// Adds to the numbers of runs per workflow and status, and to the figures of minutes: both or neither.
    async fn add_counts(&self, workspace: WorkspaceId, deltas: Vec<Counts>, stats: Vec<MinuteStats>) -> Result<()>;

    /// The figures of periods, by the number of the period since the beginning; periods without any are left out.
    async fn run_stats(&self, workspace: WorkspaceId, query: StatsQuery) -> Result<Vec<(usize, RunStats)>>;

    /// Counts all runs and replaces the numbers. A run that [`RunStore::add_counts`] counts at the same time may be
    /// counted twice.
    async fn recount(&self) -> Result<()>;

    /// The number of runs of each workflow in each status.
    async fn counts(&self, workspace: WorkspaceId) -> Result<Vec<Counts>>;

    /// Deletes rows that have expired, by `now`. Returns the number of runs:
    ///
    /// * at most `limit` ended runs whose retention has passed (test runs: an hour after their end), with all their
    ///   rows; they are subtracted from the counts;
    /// * hour-old inbox rows of ended or missing runs;
    /// * fenced nodes a day after their lease, when they own no runs;
    /// * audit rows after 365 days;
    /// * keys of one-time links a day after they expired;
    /// * figures of minutes after 35 days;
    /// * idempotency keys of changes of workflows after a day;
    /// * versions of deleted workflows after a day, when no run refers to any of them.
    async fn sweep(&self, now: Timestamp, limit: usize) -> Result<usize>;

    /// Periodic maintenance in small steps: frees disk space, prepares the partitions of the coming weeks.
    async fn maintain(&self, now: Timestamp) -> Result<()>;

    /// Whether other nodes may use the same database.
    fn is_shared(&self) -> bool;

    /// The number of calls that this store has sent to the database since it was opened, through all ports.
    fn calls(&self) -> u64;

    /// The space on the disk of the database, as it was measured last.
    ///
    /// While new work is refused, [`crate::Error::Full`] is returned for starts, and for batches in which there are
    /// starts; then for items that do not end their runs; never first for items that end them.
    fn space(&self) -> Space {
        Space::default()
    }
}
