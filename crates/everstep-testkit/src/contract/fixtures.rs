//! Small items, and the questions that tests ask a store.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use everstep_core::ids::{CommitId, NodeId, RunId, StepKey, WorkspaceId};
use everstep_core::journal::Kind;
use everstep_core::journal::codec::Row;
use everstep_core::payload::Payload;
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_store::{
    Gate, InboxId, Item, Loaded, Message, NewEntry, NewRun, Outcome, Projection, RunRow, Store, Wait, Wants,
};
use serde_json::json;

/// Where runs live unless a test says otherwise.
pub const HERE: WorkspaceId = WorkspaceId::DEFAULT;
pub const LEASE: Duration = Duration::from_secs(3_600);

/// A moment: so many seconds into the time of tests.
pub fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(1_790_000_000_000 + seconds * 1_000)
}

fn random() -> u128 {
    static MADE: AtomicU64 = AtomicU64::new(1);
    u128::from(MADE.fetch_add(1, Ordering::Relaxed))
}

pub fn new_run() -> RunId {
    RunId::new(at(0), random())
}

pub fn new_node() -> NodeId {
    NodeId::new(at(0), random())
}

pub fn new_commit() -> CommitId {
    CommitId::new(at(0), random())
}

pub fn new_workspace() -> WorkspaceId {
    WorkspaceId::new(at(0), random())
}

/// A node that has joined.
pub async fn member(store: &dyn Store) -> NodeId {
    let node = new_node();
    store.join(node, LEASE, None).await.unwrap();
    node
}

/// A node that has joined and been fenced, with nothing released yet.
pub async fn fence(store: &dyn Store, node: NodeId) {
    renew(store, node, Duration::ZERO).await;
    let lease_until = lease_of(store, node).await;
    assert!(store.fence(node, lease_until).await.unwrap());
}

/// Renews a node's lease and asks for nothing else. Returns the database's clock.
pub async fn renew(store: &dyn Store, node: NodeId, lease: Duration) -> Timestamp {
    store.tick(node, lease, at(0), &Wants::default()).await.unwrap().clock
}

pub async fn lease_of(store: &dyn Store, node: NodeId) -> Timestamp {
    let nodes = store.nodes().await.unwrap();
    nodes.into_iter().find(|row| row.id == node).unwrap().lease_until
}

pub fn applied() -> Outcome {
    Outcome::Applied(vec![])
}

/// An item that writes nothing yet.
pub fn item(run: RunId, gate: Gate) -> Item {
    Item {
        commit: new_commit(),
        run,
        workspace: HERE,
        gate,
        entries: vec![],
        projection: None,
        waits: vec![],
        taken: vec![],
        messages: vec![],
    }
}

pub fn entry(seq: u64, kind: Kind, step: Option<&str>) -> NewEntry {
    let row = Row { kind, step: step.map(StepKey::from), attempt: 1, payload: b"{}".to_vec() };
    NewEntry { seq, at: at(i64::try_from(seq).unwrap_or(0)), row }
}

pub fn projection(status: Status, owner: Option<NodeId>, wake_at: Timestamp) -> Projection {
    Projection { status, owner, wake_at, output: None, error: None, ended_at: None }
}

pub fn new() -> NewRun {
    NewRun {
        workflow: "orders".to_owned(),
        version: 1,
        lane: String::new(),
        key: None,
        input: Payload::from(json!({ "order": 7 })),
        parent: None,
        tags: Payload::from(json!([])),
        retention_days: 7,
        is_test: false,
        created_at: at(0),
    }
}

/// Starts a run that `owner` owns, or nobody.
pub fn start(run: RunId, owner: Option<NodeId>) -> Item {
    start_with(run, owner, new())
}

pub fn start_with(run: RunId, owner: Option<NodeId>, new: NewRun) -> Item {
    let wake_at = new.created_at;
    Item {
        entries: vec![entry(1, Kind::RunStarted, None)],
        projection: Some(projection(Status::Running, owner, wake_at)),
        ..item(run, Gate::Start(Box::new(new)))
    }
}

/// Completes a step and dispatches the next, as the owner: entries `seq` and `seq + 1`.
pub fn step(run: RunId, seq: u64) -> Item {
    Item {
        entries: vec![
            entry(seq, Kind::StepCompleted, Some(&format!("s{seq}"))),
            entry(seq + 1, Kind::StepDispatched, Some(&format!("s{}", seq + 2))),
        ],
        ..item(run, Gate::Owned)
    }
}

/// Gives a run that we own back until `wake_at`.
pub fn park(run: RunId, wake_at: Timestamp) -> Item {
    Item { projection: Some(projection(Status::Waiting, None, wake_at)), ..item(run, Gate::Owned) }
}

pub fn ended(status: Status, ended_at: Timestamp) -> Projection {
    Projection { ended_at: Some(ended_at), ..projection(status, None, Timestamp::NEVER) }
}

/// Completes a run that we own.
pub fn end(run: RunId, seq: u64, ended_at: Timestamp) -> Item {
    Item {
        entries: vec![entry(seq, Kind::RunCompleted, None)],
        projection: Some(ended(Status::Completed, ended_at)),
        ..item(run, Gate::Owned)
    }
}

pub fn message(to: RunId, text: &str) -> Message {
    Message { to, input: text.as_bytes().to_vec() }
}

pub fn wait(step: &str, event: &str) -> Wait {
    Wait {
        step: step.into(),
        event: event.to_owned(),
        pattern: Payload::from(json!({ "order": 7 })),
        deadline: Some(at(60)),
    }
}

/// Commits one item.
pub async fn commit(store: &dyn Store, node: NodeId, item: &Item) -> Outcome {
    let outcomes = store.commit(node, std::slice::from_ref(item)).await.unwrap();
    let [outcome] = outcomes.try_into().expect("one item has one outcome");
    outcome
}

/// Commits one item that must be applied. Returns the ids of its messages.
pub async fn apply(store: &dyn Store, node: NodeId, item: &Item) -> Vec<InboxId> {
    match commit(store, node, item).await {
        Outcome::Applied(sent) => sent.into_iter().map(|sent| sent.id).collect(),
        outcome => panic!("{outcome:?} instead of applied"),
    }
}

/// Starts a run that `node` owns.
pub async fn owned_run(store: &dyn Store, node: NodeId) -> RunId {
    let run = new_run();
    apply(store, node, &start(run, Some(node))).await;
    run
}

/// Starts a run that nobody owns, due now.
pub async fn unowned_run(store: &dyn Store, node: NodeId) -> RunId {
    let run = new_run();
    apply(store, node, &start(run, None)).await;
    run
}

pub async fn load(store: &dyn Store, run: RunId) -> Loaded {
    store.load_run(run).await.unwrap().expect("the run exists")
}

pub async fn row(store: &dyn Store, run: RunId) -> RunRow {
    load(store, run).await.run
}

/// The numbers of a run's entries.
pub async fn seqs(store: &dyn Store, run: RunId) -> Vec<u64> {
    let entries = store.journal(run, 0, usize::MAX).await.unwrap();
    entries.into_iter().map(|entry| entry.seq).collect()
}

/// The inputs that wait for a run, as texts.
pub async fn inbox_of(store: &dyn Store, run: RunId) -> Vec<String> {
    let inbox = load(store, run).await.inbox;
    inbox.into_iter().map(|arrival| String::from_utf8(arrival.input).unwrap()).collect()
}
