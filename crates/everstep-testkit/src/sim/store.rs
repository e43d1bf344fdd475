//! The ports of the engine: the real SQL behind the simulated wire, observed by the judge.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use everstep_core::ids::{NodeId, RunId, StepKey, WorkspaceId};
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_store::sqlite::Database;
use everstep_store::{
    ActivationOutcome, ChangeKey, ClaimResult, CommitOutcome, Counts, Deletion, Error, HeldStart, InboxId, InboxRow,
    Item, KeyedChange, MinuteStats, NewFork, NewWorkflow, NodeRow, Precondition, RegistrationOutcome, Result,
    RunFilter, RunGlance, RunPage, RunRow, RunStats, RunStore, SaveOutcome, SideWrites, Snapshot, StatsQuery,
    StoredEntry, StoredRun, Tick, TickRequest, VersionRow, WaitChange, WaitKind, WaitRow, WorkflowRow, WorkflowStore,
    WorkflowSummary,
};

use super::audit::Asked;
use super::ledger::Member;
pub(super) use super::wire::SimStore;

impl SimStore {
    /// Whether the disk is full: now and then, for some time.
    pub(super) fn is_full(&self) -> bool {
        let now = self.executor.now();
        let mut ledger = self.ledger();
        if ledger.is_calm {
            return false;
        }
        if self.executor.with_random(|random| random.below(200)) == 0 {
            let millis = self.executor.with_random(|random| random.between(1, 4_000));
            ledger.full_until = Some(now.plus(Duration::from_millis(millis)));
            self.executor.note(|| format!("the disk is full for {millis} ms"));
        }
        ledger.full_until.is_some_and(|until| now < until)
    }

    /// A client cancels, pauses or signals a run at the moment when it continues, more often if it has just called
    /// another run.
    fn record_progress(&self, items: &[Item], outcomes: &[CommitOutcome]) {
        // The runs of other workspaces have no clients.
        for item in applied(items, outcomes).filter(|item| item.workspace == WorkspaceId::DEFAULT) {
            let mut steps = item.entries.iter().filter_map(|entry| entry.row.step.as_ref());
            let percent = if steps.any(|step| step.as_str().contains("call")) { 15 } else { 2 };
            if self.executor.chance(percent) {
                let mut ledger = self.ledger();
                ledger.bothered.push(item.run);
                ledger.bother.notify_one();
            }
        }
    }

    /// A client answers a wait before the engine has learnt that it is open.
    fn record_inbox_waits(&self, items: &[Item], outcomes: &[CommitOutcome]) {
        for item in applied(items, outcomes) {
            for wait in item.waits.iter().filter(|wait| is_inbox_wait(wait)) {
                let WaitChange::Open(wait) = wait else { continue };
                if self.executor.chance(60) {
                    let mut ledger = self.ledger();
                    ledger.new_inbox_waits.push((item.run, wait.step.clone(), wait.event.clone()));
                    ledger.inbox_wait_opened.notify_one();
                }
            }
        }
    }
}

fn applied<'a>(items: &'a [Item], outcomes: &'a [CommitOutcome]) -> impl Iterator<Item = &'a Item> {
    let is_applied = |(_, outcome): &(_, &CommitOutcome)| matches!(outcome, CommitOutcome::Applied(_));
    items.iter().zip(outcomes).filter(is_applied).map(|(item, _)| item)
}

fn is_inbox_wait(change: &WaitChange) -> bool {
    matches!(change, WaitChange::Open(wait) if wait.event == "inbox")
}

/// Data that the database rejects permanently.
pub(super) const POISON: &str = "POISON";

fn has_poison(payload: &[u8]) -> bool {
    payload.windows(POISON.len()).any(|window| window == POISON.as_bytes())
}

#[async_trait]
impl RunStore for SimStore {
    async fn join(&self, node: NodeId, lease: Duration, address: Option<String>) -> Result<Timestamp> {
        let sent = self.executor.now();
        let is_shared = self.ledger().is_shared;
        let clock = if is_shared {
            self.call("join", move |db| db.join(node, lease, address.as_deref())).await?
        } else {
            self.direct(|db| db.join(node, lease, address.as_deref()))?
        };
        let (machine, now) = (self.machine, self.executor.now());
        let mut ledger = self.ledger();
        let process = ledger.machines[machine].process;
        ledger.members.insert(node, Member { machine, process, joined_at: now, died_at: None, was_stopped: false });
        ledger.answered(machine, sent);
        self.executor.note(|| format!("server {machine} is node {node}"));
        Ok(clock)
    }

