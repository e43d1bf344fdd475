//! Records and links through an engine: batches of many callers, limits, expiry, a full disk.

mod nodes;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use everstep_core::ids::RunId;
use everstep_core::records::{Author, LinkQuery, OpAction, OpKey, RecordLimits, RecordQuery, Verb};
use everstep_core::time::Timestamp;
use everstep_engine::{AnsweredOp, CommittedItem, Engine, Error, NewOp, NodeClock, Observe, Options, Records, World};
use everstep_handlers::Registry;
use everstep_store::sqlite::SqliteStore;
use everstep_store::{ChangeQuery, NamespaceQuery, OpOutcome, RecordKey, Stores};
use everstep_testkit::held::{HeldClock, StoreGate};
use serde_json::{Value, json};

use crate::support::{WORKSPACE, engine, open, options, world};

/// How long a stopping engine waits for the answer to a batch.
const STOP_PATIENCE: Duration = Duration::from_secs(3);

fn new_op(verb: Verb, input: &Value) -> NewOp {
    let input = OpAction::read(verb, &input.to_string()).unwrap();
    let author = Author { run: None, step: None, actor: "key:1".to_owned() };
    NewOp { workspace: WORKSPACE, namespace: input.namespace, key: None, author, action: input.action }
}

fn set(key: &str, value: impl Into<Value>) -> NewOp {
    new_op(Verb::Set, &json!({"namespace": "n", "key": key, "value": value.into()}))
}

fn increment(key: &str) -> NewOp {
    new_op(Verb::Increment, &json!({"namespace": "n", "key": key}))
}

/// The same op, of a run.
fn of_run(op: NewOp) -> NewOp {
    let author = Author { run: Some(RunId::new(Timestamp::EPOCH, 7)), step: Some("s".into()), ..op.author };
    NewOp { author, ..op }
}

async fn applied(engine: &Engine, op: NewOp) -> OpOutcome {
    engine.records().apply(op).await.unwrap()
}

async fn value(engine: &Engine, key: &str) -> Option<Value> {
    let record = engine.records().get(WORKSPACE, "n", key).await.unwrap();
    record.map(|record| record.value.unwrap().value().clone())
}

