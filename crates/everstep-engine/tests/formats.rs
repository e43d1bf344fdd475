//! Formats: the content of a run determines which builds may continue it, not the build that wrote it.

use std::time::Duration;

use everstep_core::ids::RunId;
use everstep_core::run::{Input, SNAPSHOT_FORMAT};
use everstep_core::status::Status;
use everstep_engine::Engine;
use everstep_store::{InboxInput, Item, Snapshot};
use everstep_testkit::contract::fixtures;
use serde_json::{Value, json};

use crate::support::{WORKSPACE, chain, engine, engine_with, finish, open, options, publish, start};

fn wait_for(id: &'static str) -> (&'static str, &'static str, Value) {
    (id, "wait", json!({"config": {"event": id}}))
}

fn signal(event: &str) -> Input {
    Input::Signal { event: event.to_owned(), payload: json!({}).into() }
}

/// Waits until a run is in a status and its journal has a length.
async fn reach(engine: &Engine, run: RunId, status: Status, seq: u64) {
    let reached = async {
        loop {
            let row = engine.world().runs.get_run(WORKSPACE, run).await.unwrap().unwrap();
            if (row.status, row.seq) == (status, seq) {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), reached).await.expect("the run reaches the status");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graph_run_has_the_first_format_at_every_node_that_it_visits() {
    let folder = tempfile::tempdir().unwrap();
    let stores = open(folder.path()).await;
    let first = engine_with(stores.clone(), options()).await;
    publish(&first, "w", &chain(&[wait_for("go"), wait_for("on")])).await;
    let run = start(&first, "w", json!({})).await;
    first.send(run, signal("go")).await.unwrap();
    first.stop(Duration::from_secs(5)).await.unwrap();
    let second = engine_with(stores, options()).await;
    second.send(run, signal("on")).await.unwrap();
    assert_eq!(finish(&second, run).await.format, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_input_that_this_build_cannot_read_stays_in_the_inbox() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    publish(&engine, "w", &chain(&[wait_for("go"), wait_for("on")])).await;
    let run = start(&engine, "w", json!({})).await;
    reach(&engine, run, Status::Waiting, 4).await;
    // A run of a later build sends an input that this build does not know, before one that it knows.
    let later = br#"{"later":{"of":"another build"}}"#;
    let go = serde_json::to_vec(&signal("go")).unwrap();
    let sender = fixtures::new_run();
    let sending = Item {
        projection: Some(fixtures::ended(Status::Completed, fixtures::at(0))),
        inbox_inputs: vec![InboxInput { to: run, input: later.to_vec() }, InboxInput { to: run, input: go }],
        ..fixtures::start(sender, None)
    };
    fixtures::apply(&*engine.world().runs, engine.node(), &sending).await;
    engine.hint_inbox();
    // The run continues with the second input, and the first one stays.
    reach(&engine, run, Status::Waiting, 6).await;
    let arrivals = engine.world().runs.arrivals(run).await.unwrap();
    assert_eq!(arrivals.iter().map(|arrival| &arrival.input[..]).collect::<Vec<_>>(), [later]);
    // A load of the run does not delete it either.
    engine.send(run, signal("on")).await.unwrap();
    assert_eq!(finish(&engine, run).await.status, Status::Completed);
    assert_eq!(engine.world().runs.arrivals(run).await.unwrap(), arrivals);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_of_another_format_is_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    publish(&engine, "w", &chain(&[wait_for("go")])).await;
    let run = start(&engine, "w", json!({})).await;
    reach(&engine, run, Status::Waiting, 4).await;
    let of_this_build = engine.runs().load(run).await.unwrap().state;
    // Neither the number nor the content is of this build.
    let snapshot = Snapshot { seq: 3, format: SNAPSHOT_FORMAT + 1, state: b"{}".to_vec() };
    engine.world().runs.put_snapshot(run, snapshot).await.unwrap();
    let loaded = engine.runs().load(run).await.unwrap();
    assert!(of_this_build.is_some());
    assert_eq!(loaded.state, of_this_build);
    engine.send(run, signal("go")).await.unwrap();
    assert_eq!(finish(&engine, run).await.status, Status::Completed);
}
