//! The real SQL, behind a wire that delays, loses and doubles.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use everstep_core::ids::{NodeId, RunId, WorkspaceId};
use everstep_core::time::Timestamp;
use everstep_store::sqlite::Database;
use everstep_store::{
    Arrival, Change, Counts, Error, InboxId, Item, KeyRow, Loaded, NewWorkflow, NodeRow, Outcome, Result, RunFilter,
    RunPage, RunRow, Snapshot, Store, StoredEntry, Tick, Wait, Wants, WorkflowRow,
};

use super::executor::Executor;
use super::process::Ledger;

#[derive(Clone)]
pub(super) struct SimStore {
    pub(super) executor: Executor,
    pub(super) database: Arc<Mutex<Database>>,
    pub(super) ledger: Arc<Mutex<Ledger>>,
}

/// What may go wrong with a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// It never arrives.
    LostCall,
    /// It is done, and the answer is lost.
    LostReply,
    /// It arrives twice.
    Doubled,
}

impl SimStore {
    pub(super) fn direct<T>(&self, call: impl FnOnce(&mut Database) -> T) -> T {
        call(&mut self.database.lock().expect("one thread"))
    }

    /// Whether there is no room on the disk: now and then, for a while.
    fn is_full(&self) -> bool {
        let now = self.executor.now();
        let mut ledger = self.ledger.lock().expect("one thread");
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

    /// Somebody answers a wait before the engine has heard that it is open.
    fn see_letters(&self, items: &[Item]) {
        for item in items {
            for wait in item.waits.iter().filter(|wait| is_letter(wait)) {
                let Change::Open(wait) = wait else { continue };
                if self.executor.chance(60) {
                    let mut ledger = self.ledger.lock().expect("one thread");
                    ledger.urgent.push((item.run, wait.step.clone(), wait.event.clone()));
                    ledger.mailbox.notify_one();
                }
            }
        }
    }

    async fn call<T>(&self, name: &str, call: impl Fn(&mut Database) -> Result<T>) -> Result<T> {
        self.executor.waver().await;
        let is_calm = self.ledger.lock().expect("one thread").is_calm;
        let fault = match self.executor.with_random(|random| random.below(100)) {
            _ if is_calm => Fault::None,
            0..2 => Fault::LostCall,
            2..4 => Fault::LostReply,
            // A claim that is made twice answers the second time only: the same as a lost reply, and as such it is tried.
            4..6 if name == "claim" || name == "tick" => Fault::LostReply,
            4..6 => Fault::Doubled,
            _ => Fault::None,
        };
        if fault != Fault::None {
            self.ledger.lock().expect("one thread").faults += 1;
        }
        if self.executor.chance(20) {
            let millis = self.executor.with_random(|random| random.between(1, 60));
            self.executor.sleep(Duration::from_millis(millis)).await;
        }
        let lost = || Err(Error::Unavailable("the connection broke".to_owned()));
        let result = match fault {
            Fault::LostCall => lost(),
            Fault::None => self.direct(&call),
            Fault::LostReply => {
                let _ = self.direct(&call);
                lost()
            }
            Fault::Doubled => {
                let _ = self.direct(&call);
                self.direct(&call)
            }
        };
        if fault != Fault::None {
            self.executor.note(|| format!("{name}: {}", result.as_ref().map_or("failed", |_| "doubled")));
        }
        self.executor.waver().await;
        if self.executor.chance(15) {
            let millis = self.executor.with_random(|random| random.between(1, 400));
            self.executor.sleep(Duration::from_millis(millis)).await;
        }
        result
    }
}

fn is_letter(change: &Change<Wait>) -> bool {
    matches!(change, Change::Open(wait) if wait.event == "letter")
}

/// What a database refuses to store for ever.
pub(super) const POISON: &str = "POISON";

fn has_poison(payload: &[u8]) -> bool {
    payload.windows(POISON.len()).any(|window| window == POISON.as_bytes())
}

#[async_trait]
impl Store for SimStore {
    async fn join(&self, node: NodeId, lease: Duration, address: Option<String>) -> Result<Timestamp> {
        // A node joins once; what the wire does to it belongs to the simulation of several nodes.
        self.direct(|db| db.join(node, lease, address.as_deref()))
    }

    async fn tick(&self, node: NodeId, lease: Duration, now: Timestamp, wants: &Wants) -> Result<Tick> {
        self.call("tick", |db| db.tick(node, lease, now, wants)).await
    }

    async fn nodes(&self) -> Result<Vec<NodeRow>> {
        self.call("nodes", |db| db.nodes()).await
    }

    async fn fence(&self, node: NodeId, seen: Timestamp) -> Result<bool> {
        self.call("fence", |db| db.fence(node, seen)).await
    }

    async fn leave(&self, node: NodeId, now: Timestamp) -> Result<()> {
        self.call("leave", |db| db.leave(node, now)).await
    }

    async fn release_runs(&self, now: Timestamp, limit: usize) -> Result<usize> {
        self.call("release", |db| db.release_runs(now, limit)).await
    }

