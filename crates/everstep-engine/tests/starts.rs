//! Concurrent starts, and the reply to a start.

use std::time::Duration;

use everstep_core::ids::WorkspaceId;
use everstep_core::payload::Payload;
use everstep_core::status::Status;
use everstep_engine::{Error, Fork, Start, StartDetail, StartReply};
use everstep_store::RunFilter;
use futures_util::future;
use serde_json::{Value, json};

use crate::support::{WORKSPACE, chain, engine, publish};

/// A workflow whose input has a number `amount`.
fn with_schema(nodes: &[(&str, &str, Value)]) -> Value {
    let mut definition = chain(nodes);
    definition["inputSchema"] = json!({
        "type": "object",
        "properties": {"amount": {"type": "number", "minimum": 1}, "note": {"type": "string"}},
        "required": ["amount"],
    });
    definition
}

fn start() -> Start {
    Start::new("work", Payload::from(json!({"n": 1})))
}

#[tokio::test]
async fn starts_that_come_together_read_their_workflow_together() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    publish(&engine, "work", &chain(&[])).await;
    let before = engine.world().runs.calls();
    future::try_join_all((0..200).map(|_| engine.start_run(start()))).await.unwrap();
    let calls = engine.world().runs.calls() - before;
    assert!(calls < 100, "200 starts took {calls} calls to the store");
}

#[tokio::test]
async fn a_start_takes_the_version_that_was_active_when_it_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    publish(&engine, "work", &chain(&[])).await;
    let crowd = {
        let engine = engine.clone();
        // One reader is always active.
        tokio::spawn(async move {
            loop {
                future::try_join_all((0..8).map(|_| engine.start_run(start()))).await.unwrap();
            }
        })
    };
    for version in 2..30 {
        let nodes: Vec<_> = (0..version).map(|n| (format!("n{n}"), "noop", json!({}))).collect();
        let nodes: Vec<_> = nodes.iter().map(|(id, kind, rest)| (&**id, *kind, rest.clone())).collect();
        publish(&engine, "work", &chain(&nodes)).await;
        let run = engine.start_run(start()).await.unwrap().run;
        let row = engine.world().runs.get_run(WORKSPACE, run).await.unwrap().unwrap();
        assert_eq!(row.version, version);
    }
    crowd.abort();
}

#[tokio::test]
async fn the_reply_to_a_start_equals_the_row_of_its_run() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    publish(&engine, "work", &chain(&[("wait", "wait", json!({"config": {"event": "go"}}))])).await;
    publish(&engine, "nothing", &chain(&[])).await;
    let key = Some(("work".to_owned(), "k".to_owned()));
    let start = || Start { detail: StartDetail::Beginning, ..start() };
    let keyed = Start { key, tags: Payload::from(json!({"a": "b"})), retention_days: Some(3), ..start() };
    let StartReply { run, began, .. } = engine.start_run(keyed.clone()).await.unwrap();
    let began = began.unwrap();
    let row = engine.world().runs.get_run(WORKSPACE, run).await.unwrap().unwrap();
    assert_eq!(began.row, row);
    assert_eq!((began.snapshot.seq, began.snapshot.status), (row.seq, Status::Waiting));
    // A run that ends at once begins and ends in one item.
    let nothing = Start { workflow: "nothing".to_owned(), ..start() };
    let StartReply { run, began, .. } = engine.start_run(nothing).await.unwrap();
    let row = engine.world().runs.get_run(WORKSPACE, run).await.unwrap().unwrap();
    assert_eq!(began.unwrap().row, row);
    assert_eq!(row.status, Status::Completed);
    // The reply for a run that existed before contains no details.
    let again = engine.start_run(keyed).await.unwrap();
    assert!(!again.created && again.began.is_none());
}

