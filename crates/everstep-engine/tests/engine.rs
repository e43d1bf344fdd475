//! The engine on a real database, with real handlers and the machine's clock.

use std::sync::Arc;
use std::time::Duration;

use everstep_core::ids::{CommitId, NodeId, WorkspaceId};
use everstep_core::journal::codec;
use everstep_core::journal::{Entry, Event, Kind};
use everstep_core::payload::Payload;
use everstep_core::run::{Input, Reply};
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_engine::{Engine, Error, Options, SaveError, Start};
use everstep_handlers::{Ports, Registry};
use everstep_sandbox::Sandbox;
use everstep_store::sqlite::{self, SqliteStore};
use everstep_store::{Gate, Item, NewEntry, Projection, RunStore, Stores};
use futures_util::future::{self, Either};
use serde_json::{Value, json};

use crate::support::{
    WORKSPACE, chain, engine, engine_with, finish, open, open_sqlite, options, publish, start, when_free, world,
};

fn noop(config: Value) -> (&'static str, &'static str, Value) {
    ("work", "noop", Value::from_iter([("config".to_owned(), config)]))
}

fn wait_for(event: &str) -> (&'static str, &'static str, Value) {
    ("wait", "wait", json!({"config": {"event": event}}))
}

async fn kinds(engine: &Engine, run: everstep_core::ids::RunId) -> Vec<Kind> {
    let journal = engine.world().runs.journal(run, 0, 100_000).await.unwrap();
    journal.into_iter().map(|entry| entry.row.kind).collect()
}

