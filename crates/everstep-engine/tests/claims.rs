//! Claims: the workspaces share the places of a node, whatever their backlogs are.

use std::time::Duration;

use everstep_core::ids::{CommitId, NodeId, RunId, WorkspaceId};
use everstep_core::payload::Payload;
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_engine::{Engine, Options, Start};
use everstep_store::{Gate, Item, NewRun, Projection};
use serde_json::json;

use crate::support::{WORKSPACE, chain, engine, engine_with, open, options, publish, start};
use crate::worker::{Worker, returned};

/// The due runs of the workspace with a backlog.
const BACKLOG: u128 = 6_000;
const PLACES: usize = 100;
const OTHER: WorkspaceId = WorkspaceId::from_uuid(uuid::Uuid::from_u128(2));

/// The row of a run that has not begun.
fn pending(workspace: WorkspaceId, wake_at: Timestamp, number: u128) -> Item {
    let new = NewRun {
        workflow: "w".to_owned(),
        version: 1,
        lane: String::new(),
        key: None,
        input: Payload::from(json!({})),
        parent: None,
        tags: Payload::from(json!({})),
        search_paths: std::sync::Arc::default(),
        retention_days: 1,
        is_test: false,
        created_at: wake_at,
        trigger: None,
        start: None,
    };
    Item {
        commit: CommitId::new(wake_at, number),
        run: RunId::new(wake_at, number),
        workspace,
        gate: Gate::Start(Box::new(new)),
        format: 3,
        entries: Vec::new(),
        projection: Some(Projection {
            status: Status::Pending,
            owner: None,
            wake_at,
            output: None,
            error: None,
            ended_at: None,
            machine: None,
        }),
        waits: Vec::new(),
        taken: Vec::new(),
        inbox_inputs: Vec::new(),
        side: None,
    }
}

async fn began_at(engine: &Engine, run: RunId) -> Option<Timestamp> {
    engine.world().runs.journal(run, 0, 1).await.unwrap().first().map(|entry| entry.at)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_begins_beside_the_backlog_of_another_workspace() {
    let folder = tempfile::tempdir().unwrap();
    let first = engine(folder.path()).await;
    let definition = chain(&[("work", "noop", json!({}))]);
    publish(&first, "w", &definition).await;
    first.library().publish(OTHER, "w", &definition).await.unwrap();
    let now = first.world().clock.now();
    first.stop(Duration::from_secs(1)).await.unwrap();
    drop(first);

    // Rows that no node of an engine has written: all of them are due when the engine starts.
    let stores = open(folder.path()).await;
    let node = NodeId::new(now, 1);
    stores.runs.join(node, Duration::from_secs(10), None).await.unwrap();
    let backlog: Vec<_> = (0..BACKLOG).map(|number| pending(WORKSPACE, now, number)).collect();
    for items in backlog.chunks(500) {
        stores.runs.commit(node, items).await.unwrap();
    }
    let newest = pending(OTHER, now.plus(Duration::from_millis(1)), BACKLOG);
    stores.runs.commit(node, std::slice::from_ref(&newest)).await.unwrap();

    let engine = engine_with(stores, Options { max_active_runs: PLACES, ..options() }).await;
    let wait = engine.wait(OTHER, newest.run);
    let ended = tokio::time::timeout(Duration::from_secs(30), wait).await.expect("the run ends").unwrap();
    assert_eq!(ended.status, Status::Completed);
    let began = began_at(&engine, newest.run).await.unwrap();
    let mut before = 0;
    for item in &backlog {
        before += usize::from(began_at(&engine, item.run).await.is_some_and(|time| time < began));
    }
    // It is in the first claim, of which the shards decide one run after the other.
    assert!(before < 2 * PLACES, "{before} of {BACKLOG} runs began before it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_due_run_of_a_small_workspace_takes_one_of_the_last_permits() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine_with(open(folder.path()).await, Options { max_active_runs: 16, ..options() }).await;
    let wait = json!({"config": {"delaySeconds": 25}});
    publish(&engine, "waits", &chain(&[("wait", "delay", wait)])).await;
    engine.library().publish(OTHER, "w", &chain(&[("work", "noop", json!({}))])).await.unwrap();
    let of_other = || Start { workspace: OTHER, ..Start::new("w", json!({})) };
    let first = engine.start_run(of_other()).await.unwrap().run;
    engine.wait(OTHER, first).await.unwrap();
    // They leave the last quarter of the permits free, and some of them wait for one.
    for _ in 0..20 {
        start(&engine, "waits", json!({})).await;
    }
    let begin_at = Some(engine.world().clock.now().plus(Duration::from_millis(500)));
    let later = engine.start_run(Start { begin_at, ..of_other() }).await.unwrap().run;
    let ended = tokio::time::timeout(Duration::from_secs(10), engine.wait(OTHER, later));
    assert_eq!(ended.await.expect("it waits for no run of its neighbour").unwrap().status, Status::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_due_run_of_a_small_workspace_s_worker_takes_one_of_the_last_permits() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine_with(open(folder.path()).await, Options { max_active_runs: 16, ..options() }).await;
    let wait = json!({"config": {"delaySeconds": 25}});
    engine.library().publish(OTHER, "waits", &chain(&[("wait", "delay", wait)])).await.unwrap();
    let mut worker = Worker::come(&engine, 4, Vec::new()).await;
    let order = || Start::new("order", json!({}));
    engine.start_run(order()).await.unwrap();
    let turn = worker.turn().await;
    worker.done(&turn, returned(json!("first"))).await;
    // They leave the last quarter of the permits free, and some of them wait for one.
    for _ in 0..20 {
        engine.start_run(Start { workspace: OTHER, ..Start::new("waits", json!({})) }).await.unwrap();
    }
    let begin_at = Some(engine.world().clock.now().plus(Duration::from_millis(500)));
    let later = engine.start_run(Start { begin_at, ..order() }).await.unwrap().run;
    // The turn arrives within the time for which the worker waits, although no run of its neighbour ends.
    let turn = worker.turn().await;
    assert_eq!(turn.run, later);
    worker.done(&turn, returned(json!("second"))).await;
}