/// A workflow that sleeps in the memory of its node.
fn nap(millis: u64) -> Value {
    chain(&[("nap", "delay", json!({"config": {"delayMs": millis}}))])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_for_a_run_that_was_started_here_reads_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    publish(&engine, "work", &nap(100)).await;
    // The least calls to the store of a start that waits for the end itself, and of a start and a wait.
    let mut least = [u64::MAX; 2];
    // The loops of the node call the store at the same time: most runs are short enough to end between two such calls.
    for _ in 0..20 {
        for (least, detail) in least.iter_mut().zip([StartDetail::End, StartDetail::Beginning]) {
            let before = engine.world().runs.calls();
            let StartReply { run, end, .. } = engine.start_run(Start { detail, ..start() }).await.unwrap();
            let halted = match end {
                Some(end) => end.halt().await.unwrap(),
                None => engine.wait_for_halt(WORKSPACE, None, run).await.unwrap(),
            };
            *least = (*least).min(engine.world().runs.calls() - before);
            let row = engine.world().runs.get_run(WORKSPACE, run).await.unwrap().unwrap();
            assert_eq!((row.status, halted.into_row()), (Status::Completed, row));
        }
    }
    assert_eq!(least[0], least[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_finds_a_run_that_has_ended_since_its_start() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    publish(&engine, "work", &nap(5)).await;
    let start = Start { detail: StartDetail::Beginning, ..start() };
    let run = engine.start_run(start).await.unwrap().run;
    let row = async || engine.world().runs.get_run(WORKSPACE, run).await.unwrap().unwrap();
    let ended = async {
        while row().await.ended_at.is_none() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), ended).await.expect("the run ends");
    // A run of another workspace does not exist.
    let elsewhere = WorkspaceId::from_uuid(uuid::Uuid::from_u128(2));
    assert!(matches!(engine.wait_for_halt(elsewhere, None, run).await, Err(Error::RunNotFound(_))));
    let wait = tokio::time::timeout(Duration::from_secs(10), engine.wait_for_halt(WORKSPACE, None, run));
    let halted = wait.await.expect("the wait finds the end").unwrap();
    assert_eq!(halted.into_row(), row().await);
}

#[tokio::test]
async fn a_start_whose_input_does_not_fit_the_schema_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    publish(&engine, "order", &with_schema(&[])).await;
    let before = engine.world().runs.list_runs(WORKSPACE, RunFilter::default(), None, 10).await.unwrap().runs.len();
    let refused = engine.start_run(Start::new("order", json!({"amount": 0, "note": 5}))).await.unwrap_err();
    assert_eq!(refused.code(), "VALIDATION_ERROR");
    let Error::InputRejected { workflow, version, faults } = &refused else { panic!("{refused}") };
    assert_eq!((workflow.as_str(), *version), ("order", 1));
    let places: Vec<_> = faults.iter().map(|fault| fault.pointer.as_str()).collect();
    assert_eq!(places, ["/amount", "/note"]);
    assert_eq!(
        refused.to_string(),
        "the input does not fit the inputSchema of workflow \"order\" version 1: \
         /amount: 0 is out of range: it must be at least 1; /note: expected a string, found a number"
    );
    let page = engine.world().runs.list_runs(WORKSPACE, RunFilter::default(), None, 10).await.unwrap();
    assert_eq!((page.runs.len(), before), (0, 0));
    // An input that fits is started; a version without a schema takes any input.
    engine.start_run(Start::new("order", json!({"amount": 5, "more": true}))).await.unwrap();
    publish(&engine, "order", &chain(&[])).await;
    engine.start_run(Start::new("order", json!("anything"))).await.unwrap();
    let old = Start { version: Some(1), ..Start::new("order", json!("anything")) };
    assert!(matches!(engine.start_run(old).await, Err(Error::InputRejected { version: 1, .. })));
}

#[tokio::test]
async fn test_runs_are_checked_too() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let version = engine.library().compile_test(&with_schema(&[]), None).unwrap();
    let refused = engine.start_run(Start::of_version(&version, json!({}))).await.unwrap_err();
    assert!(matches!(refused, Error::InputRejected { .. }), "{refused}");
    engine.start_run(Start::of_version(&version, json!({"amount": 1}))).await.unwrap();
}

#[tokio::test]
async fn a_start_with_a_schema_reads_nothing_more() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    publish(&engine, "plain", &chain(&[])).await;
    publish(&engine, "checked", &with_schema(&[])).await;
    let mut calls = Vec::new();
    for name in ["plain", "checked"] {
        // The first start compiles the version.
        engine.start_run(Start::new(name, json!({"amount": 1}))).await.unwrap();
        let mut least = u64::MAX;
        // The loops of a node that has just started call the store at the same time.
        for _ in 0..5 {
            let before = engine.world().runs.calls();
            engine.start_run(Start::new(name, json!({"amount": 1}))).await.unwrap();
            least = least.min(engine.world().runs.calls() - before);
        }
        calls.push(least);
    }
    assert_eq!(calls[0], calls[1]);
}

#[tokio::test]
async fn forks_and_retries_keep_their_input() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let waits = [("wait", "wait", json!({"config": {"event": "go"}}))];
    publish(&engine, "order", &chain(&waits)).await;
    let run = engine.start_run(Start::new("order", json!("free text"))).await.unwrap().run;
    publish(&engine, "order", &with_schema(&waits)).await;
    assert!(engine.start_run(Start::new("order", json!("free text"))).await.is_err());
    let forked = engine.fork(WORKSPACE, run, Fork::default()).await.unwrap();
    let row = engine.world().runs.get_run(WORKSPACE, forked.run).await.unwrap().unwrap();
    assert_eq!((row.version, row.input.value()), (1, &json!("free text")));
}