/// Waits until a run's row has a status.
async fn reach(engine: &Engine, run: everstep_core::ids::RunId, status: Status) {
    let reached = async {
        while engine.world().runs.get_run(WORKSPACE, run).await.unwrap().unwrap().status != status {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), reached).await.expect("the run reaches the status");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_goes_from_start_to_end() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let definition = json!({
        "nodes": [
            {"id": "start", "type": "start"},
            {"id": "double", "type": "javascript", "config": {"code": "return ctx.input.n * 2"}},
            {"id": "end", "type": "end", "config": {"outputParameters": [
                {"name": "n", "sourceVariable": "{{ctx.jsResult}}"}
            ]}},
        ],
        "edges": [{"source": "start", "target": "double"}, {"source": "double", "target": "end"}],
    });
    publish(&engine, "double", &definition).await;
    let run = start(&engine, "double", json!({"n": 21})).await;
    let row = finish(&engine, run).await;
    assert_eq!(row.status, Status::Completed);
    assert_eq!(row.output.unwrap().value(), &json!({"n": 42}));
    engine.stop(Duration::from_secs(5)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_successful_step_raises_the_version_by_two() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    publish(&engine, "one", &chain(&[noop(json!({}))])).await;
    publish(&engine, "none", &chain(&[])).await;
    let one = start(&engine, "one", json!({})).await;
    let none = start(&engine, "none", json!({})).await;
    finish(&engine, one).await;
    finish(&engine, none).await;
    assert_eq!(kinds(&engine, one).await.len(), kinds(&engine, none).await.len() + 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_parallel_starts_with_one_key_make_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    publish(&engine, "order", &chain(&[noop(json!({}))])).await;
    let starts = (0..50).map(|_| {
        let engine = engine.clone();
        tokio::spawn(async move {
            let key = Some((String::new(), "order-789".to_owned()));
            engine.start_run(Start { key, ..Start::new("order", json!({})) }).await.unwrap()
        })
    });
    let mut created = 0;
    let mut runs = std::collections::BTreeSet::new();
    for start in starts.collect::<Vec<_>>() {
        let started = start.await.unwrap();
        created += usize::from(started.created);
        runs.insert(started.run);
    }
    assert_eq!((created, runs.len()), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_belong_to_their_workspace_and_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let other = WorkspaceId::from_uuid(uuid::Uuid::from_u128(2));
    let definition = chain(&[]);
    publish(&engine, "w", &definition).await;
    engine.library().publish(other, "w", &definition).await.unwrap();
    let keyed = |workspace, key: &str| Start {
        workspace,
        key: Some((String::new(), key.to_owned())),
        ..Start::new("w", json!({}))
    };
    let first = engine.start_run(keyed(WORKSPACE, "k")).await.unwrap();
    let again = engine.start_run(keyed(WORKSPACE, "k")).await.unwrap();
    let elsewhere = engine.start_run(keyed(other, "k")).await.unwrap();
    assert_eq!((again.run, again.created), (first.run, false));
    assert!(elsewhere.created && elsewhere.run != first.run);
    assert_ne!(start(&engine, "w", json!({})).await, start(&engine, "w", json!({})).await);
    let too_long = engine.start_run(keyed(WORKSPACE, &"k".repeat(256))).await;
    assert!(matches!(too_long, Err(Error::Invalid(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_input_is_refused_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    publish(&engine, "w", &chain(&[])).await;
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    let bad = [
        Start::new("w", Value::from("x".repeat(1 << 20))),
        Start::new("w", json!({"text": "a\0b"})),
        Start::new("w", json!({"text": "\\\0"})),
        Start { input: Payload::from_json(deep).unwrap(), ..Start::new("w", json!({})) },
    ];
    for start in bad {
        assert_eq!(engine.start_run(start).await.unwrap_err().code(), "VALIDATION_ERROR");
    }
    assert_eq!(engine.start_run(Start::new("missing", json!({}))).await.unwrap_err().code(), "NOT_FOUND");
    assert!(engine.library().publish(WORKSPACE, "No Name", &chain(&[])).await.is_err());
    let invalid = engine.library().publish(WORKSPACE, "w", &json!({"nodes": []})).await;
    assert!(matches!(invalid, Err(SaveError::Invalid(_))), "{invalid:?}");
    let page = engine.world().runs.list_runs(WORKSPACE, Default::default(), None, 10).await.unwrap();
    assert!(page.runs.is_empty());
}

#[test]
fn a_crash_loses_nothing_and_costs_no_attempt() {
    let folder = tempfile::tempdir().unwrap();
    let definition = chain(&[("work", "noop", json!({"config": {"delayMs": 300}, "retry": {"maxAttempts": 1}}))]);
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let first = runtime();
    let run = first.block_on(async {
        let engine = engine(folder.path()).await;
        publish(&engine, "w", &definition).await;
        start(&engine, "w", json!({})).await
    });
    // All loops end at once; nothing is handed over.
    drop(first);
    runtime().block_on(async {
        let engine = engine(folder.path()).await;
        let row = finish(&engine, run).await;
        assert_eq!(row.status, Status::Completed);
        let journal = engine.world().runs.journal(run, 0, 100).await.unwrap();
        let attempts: Vec<_> = journal
            .iter()
            .filter(|entry| entry.row.step.as_ref().is_some_and(|step| step.as_str() == "work"))
            .map(|entry| (entry.row.kind, entry.row.attempt))
            .collect();
        assert_eq!(attempts, [(Kind::StepDispatched, 1), (Kind::StepDispatched, 2), (Kind::StepCompleted, 2)]);
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_engine_hands_its_runs_over() {
    let folder = tempfile::tempdir().unwrap();
    let stores = open(folder.path()).await;
    let first = engine_with(stores.clone(), options()).await;
    publish(&first, "w", &chain(&[("pause", "delay", json!({"config": {"delaySeconds": 1}}))])).await;
    let run = start(&first, "w", json!({})).await;
    first.stop(Duration::from_secs(5)).await.unwrap();
    assert_eq!(first.start_run(Start::new("w", json!({}))).await.err(), Some(Error::Stopping));
    let second = engine_with(stores, options()).await;
    assert_eq!(finish(&second, run).await.status, Status::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parked_run_leaves_memory_and_comes_back_for_a_signal() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    publish(&engine, "w", &chain(&[wait_for("approved"), noop(json!({"output": "{{ctx.waitResult.by}}"}))])).await;
    let run = start(&engine, "w", json!({})).await;
    reach(&engine, run, Status::Waiting).await;
    assert_eq!(engine.active_runs(), 0);
    let signal = |event: &str| Input::Signal { event: event.into(), payload: Payload::from(json!({"by": "ann"})) };
    assert!(matches!(engine.send(run, signal("other")).await, Ok(Reply::Ignored(_))));
    assert_eq!(engine.send(run, signal("approved")).await, Ok(Reply::Accepted));
    assert_eq!(finish(&engine, run).await.status, Status::Completed);
    assert!(matches!(engine.send(run, signal("approved")).await, Ok(Reply::Refused { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_run_dispatches_nothing_until_it_is_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    publish(&engine, "w", &chain(&[wait_for("go"), noop(json!({}))])).await;
    let run = start(&engine, "w", json!({})).await;
    assert_eq!(engine.send(run, Input::Pause { reason: None }).await, Ok(Reply::Accepted));
    let go = Input::Signal { event: "go".into(), payload: Payload::from(json!({})) };
    assert_eq!(engine.send(run, go).await, Ok(Reply::Accepted));
    let paused = kinds(&engine, run).await;
    assert_eq!(paused.last(), Some(&Kind::StepCompleted));
    assert_eq!(engine.send(run, Input::Resume).await, Ok(Reply::Accepted));
    assert_eq!(finish(&engine, run).await.status, Status::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_run_stops_its_tasks() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    publish(&engine, "w", &chain(&[noop(json!({"delayMs": 60_000}))])).await;
    let run = start(&engine, "w", json!({})).await;
    assert_eq!(engine.send(run, Input::Cancel { reason: None }).await, Ok(Reply::Accepted));
    assert_eq!(finish(&engine, run).await.status, Status::Cancelled);
    // If the task were still running, stopping would wait for it.
    tokio::time::timeout(Duration::from_secs(5), engine.stop(Duration::from_secs(50))).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_run_is_retried_from_its_failed_step() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let nodes = [
        ("once", "noop", json!({})),
        ("work", "noop", json!({"config": {"fail": "no luck", "failTimes": 1}, "retry": {"maxAttempts": 1}})),
    ];
    publish(&engine, "w", &chain(&nodes)).await;
    let run = start(&engine, "w", json!({})).await;
    assert_eq!(finish(&engine, run).await.status, Status::Failed);
    assert_eq!(engine.send(run, Input::Retry).await, Ok(Reply::Accepted));
    assert_eq!(finish(&engine, run).await.status, Status::Completed);
    let journal = engine.world().runs.journal(run, 0, 100).await.unwrap();
    let dispatched = |step: &str| {
        journal
            .iter()
            .filter(|entry| entry.row.kind == Kind::StepDispatched)
            .filter(|entry| entry.row.step.as_ref().is_some_and(|key| key.as_str() == step))
            .count()
    };
    assert_eq!((dispatched("once"), dispatched("work")), (1, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn more_runs_than_there_is_room_for_wait_in_the_database() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { max_active_runs: 5, ..options() };
    let engine = engine_with(open(folder.path()).await, options).await;
    publish(&engine, "w", &chain(&[noop(json!({"delayMs": 20}))])).await;
    let mut runs = Vec::new();
    for _ in 0..60 {
        runs.push(start(&engine, "w", json!({})).await);
        assert!(engine.active_runs() <= 6, "{} are active", engine.active_runs());
    }
    for run in runs {
        assert_eq!(finish(&engine, run).await.status, Status::Completed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn signals_to_parked_runs_keep_the_bound() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { max_active_runs: 2, ..options() };
    let engine = engine_with(open(folder.path()).await, options).await;
    let delay = ("nap", "delay", json!({"config": {"delaySeconds": 1}}));
    publish(&engine, "w", &chain(&[wait_for("go"), delay])).await;
    let mut runs = Vec::new();
    for _ in 0..6 {
        runs.push(start(&engine, "w", json!({})).await);
    }
    let payload = Payload::from(json!({}));
    let signals =
        runs.iter().map(|run| engine.send(*run, Input::Signal { event: "go".into(), payload: payload.clone() }));
    for reply in futures_util::future::join_all(signals).await {
        assert_eq!(reply, Ok(Reply::Accepted));
        assert!(engine.active_runs() <= 2, "{} are active", engine.active_runs());
    }
    for run in runs {
        assert_eq!(finish(&engine, run).await.status, Status::Completed);
        assert!(engine.active_runs() <= 2, "{} are active", engine.active_runs());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn signals_in_a_row_reach_a_run_while_no_place_is_free() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { max_active_runs: 2, ..options() };
    let engine = engine_with(open(folder.path()).await, options).await;
    let second = ("then", "wait", json!({"config": {"event": "then"}}));
    publish(&engine, "w", &chain(&[wait_for("go"), second])).await;
    publish(&engine, "busy", &chain(&[noop(json!({"delayMs": 2_000}))])).await;
    let run = start(&engine, "w", json!({})).await;
    reach(&engine, run, Status::Waiting).await;
    for _ in 0..2 {
        start(&engine, "busy", json!({})).await;
    }
    for event in ["go", "then"] {
        let signal = Input::Signal { event: event.into(), payload: Payload::from(json!({})) };
        assert_eq!(engine.send(run, signal).await, Ok(Reply::Accepted), "{event}");
    }
    assert_eq!(finish(&engine, run).await.status, Status::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_new_work_and_loses_none() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(SqliteStore::open(folder.path(), &Default::default()).unwrap());
    let engine = engine_with(Stores::new(Arc::clone(&store)), options()).await;
    let text = "x".repeat(60_000);
    publish(&engine, "w", &chain(&[wait_for("go"), noop(json!({"output": "{{ctx.input.text}}"}))])).await;
    let run = start(&engine, "w", json!({"text": text})).await;
    let pages = store.pages().await.unwrap();
    store.set_max_pages(pages).await.unwrap();
    let random: String = (0..40_000_u64).map(|n| format!("{:x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
    // Accepted work waits for space, also while new work is rejected.
    let (accepted, payload) = (engine.clone(), Payload::from(json!({"random": random})));
    let signal = tokio::spawn(async move { accepted.send(run, Input::Signal { event: "go".into(), payload }).await });
    for _ in 0..20 {
        let start = engine.start_run(Start::new("w", json!({"text": random})));
        let refused = tokio::time::timeout(Duration::from_secs(5), start).await.expect("it is refused at once");
        assert!(matches!(refused, Err(Error::Full(_))), "{refused:?}");
    }
    assert!(!signal.is_finished());
    store.set_max_pages(1_000_000).await.unwrap();
    assert_eq!(signal.await.unwrap(), Ok(Reply::Accepted));
    assert_eq!(finish(&engine, run).await.status, Status::Completed);
    let page = engine.world().runs.list_runs(WORKSPACE, Default::default(), None, 10).await.unwrap();
    assert_eq!(page.runs.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_full_disk_runs_end_and_are_cancelled_from_the_reserve() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(SqliteStore::open(folder.path(), &Default::default()).unwrap());
    let engine = engine_with(Stores::new(Arc::clone(&store)), options()).await;
    publish(&engine, "w", &chain(&[wait_for("go"), noop(json!({"output": 1}))])).await;
    let runs = [start(&engine, "w", json!({})).await, start(&engine, "w", json!({})).await];
    let late = start(&engine, "w", json!({})).await;
    for run in [runs[0], runs[1], late] {
        reach(&engine, run, Status::Waiting).await;
    }
    let [ends, is_cancelled] = runs;
    let go = || Input::Signal { event: "go".into(), payload: Payload::from(json!({})) };
    // 1.6 MB are left: less than the reserve, and enough for runs that have been started.
    let pages = store.pages().await.unwrap();
    store.set_max_pages(pages + 200).await.unwrap();
    assert!(store.space().refusal.is_some_and(|reason| reason.contains("are free")), "{:?}", store.space());
    let refused = engine.start_run(Start::new("w", json!({}))).await;
    assert!(matches!(refused, Err(Error::Full(_))), "{refused:?}");
    assert_eq!(engine.send(ends, go()).await, Ok(Reply::Accepted));
    assert_eq!(finish(&engine, ends).await.status, Status::Completed);
    // 0.4 MB are left: only for the end of runs.
    let pages = store.pages().await.unwrap();
    store.set_max_pages(pages + 50).await.unwrap();
    let accepted = engine.clone();
    let waiting = tokio::spawn(async move { accepted.send(late, go()).await });
    assert_eq!(engine.send(is_cancelled, Input::Cancel { reason: None }).await, Ok(Reply::Accepted));
    assert_eq!(finish(&engine, is_cancelled).await.status, Status::Cancelled);
    assert!(!waiting.is_finished());
    store.set_max_pages(1_000_000).await.unwrap();
    assert_eq!(store.space().refusal, None);
    assert_eq!(waiting.await.unwrap(), Ok(Reply::Accepted));
    assert_eq!(finish(&engine, late).await.status, Status::Completed);
    let again = start(&engine, "w", json!({})).await;
    reach(&engine, again, Status::Waiting).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_full_disk_a_run_whose_item_waits_for_space_is_cancelled() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(SqliteStore::open(folder.path(), &Default::default()).unwrap());
    let engine = engine_with(Stores::new(Arc::clone(&store)), options()).await;
    publish(&engine, "w", &chain(&[wait_for("go"), ("then", "wait", json!({"config": {"event": "then"}}))])).await;
    let runs = [start(&engine, "w", json!({})).await, start(&engine, "w", json!({})).await];
    for run in runs {
        reach(&engine, run, Status::Waiting).await;
    }
    let [run, other] = runs;
    let pages = store.pages().await.unwrap();
    store.set_max_pages(pages + 50).await.unwrap();
    let cancel = |run| engine.send(run, Input::Cancel { reason: None });
    let go = Input::Signal { event: "go".into(), payload: Payload::from(json!({})) };
    // The signal is sent first. When the other run is cancelled, the item of the signal waits in the committer.
    let signalled = Box::pin(engine.send(run, go));
    let Either::Right((cancelled, signalled)) = future::select(signalled, Box::pin(cancel(other))).await else {
        panic!("the signal waits for space");
    };
    assert_eq!(cancelled, Ok(Reply::Accepted));
    let cancelled = tokio::time::timeout(Duration::from_secs(10), cancel(run)).await.expect("it waits for no space");
    assert_eq!(cancelled, Ok(Reply::Accepted));
    assert_eq!(finish(&engine, run).await.status, Status::Cancelled);
    assert!(signalled.await.is_ok(), "it has a reply");
    store.set_max_pages(1_000_000).await.unwrap();
    let again = start(&engine, "w", json!({})).await;
    reach(&engine, again, Status::Waiting).await;
}

/// The run derives more entries than an item has, so that one of many items is the first that waits.
#[tokio::test(flavor = "multi_thread")]
async fn on_a_full_disk_a_run_of_many_items_is_cancelled() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(SqliteStore::open(folder.path(), &Default::default()).unwrap());
    let engine = engine_with(Stores::new(Arc::clone(&store)), options()).await;
    let mut graph = chain(&[wait_for("go")]);
    for number in 0..3_000 {
        let id = format!("wait-{number}");
        let config = json!({"event": "late", "match": {"text": "x".repeat(500)}});
        graph["nodes"].as_array_mut().unwrap().push(json!({"id": id, "type": "wait", "config": config}));
        graph["edges"].as_array_mut().unwrap().push(json!({"source": "wait", "target": id}));
    }
    publish(&engine, "w", &graph).await;
    let run = start(&engine, "w", json!({})).await;
    reach(&engine, run, Status::Waiting).await;
    // The last 0.5 MB are kept for ends: the first items have space, and later ones wait.
    let pages = store.pages().await.unwrap();
    store.set_max_pages(pages + 150).await.unwrap();
    let go = Input::Signal { event: "go".into(), payload: Payload::from(json!({})) };
    assert_eq!(engine.send(run, go).await, Ok(Reply::Accepted));
    let cancel = engine.send(run, Input::Cancel { reason: None });
    let cancelled = tokio::time::timeout(Duration::from_secs(10), cancel).await.expect("it waits for no space");
    assert_eq!(cancelled, Ok(Reply::Accepted));
    assert_eq!(finish(&engine, run).await.status, Status::Cancelled);
    let entries = engine.world().runs.journal(run, 0, 100_000).await.unwrap().len();
    assert!((257..3_000).contains(&entries), "some items had space: {entries}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_starts_on_a_full_disk_reads_and_joins_when_there_is_space() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(SqliteStore::open(folder.path(), &Default::default()).unwrap());
    let first = engine_with(Stores::new(store), options()).await;
    publish(&first, "w", &chain(&[wait_for("go")])).await;
    let run = start(&first, "w", json!({})).await;
    reach(&first, run, Status::Waiting).await;
    first.stop(Duration::ZERO).await.unwrap();
    drop(first);
    // The table of nodes is filled until it has no place for the row of one more.
    let store = when_free(|| SqliteStore::open(folder.path(), &Default::default())).await;
    let pages = store.pages().await.unwrap();
    store.set_max_pages(pages).await.unwrap();
    let mut nodes = (0..1_000).map(|number| NodeId::new(Timestamp::EPOCH, number));
    while store.join(nodes.next().expect("the page is full"), Duration::ZERO, None).await.is_ok() {}
    drop(store);

    let full = sqlite::Options { max_pages: Some(pages), ..Default::default() };
    let store = Arc::new(when_free(|| SqliteStore::open(folder.path(), &full)).await);
    let second = engine_with(Stores::new(Arc::clone(&store)), options()).await;
    assert!(second.is_fenced());
    let row = second.world().runs.get_run(WORKSPACE, run).await.unwrap().unwrap();
    assert_eq!(row.status, Status::Waiting);
    let refused = second.start_run(Start::new("w", json!({}))).await;
    assert!(matches!(refused, Err(Error::Full(_))), "{refused:?}");
    store.set_max_pages(1_000_000).await.unwrap();
    let joined = async {
        while second.is_fenced() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), joined).await.expect("it joins without a restart");
    let go = Input::Signal { event: "go".into(), payload: Payload::from(json!({})) };
    assert_eq!(second.send(run, go).await, Ok(Reply::Accepted));
    assert_eq!(finish(&second, run).await.status, Status::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_run_is_parked_with_a_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let definition = json!({
        "nodes": [
            {"id": "start", "type": "start"},
            {"id": "each", "type": "loop", "config": {"sourceVariable": "{{ctx.input.items}}"}},
            {"id": "inner", "type": "transform", "config": {"value": "{{item + 1}}"}},
            {"id": "wait", "type": "wait", "config": {"event": "go"}},
            {"id": "end", "type": "end", "config": {"outputParameters": [
                {"name": "last", "sourceVariable": "{{ctx.loopResults | last}}"}
            ]}},
        ],
        "edges": [
            {"source": "start", "target": "each"},
            {"source": "each", "target": "inner", "sourceHandle": "loop"},
            {"source": "inner", "target": "each"},
            {"source": "each", "target": "wait", "sourceHandle": "done"},
            {"source": "wait", "target": "end"},
        ],
    });
    publish(&engine, "w", &definition).await;
    let run = start(&engine, "w", json!({"items": (0..800).collect::<Vec<_>>()})).await;
    reach(&engine, run, Status::Waiting).await;
    // The snapshot is written in a separate task, after the park.
    let has_snapshot = async {
        while engine.world().runs.load_run(run).await.unwrap().unwrap().snapshot.is_none() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), has_snapshot).await.unwrap();
    let go = Input::Signal { event: "go".into(), payload: Payload::from(json!({})) };
    assert_eq!(engine.send(run, go).await, Ok(Reply::Accepted));
    assert_eq!(finish(&engine, run).await.output.unwrap().value(), &json!({"last": 800}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_takes_too_long_times_out() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let slow = json!({"config": {"delayMs": 60_000}, "timeoutSeconds": 1, "retry": {"maxAttempts": 1}});
    publish(&engine, "w", &chain(&[("work", "noop", slow)])).await;
    let run = start(&engine, "w", json!({})).await;
    let row = finish(&engine, run).await;
    assert_eq!(row.error.unwrap().code, "STEP_TIMEOUT");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_has_at_most_the_longest_timeout_of_its_server() {
    let folder = tempfile::tempdir().unwrap();
    let stores = open(folder.path()).await;
    let with_longest = |seconds| {
        let sandbox = Sandbox::new(1).with_timeout_max(Duration::from_secs(seconds));
        world(stores.clone(), Registry::standard(Ports { sandbox, ..Ports::none() }))
    };
    let script = json!({"config": {"code": "for (;;) {}"}, "timeoutSeconds": 61, "retry": {"maxAttempts": 1}});
    let definition = chain(&[("endless", "javascript", script)]);
    let usual = Engine::start(world(stores.clone(), Registry::standard(Ports::none())), options()).await.unwrap();
    let refused = usual.library().publish(WORKSPACE, "w", &definition).await.unwrap_err();
    let SaveError::Invalid(refused) = refused else { panic!("it is {refused:?}") };
    let refused: Vec<_> = refused.iter().map(|problem| (problem.path.as_str(), problem.message.as_str())).collect();
    assert_eq!(refused, [("/nodes/1/timeoutSeconds", "a timeout of this type is at most 60 seconds")]);
    usual.stop(Duration::ZERO).await.unwrap();
    let patient = Engine::start(with_longest(3_600), options()).await.unwrap();
    publish(&patient, "w", &definition).await;
    patient.stop(Duration::ZERO).await.unwrap();
    // A definition that was saved with a longer timeout is still loaded.
    let brief = Engine::start(with_longest(1), options()).await.unwrap();
    let run = start(&brief, "w", json!({})).await;
    let failed = finish(&brief, run).await.error.unwrap();
    assert_eq!((failed.code.as_str(), failed.message.as_str()), ("STEP_TIMEOUT", "the script took longer than 1s"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_a_server_does_not_have_hangs_no_run() {
    let folder = tempfile::tempdir().unwrap();
    let stores = open(folder.path()).await;
    let first = engine_with(stores.clone(), options()).await;
    publish(&first, "w", &chain(&[noop(json!({"delayMs": 60_000}))])).await;
    let run = start(&first, "w", json!({})).await;
    first.stop(Duration::ZERO).await.unwrap();
    // Another build, without that kind, claims the run and reports the reason.
    let second = Engine::start(world(stores, Registry::default()), options()).await.unwrap();
    reach(&second, run, Status::Paused).await;
    let row = second.world().runs.get_run(WORKSPACE, run).await.unwrap().unwrap();
    let error = row.error.unwrap();
    assert!(error.message.contains("unknown node type \"noop\""), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_journal_cannot_be_read_is_paused_and_keeps_its_journal() {
    let folder = tempfile::tempdir().unwrap();
    let stores = open(folder.path()).await;
    let first = engine_with(stores.clone(), options()).await;
    publish(&first, "w", &chain(&[wait_for("go")])).await;
    let run = start(&first, "w", json!({})).await;
    reach(&first, run, Status::Waiting).await;
    // An entry of a step that this workflow does not have, as a later version might write.
    let ghost = Event::StepSkipped { step: "ghost".into() };
    let item = Item {
        commit: CommitId::new(Timestamp::EPOCH, 7),
        run,
        workspace: WORKSPACE,
        gate: Gate::Unowned,
        format: 1,
        entries: vec![NewEntry {
            seq: 5,
            at: Timestamp::NEVER,
            row: codec::encode(&Entry::new(5, Timestamp::NEVER, ghost)),
        }],
        projection: Some(Projection {
            status: Status::Running,
            owner: None,
            wake_at: Timestamp::EPOCH,
            output: None,
            error: None,
            ended_at: None,
            machine: None,
        }),
        waits: Vec::new(),
        taken: Vec::new(),
        inbox_inputs: Vec::new(),
        side: None,
    };
    assert_eq!(kinds(&first, run).await.len(), 4);
    stores.runs.commit(first.node(), &[item]).await.unwrap();
    first.stop(Duration::from_secs(5)).await.unwrap();
    let second = engine_with(stores, options()).await;
    let paused = async {
        loop {
            let row = second.world().runs.get_run(WORKSPACE, run).await.unwrap().unwrap();
            if row.status == Status::Paused {
                return row;
            }
            tokio::task::yield_now().await;
        }
    };
    let row = tokio::time::timeout(Duration::from_secs(10), paused).await.unwrap();
    assert_eq!(row.error.unwrap().code, "JOURNAL_UNREADABLE");
    assert_eq!(kinds(&second, run).await.len(), 6);
    let answer = second.send(run, Input::Cancel { reason: None }).await;
    assert_eq!(answer.unwrap_err().code(), "UNAVAILABLE");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_that_only_looks_like_nul_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    publish(&engine, "w", &chain(&[])).await;
    let run = start(&engine, "w", json!({"text": "a\\u0000"})).await;
    assert_eq!(finish(&engine, run).await.status, Status::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_changes_of_the_same_version_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    publish(&engine, "w", &chain(&[wait_for("go")])).await;
    let run = start(&engine, "w", json!({})).await;
    let version = kinds(&engine, run).await.len() as u64;
    let set = |n: u32| Input::SetContext { values: Payload::from(json!({"n": n})) };
    let (first, second) =
        tokio::join!(engine.send_at(run, set(1), Some(version)), engine.send_at(run, set(2), Some(version)));
    let replies = [first.unwrap(), second.unwrap()];
    assert_eq!(replies.iter().filter(|reply| reply.is_accepted()).count(), 1, "{replies:?}");
    let is_concurrency = |reply: &Reply| matches!(reply, Reply::Refused { code, .. } if code == "CONCURRENCY_ERROR");
    assert_eq!(replies.iter().filter(|reply| is_concurrency(reply)).count(), 1, "{replies:?}");
    assert_eq!(kinds(&engine, run).await.len() as u64, version + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_engine_releases_its_folder_and_its_waiting_callers() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { shards: 4, ..options() };
    let engine = engine_with(open(folder.path()).await, options).await;
    let script = json!({"config": {"code": "for (let i = 0; i < 3e6; i++); return 1"}});
    publish(&engine, "busy", &chain(&[("work", "javascript", script)])).await;
    publish(&engine, "w", &chain(&[("pause", "delay", json!({"config": {"delaySeconds": 20}}))])).await;
    let run = start(&engine, "w", json!({})).await;
    let waiting = tokio::spawn({
        let engine = engine.clone();
        async move { engine.wait(WORKSPACE, run).await }
    });
    for _ in 0..200 {
        start(&engine, "busy", json!({})).await;
    }
    // Stopping does not wait for queued scripts.
    tokio::time::timeout(Duration::from_secs(5), engine.stop(Duration::from_secs(60))).await.unwrap().unwrap();
    let waited = tokio::time::timeout(Duration::from_secs(5), waiting).await.unwrap().unwrap();
    assert_eq!(waited, Err(Error::Stopping));
    drop(engine);
    let reopened = async {
        while SqliteStore::open(folder.path(), &Default::default()).is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), reopened).await.expect("the folder is free");
}

#[test]
fn a_run_with_an_event_of_a_later_build_is_paused() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let first = runtime();
    let run = first.block_on(async {
        let engine = engine_with(open_sqlite(folder.path()).await, options()).await;
        publish(&engine, "w", &chain(&[noop(json!({"delayMs": 60_000}))])).await;
        start(&engine, "w", json!({})).await
    });
    drop(first);
    let changed = loop {
        // The writer's thread may still hold the file for a moment.
        let database = rusqlite::Connection::open(folder.path().join("everstep.db")).unwrap();
        match database.execute("update journal set kind = 200 where seq = 3", []) {
            Ok(changed) => break changed,
            Err(_) => std::thread::yield_now(),
        }
    };
    assert_eq!(changed, 1);
    runtime().block_on(async {
        let engine = engine_with(open_sqlite(folder.path()).await, options()).await;
        reach(&engine, run, Status::Paused).await;
        let row = engine.world().runs.get_run(WORKSPACE, run).await.unwrap().unwrap();
        assert_eq!(row.error.unwrap().code, "JOURNAL_UNREADABLE");
        assert_eq!((row.owner, engine.active_runs()), (None, 0));
    });
}