    async fn tick(&self, node: NodeId, lease: Duration, now: Timestamp, request: &TickRequest) -> Result<Tick> {
        let sent = self.executor.now();
        let (store, request) = (self.clone(), request.clone());
        let server = request.lanes.iter().find(|(lane, _)| lane.is_empty()).map_or(0, |(_, room)| *room);
        let (tick, missed) = self
            .call("tick", move |db| {
                let claim = store.before_claim(db, node, now, server);
                let tick = db.tick(node, lease, now, &request)?;
                store.watch_claims(node, &tick.claimed);
                let missed = store.after_claim(db, claim, &tick.claimed);
                Ok((tick, missed))
            })
            .await?;
        self.record_missed(missed);
        self.ledger().answered(self.machine, sent);
        Ok(tick)
    }

    async fn nodes(&self) -> Result<Vec<NodeRow>> {
        self.call("nodes", move |db| db.nodes()).await
    }

    async fn fence(&self, node: NodeId, seen: Timestamp) -> Result<bool> {
        let store = self.clone();
        self.call("fence", move |db| {
            let is_fenced = db.fence(node, seen)?;
            if is_fenced {
                store.watch_fence(node);
            }
            Ok(is_fenced)
        })
        .await
    }

    async fn leave(&self, node: NodeId, now: Timestamp) -> Result<()> {
        let store = self.clone();
        self.call("leave", move |db| {
            db.leave(node, now)?;
            store.watch_leave(node);
            Ok(())
        })
        .await
    }

    async fn commit(&self, node: NodeId, items: &[Item]) -> Result<Vec<CommitOutcome>> {
        if items.iter().flat_map(|item| &item.entries).any(|entry| has_poison(&entry.row.payload)) {
            return Err(Error::Refused("the data is poison".to_owned()));
        }
        if self.is_full() {
            return Err(Error::Full("no room".to_owned()));
        }
        if self.note_opening_waits(items) && self.executor.chance(50) {
            // An event may be published before the wait for it is open.
            let millis = self.executor.with_random(|random| random.between(50, 2_000));
            self.executor.sleep(Duration::from_millis(millis)).await;
        }
        let opens_inbox_wait = items.iter().flat_map(|item| &item.waits).any(is_inbox_wait);
        let (store, items): (_, Arc<[Item]>) = (self.clone(), items.into());
        let outcomes = self
            .call("commit", move |db| {
                let outcomes = db.commit(node, &items)?;
                store.watch_commit(node, &items, &outcomes);
                store.watch_rows(db, &items, &outcomes);
                store.record_inbox_waits(&items, &outcomes);
                store.record_progress(&items, &outcomes);
                Ok(outcomes)
            })
            .await;
        if opens_inbox_wait && self.executor.chance(50) {
            // An inbox signal may overtake the reply to the item that waits for it.
            let millis = self.executor.with_random(|random| random.between(50, 2_000));
            self.executor.sleep(Duration::from_millis(millis)).await;
        }
        outcomes
    }

    async fn claim_runs(
        &self,
        node: NodeId,
        lane: &str,
        now: Timestamp,
        limit: usize,
        rotation: Option<WorkspaceId>,
    ) -> Result<ClaimResult> {
        let (store, lane) = (self.clone(), lane.to_owned());
        let (claimed, missed) = self
            .call("claim", move |db| {
                let claim = store.before_claim(db, node, now, if lane.is_empty() { limit } else { 0 });
                let claimed = db.claim_runs(node, &lane, now, limit, rotation)?;
                store.watch_claims(node, &claimed.runs);
                let missed = store.after_claim(db, claim, &claimed.runs);
                Ok((claimed, missed))
            })
            .await?;
        self.record_missed(missed);
        Ok(claimed)
    }

    async fn due_workspaces(
        &self,
        now: Timestamp,
        after: Option<WorkspaceId>,
        limit: usize,
    ) -> Result<Vec<(WorkspaceId, bool)>> {
        self.call("due_workspaces", move |db| db.due_workspaces(now, after, limit)).await
    }