    async fn commit(&self, node: NodeId, items: &[Item]) -> Result<Vec<Outcome>> {
        if items.iter().flat_map(|item| &item.entries).any(|entry| has_poison(&entry.row.payload)) {
            return Err(Error::Refused("the data is poison".to_owned()));
        }
        if self.is_full() {
            return Err(Error::Full("no room".to_owned()));
        }
        let outcomes = self
            .call("commit", |db| {
                let outcomes = db.commit(node, items)?;
                self.see_letters(items);
                Ok(outcomes)
            })
            .await;
        let opens_letter = items.iter().flat_map(|item| &item.waits).any(is_letter);
        if opens_letter && self.executor.chance(50) {
            // The answer to a letter may overtake the reply to the item that waits for it.
            let millis = self.executor.with_random(|random| random.between(50, 2_000));
            self.executor.sleep(Duration::from_millis(millis)).await;
        }
        outcomes
    }

    async fn claim_runs(&self, node: NodeId, lane: &str, now: Timestamp, limit: usize) -> Result<Vec<RunId>> {
        self.call("claim", |db| db.claim_runs(node, lane, now, limit)).await
    }

    async fn owned_runs(&self, node: NodeId) -> Result<Vec<RunId>> {
        self.call("owned", |db| db.owned_runs(node)).await
    }

    async fn next_wake(&self, lane: &str) -> Result<Option<Timestamp>> {
        self.call("next_wake", |db| db.next_wake(lane)).await
    }

    async fn inbox(&self, node: NodeId, after: Option<InboxId>, limit: usize) -> Result<Vec<Arrival>> {
        self.call("inbox", |db| db.inbox(node, after, limit)).await
    }

    async fn arrivals(&self, run: RunId) -> Result<Vec<Arrival>> {
        self.call("arrivals", |db| db.arrivals(run)).await
    }

    async fn put_workflow(&self, workflow: NewWorkflow, activate: bool) -> Result<(u32, bool)> {
        self.call("put_workflow", |db| db.put_workflow(&workflow, activate)).await
    }

    async fn put_snapshot(&self, run: RunId, snapshot: Snapshot) -> Result<()> {
        self.call("put_snapshot", |db| db.put_snapshot(run, snapshot.clone())).await
    }

    async fn add_counts(&self, workspace: WorkspaceId, deltas: Vec<Counts>) -> Result<()> {
        self.call("add_counts", |db| db.add_counts(workspace, &deltas)).await
    }

    async fn sweep(&self, now: Timestamp, limit: usize) -> Result<usize> {
        self.call("sweep", |db| db.sweep(now, limit)).await
    }

    async fn maintain(&self, _now: Timestamp) -> Result<()> {
        self.call("maintain", Database::maintain).await
    }

    async fn setting(&self, name: &str, default: &[u8]) -> Result<Vec<u8>> {
        self.call("setting", |db| db.setting(name, default)).await
    }

    async fn add_key(&self, key: &KeyRow) -> Result<()> {
        self.call("add_key", |db| db.add_key(key)).await
    }

    async fn add_first_key(&self, key: &KeyRow) -> Result<bool> {
        self.call("add_first_key", |db| db.add_first_key(key)).await
    }

    async fn find_key(&self, hash: &[u8; 32]) -> Result<Option<KeyRow>> {
        self.call("find_key", |db| db.find_key(hash)).await
    }

    async fn load_run(&self, run: RunId) -> Result<Option<Loaded>> {
        self.call("load_run", |db| db.load_run(run)).await
    }

    async fn get_run(&self, workspace: WorkspaceId, run: RunId) -> Result<Option<RunRow>> {
        self.call("get_run", |db| db.get_run(workspace, run)).await
    }

    async fn find_run(&self, workspace: WorkspaceId, scope: &str, key: &str) -> Result<Option<RunRow>> {
        self.call("find_run", |db| db.find_run(workspace, scope, key)).await
    }

    async fn list_runs(
        &self,
        workspace: WorkspaceId,
        filter: RunFilter,
        after: Option<(Timestamp, RunId)>,
        limit: usize,
    ) -> Result<RunPage> {
        self.call("list_runs", |db| db.list_runs(workspace, &filter, after, limit)).await
    }

    async fn journal(&self, run: RunId, after: u64, limit: usize) -> Result<Vec<StoredEntry>> {
        self.call("journal", |db| db.journal(run, after, limit)).await
    }

    async fn workflow(&self, workspace: WorkspaceId, name: &str, version: Option<u32>) -> Result<Option<WorkflowRow>> {
        self.call("workflow", |db| db.workflow(workspace, name, version)).await
    }

    async fn waits_for(&self, workspace: WorkspaceId, event: &str, limit: usize) -> Result<Vec<(RunId, Wait)>> {
        self.call("waits_for", |db| db.waits_for(workspace, event, limit)).await
    }

    async fn counts(&self, workspace: WorkspaceId) -> Result<Vec<Counts>> {
        self.call("counts", |db| db.counts(workspace)).await
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn calls(&self) -> u64 {
        0
    }
}