/// Counts what an engine reports about ops.
#[derive(Default)]
struct Notes {
    batches: AtomicUsize,
    expired: AtomicUsize,
    outcomes: Mutex<Vec<(Verb, &'static str)>>,
}

impl Observe for Notes {
    fn committed(&self, _: &CommittedItem<'_>) {}

    fn ops_applied(&self, _: usize, _: usize) {
        self.batches.fetch_add(1, Ordering::SeqCst);
    }

    fn op_answered(&self, op: &AnsweredOp) {
        self.outcomes.lock().unwrap().push((op.verb, op.outcome));
    }

    fn records_expired(&self, records: usize) {
        self.expired.fetch_add(records, Ordering::SeqCst);
    }
}

async fn noted_engine(stores: Stores, options: Options) -> (Engine, Arc<Notes>) {
    let notes = Arc::new(Notes::default());
    let world = World { observe: Arc::clone(&notes) as _, ..world(stores, Registry::with([])) };
    (Engine::start(world, options).await.unwrap(), notes)
}

#[tokio::test(flavor = "multi_thread")]
async fn ops_of_many_callers_share_batches() {
    let folder = tempfile::tempdir().unwrap();
    let (engine, notes) = noted_engine(open(folder.path()).await, options()).await;
    let callers: Vec<_> = (0..300)
        .map(|_| {
            let engine = engine.clone();
            tokio::spawn(async move { applied(&engine, increment("k")).await.unwrap() })
        })
        .collect();
    let mut values = Vec::new();
    for caller in callers {
        values.push(caller.await.unwrap().value()["value"].as_u64().unwrap());
    }
    values.sort_unstable();
    assert_eq!(values, (1..=300).collect::<Vec<_>>());
    assert_eq!(value(&engine, "k").await, Some(json!(300)));
    assert!(notes.batches.load(Ordering::SeqCst) < 300, "{:?}", notes.batches);
    assert_eq!(notes.outcomes.lock().unwrap()[..], [(Verb::Increment, "ok"); 300]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_the_caller_chose_counts_for_one_input() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let keyed = |op: NewOp| NewOp { key: Some(OpKey::of_caller("key:1", "once")), ..op };
    let first = applied(&engine, keyed(increment("k"))).await.unwrap();
    assert_eq!(applied(&engine, keyed(increment("k"))).await.unwrap(), first);
    let other = applied(&engine, keyed(increment("other"))).await.unwrap_err();
    assert_eq!(other.code, "IDEMPOTENCY_KEY_REUSED");
    assert_eq!(value(&engine, "k").await, Some(json!(1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn data_beyond_a_limit_is_refused_before_it_is_queued() {
    let folder = tempfile::tempdir().unwrap();
    let (engine, notes) = noted_engine(open(folder.path()).await, options()).await;
    let failure = applied(&engine, set("k", "x".repeat(262_144))).await.unwrap_err();
    assert!(failure.message.contains("at most 262144"), "{failure}");
    assert_eq!(applied(&engine, set("", 1)).await.unwrap_err().code, "VALIDATION_ERROR");
    // The next op is the first that the record writer receives.
    applied(&engine, set("k", 1)).await.unwrap();
    assert_eq!(notes.batches.load(Ordering::SeqCst), 1);
    assert_eq!(notes.outcomes.lock().unwrap()[..], [(Verb::Set, "ok")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn records_links_and_changes_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let task = |id: &str| json!({"type": "task", "id": id});
    applied(&engine, of_run(set("k", "v"))).await.unwrap();
    let link = new_op(Verb::Upsert, &json!({"namespace": "n", "from": task("1"), "to": task("2")}));
    applied(&engine, link).await.unwrap();
    let records = engine.records();
    assert_eq!(records.list(WORKSPACE, &RecordQuery::new("n")).await.unwrap().records.len(), 1);
    assert_eq!(records.links(WORKSPACE, &LinkQuery::new("n")).await.unwrap().matches.len(), 1);
    assert_eq!(records.namespaces(WORKSPACE, &NamespaceQuery::default()).await.unwrap().namespaces.len(), 1);
    let query = ChangeQuery { namespace: "n".to_owned(), limit: 10, ..ChangeQuery::default() };
    let changes = records.changes(WORKSPACE, &query).await.unwrap().changes;
    assert_eq!(changes.iter().map(|change| change.action.as_str()).collect::<Vec<_>>(), ["store.set", "links.upsert"]);
    assert_eq!(changes[0].author.step.as_ref().unwrap().as_str(), "s");
    // Gets of several callers at the same time have answers of their own.
    let (one, other) = tokio::join!(records.get(WORKSPACE, "n", "k"), records.get(WORKSPACE, "n", "missing"));
    assert!(one.unwrap().is_some() && other.unwrap().is_none());
}

/// Writes a record of long ago, which has expired, and whose change is not kept.
async fn store_brief(stores: &Stores) {
    let past = Timestamp::from_millis(1_000);
    let brief = new_op(Verb::Set, &json!({"namespace": "n", "key": "brief", "value": 1, "ttl_seconds": 1}));
    let NewOp { workspace, namespace, author, action, .. } = brief;
    let mut op = everstep_core::records::Op {
        workspace,
        namespace,
        key: OpKey::of_request(Timestamp::EPOCH, 1),
        digest: None,
        random: 1,
        author,
        action,
    };
    op.check(&RecordLimits::default()).unwrap();
    stores.records.apply(&[op], past, past).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_records_and_old_changes_are_swept() {
    let folder = tempfile::tempdir().unwrap();
    let stores = open(folder.path()).await;
    let store = Arc::clone(&stores.records);
    let options = Options { record_sweep_every: Duration::from_millis(5), ..options() };
    let (engine, notes) = noted_engine(stores.clone(), options).await;
    applied(&engine, set("kept", 1)).await.unwrap();
    store_brief(&stores).await;
    let swept = async {
        loop {
            let page = store.namespaces(WORKSPACE, &NamespaceQuery::by_name("n")).await.unwrap();
            let query = ChangeQuery { namespace: "n".to_owned(), limit: 10, ..ChangeQuery::default() };
            let changes = store.changes(WORKSPACE, &query).await.unwrap().changes;
            let actions: Vec<_> = changes.into_iter().map(|change| change.action).collect();
            let is_counted = notes.expired.load(Ordering::SeqCst) == 1;
            if page.namespaces[0].counts.keys == 1 && actions == ["store.set", "store.expire"] && is_counted {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), swept).await.expect("it is swept");
    assert_eq!((value(&engine, "kept").await, value(&engine, "brief").await), (Some(json!(1)), None));
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_full_disk_requests_are_refused_and_ops_of_runs_wait() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(SqliteStore::open(folder.path(), &Default::default()).unwrap());
    let (engine, _) = noted_engine(Stores::new(Arc::clone(&store)), options()).await;
    applied(&engine, set("k", 0)).await.unwrap();
    let pages = store.pages().await.unwrap();
    store.set_max_pages(pages).await.unwrap();
    // Noise, which compression does not shorten.
    let noise: String = (0..12_000_u64).map(|n| format!("{:x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
    let waiting = {
        let (engine, op) = (engine.clone(), of_run(set("run", noise.clone())));
        tokio::spawn(async move { engine.records().apply(op).await })
    };
    for _ in 0..5 {
        let request = engine.records().apply(set("request", noise.clone()));
        let refused = tokio::time::timeout(Duration::from_secs(5), request).await.expect("it is refused soon");
        assert!(matches!(refused, Err(Error::Full(_))), "{refused:?}");
    }
    assert!(!waiting.is_finished());
    store.set_max_pages(1_000_000).await.unwrap();
    assert!(waiting.await.unwrap().unwrap().is_ok());
    assert_eq!(value(&engine, "request").await, None);
    assert!(value(&engine, "run").await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_op_whose_caller_has_gone_is_dropped_unless_it_was_sent() {
    let folder = tempfile::tempdir().unwrap();
    let (engine, gate, _held) = held_engine(folder.path()).await;
    let sent = spawn(&engine, of_run(increment("k")));
    until("a batch", || gate.batches() == 1).await;
    let waiting = spawn(&engine, of_run(increment("k")));
    until("an op that waits", || engine.records().waiting() == 1).await;
    for op in [sent, waiting] {
        op.abort();
        assert!(op.await.unwrap_err().is_cancelled());
    }
    // The op of a caller that waits comes after both.
    let kept = spawn(&engine, increment("k"));
    gate.open();
    assert_eq!(kept.await.unwrap().unwrap().unwrap().value()["value"], 2, "one of the others was applied");
    assert_eq!(value(&engine, "k").await, Some(json!(2)));
    assert_eq!(engine.records().waiting(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_record_is_counted_by_the_node_that_has_deleted_it() {
    let folder = tempfile::tempdir().unwrap();
    let stores = open(folder.path()).await;
    let gate = Arc::<StoreGate>::default();
    let notes = Arc::new(Notes::default());
    let options = Options { record_sweep_every: Duration::from_millis(5), ..options() };
    store_brief(&stores).await;
    // Two nodes find the record, before one of them deletes it.
    let mut engines = Vec::new();
    for _ in 0..2 {
        let store = gate.hold(Arc::clone(&stores.records));
        let world = world(stores.clone(), Registry::with([]));
        let records = Records::new(store, Arc::clone(&world.clock), Arc::clone(&world.random), &options);
        let world = World { observe: Arc::clone(&notes) as _, records, ..world };
        engines.push(Engine::start(world, options.clone()).await.unwrap());
    }
    until("a batch of each node", || gate.batches() == 2).await;
    gate.open();
    until("both answers", || notes.outcomes.lock().unwrap().len() >= 2).await;
    until("a count", || notes.expired.load(Ordering::SeqCst) > 0).await;
    for engine in engines {
        engine.stop(Duration::from_secs(1)).await.unwrap();
    }
    assert_eq!(notes.expired.load(Ordering::SeqCst), 1);
}

/// An engine whose record writer waits for a gate, and whose patience with it ends when the test ends it.
async fn held_engine(folder: &std::path::Path) -> (Engine, Arc<StoreGate>, Arc<HeldClock>) {
    let (gate, held) = (Arc::<StoreGate>::default(), HeldClock::new(STOP_PATIENCE));
    let stores = open(folder).await;
    let store = gate.hold(Arc::clone(&stores.records));
    let clock = Arc::new(NodeClock::new(Arc::clone(&held) as _));
    let world = world(stores, Registry::with([]));
    let records = Records::new(store, Arc::clone(&clock), Arc::clone(&world.random), &options());
    (Engine::start(World { records, clock, ..world }, options()).await.unwrap(), gate, held)
}

fn spawn(engine: &Engine, op: NewOp) -> tokio::task::JoinHandle<Result<OpOutcome, Error>> {
    let engine = engine.clone();
    tokio::spawn(async move { engine.records().apply(op).await })
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    let wait = async {
        while !holds() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), wait).await.unwrap_or_else(|_| panic!("waited for {what}"));
}

/// Stops an engine while one op is in flight and another one waits. Returns their answers, and the record's value.
async fn stop_in_flight(end: impl Fn(&StoreGate, &HeldClock)) -> ([Result<OpOutcome, Error>; 2], Option<Value>) {
    let folder = tempfile::tempdir().unwrap();
    let (engine, gate, held) = held_engine(folder.path()).await;
    let first = spawn(&engine, increment("k"));
    until("a batch", || gate.batches() == 1).await;
    let second = spawn(&engine, increment("k"));
    until("an op that waits", || engine.records().waiting() == 1).await;
    let stopping = {
        let engine = engine.clone();
        tokio::spawn(async move { engine.stop(Duration::from_secs(1)).await })
    };
    // Only the record writer has something to wait for.
    until("the record writer to stop", || held.sleepers() == 1).await;
    end(&gate, &held);
    stopping.await.unwrap().unwrap();
    let answers = [first.await.unwrap(), second.await.unwrap()];
    drop(engine);
    let key = RecordKey { workspace: WORKSPACE, namespace: "n".to_owned(), key: "k".to_owned() };
    let found = open(folder.path()).await.records.get(&[key]).await.unwrap().remove(0);
    (answers, found.map(|record| record.value.unwrap().value().clone()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopping_engine_answers_the_ops_in_flight_and_refuses_the_others() {
    let ([first, second], stored) = stop_in_flight(|gate, _| gate.open()).await;
    assert_eq!(first.unwrap().unwrap().value()["value"], 1);
    assert_eq!(second, Err(Error::Stopping));
    assert_eq!(stored, Some(json!(1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_op_in_flight_has_an_unknown_outcome_if_the_database_does_not_reply() {
    let ([first, _], stored) = stop_in_flight(|_, held| held.wake()).await;
    assert_eq!(first, Err(Error::Unanswered));
    assert_eq!(stored, None);
}