    async fn claim_workspace(
        &self,
        node: NodeId,
        workspace: WorkspaceId,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<RunId>> {
        let store = self.clone();
        self.call("claim_workspace", move |db| {
            let claimed = db.claim_workspace(node, workspace, now, limit)?;
            store.watch_claims(node, &claimed);
            Ok(claimed)
        })
        .await
    }

    async fn owned_runs(&self, node: NodeId) -> Result<Vec<RunId>> {
        self.call("owned", move |db| db.owned_runs(node)).await
    }

    async fn next_wake(&self, lane: &str) -> Result<Option<Timestamp>> {
        let lane = lane.to_owned();
        self.call("next_wake", move |db| db.next_wake(&lane)).await
    }

    async fn inbox(&self, node: NodeId, after: Option<InboxId>, limit: usize) -> Result<Vec<InboxRow>> {
        self.call("inbox", move |db| db.inbox(node, after, limit)).await
    }

    async fn arrivals(&self, run: RunId) -> Result<Vec<InboxRow>> {
        self.call("arrivals", move |db| db.arrivals(run)).await
    }

    async fn load_run(&self, run: RunId) -> Result<Option<StoredRun>> {
        self.call("load_run", move |db| db.load_run(run)).await
    }

    async fn put_snapshot(&self, run: RunId, snapshot: Snapshot) -> Result<()> {
        self.call("put_snapshot", move |db| db.put_snapshot(run, snapshot.clone())).await
    }

    async fn journal(&self, run: RunId, after: u64, limit: usize) -> Result<Vec<StoredEntry>> {
        self.call("journal", move |db| db.journal(run, after, limit)).await
    }

    async fn get_run(&self, workspace: WorkspaceId, run: RunId) -> Result<Option<RunRow>> {
        self.call("get_run", move |db| db.get_run(workspace, run)).await
    }

    async fn keyed_run(&self, workspace: WorkspaceId, scope: &str, key: &str) -> Result<Option<RunId>> {
        let (scope, key) = (scope.to_owned(), key.to_owned());
        self.call("keyed_run", move |db| db.keyed_run(workspace, &scope, &key)).await
    }

    async fn glance(&self, workspace: WorkspaceId, run: RunId) -> Result<Option<RunGlance>> {
        self.call("glance", move |db| db.glance(workspace, run)).await
    }

    async fn list_runs(
        &self,
        workspace: WorkspaceId,
        filter: RunFilter,
        after: Option<(Timestamp, RunId)>,
        limit: usize,
    ) -> Result<RunPage> {
        self.call("list_runs", move |db| db.list_runs(workspace, &filter, after, limit)).await
    }

    async fn fork_run(&self, workspace: WorkspaceId, source: RunId, fork: NewFork) -> Result<Option<u64>> {
        let store = self.clone();
        let forked = self
            .call("fork_run", move |db| {
                let forked = db.fork_run(workspace, source, &fork)?;
                store.ledger().figures.unknown_forks += i64::from(forked.is_some());
                Ok(forked)
            })
            .await;
        if let Ok(Some(_)) = forked {
            self.ledger().figures.unknown_forks -= 1;
        }
        forked
    }

    async fn hold_start(&self, run: RunId, hold: HeldStart, side: SideWrites) -> Result<bool> {
        let store = self.clone();
        self.call("hold_start", move |db| {
            let is_held = db.hold_start(run, &hold, &side)?;
            if is_held && !side.audit.is_empty() {
                let asked = if hold.after == Status::Paused { Asked::Pause(run) } else { Asked::Resume(run) };
                *store.ledger().holds.entry(asked).or_insert(0) += 1;
            }
            Ok(is_held)
        })
        .await
    }

    async fn delete_test_run(&self, workspace: WorkspaceId, run: RunId) -> Result<bool> {
        self.call("delete_test_run", move |db| db.delete_test_run(workspace, run)).await
    }

    async fn add_counts(&self, workspace: WorkspaceId, deltas: Vec<Counts>, stats: Vec<MinuteStats>) -> Result<()> {
        let (store, added) = (self.clone(), stats.clone());
        self.call("add_counts", move |db| {
            db.add_counts(workspace, &deltas, &stats)?;
            store.ledger().figures.apply(&stats);
            Ok(())
        })
        .await?;
        self.ledger().figures.acknowledge(&added);
        Ok(())
    }

    async fn run_stats(&self, workspace: WorkspaceId, query: StatsQuery) -> Result<Vec<(usize, RunStats)>> {
        self.call("run_stats", move |db| db.run_stats(workspace, &query)).await
    }

    async fn recount(&self) -> Result<()> {
        self.call("recount", Database::recount).await
    }

    async fn list_waits(
        &self,
        workspace: WorkspaceId,
        kind: WaitKind,
        workflow: Option<String>,
        after: Option<(RunId, StepKey)>,
        limit: usize,
    ) -> Result<Vec<WaitRow>> {
        let list =
            move |db: &mut _| Database::list_waits(db, workspace, kind, workflow.as_deref(), after.as_ref(), limit);
        self.call("list_waits", list).await
    }

    async fn counts(&self, workspace: WorkspaceId) -> Result<Vec<Counts>> {
        self.call("counts", move |db| db.counts(workspace)).await
    }

    async fn sweep(&self, now: Timestamp, limit: usize) -> Result<usize> {
        self.call("sweep", move |db| db.sweep(now, limit).map(|swept| swept.runs)).await
    }

    async fn maintain(&self, _now: Timestamp) -> Result<()> {
        self.call("maintain", |db| db.maintain().map(|_| ())).await
    }

    fn is_shared(&self) -> bool {
        self.ledger().is_shared
    }

    fn calls(&self) -> u64 {
        0
    }
}

#[async_trait]
impl WorkflowStore for SimStore {
    async fn save_workflow(
        &self,
        workflow: NewWorkflow,
        activate: bool,
        precondition: Precondition,
    ) -> Result<SaveOutcome> {
        let store = self.clone();
        self.call("put_workflow", move |db| {
            let outcome = db.save_workflow(&workflow, activate, precondition)?;
            store.watch_subscriptions(db);
            Ok(outcome)
        })
        .await
    }

