//! Starts that come together, and what whoever starts a run is told of it.

#[expect(dead_code, reason = "each suite uses a part of it")]
mod support;

use everstep_core::payload::Payload;
use everstep_core::status::Status;
use everstep_engine::{Start, StartDetail, StartReply};
use futures_util::future;
use serde_json::json;
use support::{WORKSPACE, chain, engine, publish};

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
        // Somebody always reads.
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
async fn a_start_is_told_how_its_run_began_as_the_database_has_it() {
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
    // What ends at once has begun and ended in one.
    let nothing = Start { workflow: "nothing".to_owned(), ..start() };
    let StartReply { run, began, .. } = engine.start_run(nothing).await.unwrap();
    let row = engine.world().runs.get_run(WORKSPACE, run).await.unwrap().unwrap();
    assert_eq!(began.unwrap().row, row);
    assert_eq!(row.status, Status::Completed);
    // Of a run that was there before nothing is told.
    let again = engine.start_run(keyed).await.unwrap();
    assert!(!again.created && again.began.is_none());
}