    async fn register_workflows(&self, workflows: Vec<(NewWorkflow, u32)>) -> Result<Vec<RegistrationOutcome>> {
        self.call("register_workflows", move |db| db.register_workflows(&workflows)).await
    }

    async fn count_workflows(&self, workspace: WorkspaceId) -> Result<u64> {
        self.call("count_workflows", move |db| db.count_workflows(workspace)).await
    }

    async fn choose_version(
        &self,
        workspace: WorkspaceId,
        name: &str,
        version: Option<u32>,
        precondition: Precondition,
        key: Option<(ChangeKey, u32)>,
    ) -> Result<ActivationOutcome> {
        let (store, name) = (self.clone(), name.to_owned());
        self.call("activate_workflow", move |db| {
            let outcome = db.choose_version(workspace, &name, version, precondition, key.as_ref())?;
            store.watch_subscriptions(db);
            Ok(outcome)
        })
        .await
    }

    async fn keyed_change(
        &self,
        workspace: WorkspaceId,
        name: &str,
        key: &str,
        now: Timestamp,
    ) -> Result<Option<KeyedChange>> {
        let (name, key) = (name.to_owned(), key.to_owned());
        self.call("keyed_change", move |db| db.keyed_change(workspace, &name, &key, now)).await
    }

    async fn delete_workflow(&self, workspace: WorkspaceId, name: &str) -> Result<Deletion> {
        let name = name.to_owned();
        self.call("delete_workflow", move |db| db.delete_workflow(workspace, &name)).await
    }

    async fn workflow(&self, workspace: WorkspaceId, name: &str, version: Option<u32>) -> Result<Option<WorkflowRow>> {
        let name = name.to_owned();
        self.call("workflow", move |db| db.workflow(workspace, &name, version)).await
    }

    async fn list_workflows(
        &self,
        workspace: WorkspaceId,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<WorkflowSummary>> {
        let after = after.map(str::to_owned);
        self.call("list_workflows", move |db| db.list_workflows(workspace, after.as_deref(), limit)).await
    }

    async fn list_versions(
        &self,
        workspace: WorkspaceId,
        name: &str,
        before: Option<u32>,
        limit: usize,
    ) -> Result<Vec<VersionRow>> {
        let name = name.to_owned();
        self.call("list_versions", move |db| db.list_versions(workspace, &name, before, limit)).await
    }
}
