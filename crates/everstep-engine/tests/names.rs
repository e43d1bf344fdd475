//! Names and versions of code workflows: whose they are, and who serves them.

#[expect(dead_code, reason = "each suite uses a part of it")]
mod support;
#[expect(dead_code, reason = "each suite uses a part of it")]
mod worker;

use everstep_core::code::Report;
use everstep_core::failure::Failure;
use everstep_core::status::Status;
use everstep_core::workflow::Style;
use everstep_engine::{Hello, ServedWorkflow, Start};
use serde_json::json;
use support::{WORKSPACE, chain, finish, publish};
use worker::{Worker, place, returned, start};

#[tokio::test]
async fn a_name_belongs_to_one_style() {
    let (_folder, engine) = place().await;
    publish(&engine, "order", &chain(&[])).await;
    let hello = Hello {
        workspace: WORKSPACE,
        worker: "ann".into(),
        sdk: None,
        workflows: ["fresh", "order"]
            .map(|name| ServedWorkflow { name: name.into(), version: 1, retention_days: None })
            .to_vec(),
        capacity: 1,
        holds: vec![],
    };
    let error = engine.open_session(hello).await.err().unwrap();
    assert_eq!(error.code(), "WORKFLOW_STYLE_CONFLICT");
    let error = engine.library().find(WORKSPACE, "fresh", None).await.err().unwrap();
    assert_eq!(error.code(), "NOT_FOUND", "whoever is refused has registered nothing");
}

#[tokio::test]
async fn code_takes_the_place_of_a_graph_that_was_deleted() {
    let (_folder, engine) = place().await;
    publish(&engine, "order", &chain(&[])).await;
    publish(&engine, "order", &chain(&[("a", "noop", json!({}))])).await;
    for version in [None, Some(2)] {
        let found = engine.library().find(WORKSPACE, "order", version).await.unwrap();
        assert!(!found.workflow.needs_worker());
    }
    engine.world().workflows.delete_workflow(WORKSPACE, "order").await.unwrap();
    let mut worker = Worker::named(&engine, "ann", 2, 10, vec![]).await;
    for version in [None, Some(2)] {
        let new = Start { version, ..Start::new("order", json!({})) };
        let run = engine.start_run(new).await.unwrap().run;
        let turn = worker.turn().await;
        assert_eq!((turn.run, turn.version), (run, 2));
        worker.done(&turn, returned(json!(1))).await;
    }
}

#[tokio::test]
async fn a_graph_takes_the_number_of_another_that_was_deleted() {
    let (_folder, engine) = place().await;
    for nodes in [vec![], vec![("a", "noop", json!({}))]] {
        publish(&engine, "order", &chain(&nodes)).await;
        engine.library().find(WORKSPACE, "order", None).await.unwrap();
    }
    engine.world().workflows.delete_workflow(WORKSPACE, "order").await.unwrap();
    // Code gives the numbers free.
    Worker::named(&engine, "ann", 1, 10, vec![]).await;
    engine.world().workflows.delete_workflow(WORKSPACE, "order").await.unwrap();
    publish(&engine, "order", &chain(&[("b", "noop", json!({}))])).await;
    let found = engine.library().find(WORKSPACE, "order", None).await.unwrap();
    assert_eq!(found.workflow.version, 2);
    let Style::Graph(graph) = &found.workflow.style else { panic!("it is a graph") };
    assert!(graph.definition().to_string().contains(r#""b""#), "{}", graph.definition());
}

#[tokio::test]
async fn a_version_that_was_found_is_not_read_again() {
    let (_folder, engine) = place().await;
    Worker::come(&engine, 10, vec![]).await;
    let version = engine.library().find_to_start(&Start::new("order", json!({}))).await.unwrap();
    // Whoever reads it now finds nothing.
    engine.world().workflows.delete_workflow(WORKSPACE, "order").await.unwrap();
    assert!(engine.start_run(Start::new("order", json!({}))).await.is_err());
    for n in 0..3 {
        let started = engine.start_run(Start::of_version(&version, json!({"n": n}))).await.unwrap();
        let row = engine.world().runs.get_run(WORKSPACE, started.run).await.unwrap().unwrap();
        assert_eq!((row.workflow.as_str(), row.version), ("order", version.workflow.version));
    }
}

#[tokio::test]
async fn versions_go_to_the_workers_that_serve_them() {
    let (_folder, engine) = place().await;
    let mut old = Worker::named(&engine, "old", 1, 10, vec![]).await;
    let mut new = Worker::named(&engine, "new", 2, 10, vec![]).await;
    let latest = start(&engine).await;
    let first = Start { version: Some(1), may_be_code: true, ..Start::new("order", json!({})) };
    let first = engine.start_run(first).await.unwrap().run;
    let (one, two) = (old.turn().await, new.turn().await);
    assert_eq!(((one.run, one.version), (two.run, two.version)), ((first, 1), (latest, 2)));
    // A worker that finds out that it cannot run a version gives the turn back.
    let mut third = Worker::named(&engine, "third", 1, 10, vec![]).await;
    old.tell(&one, Report::Declined { failure: Failure::fatal("VERSION_MISMATCH", "expected 1, got 3") });
    let again = third.turn().await;
    assert_eq!((again.run, again.turn), (first, 2));
    third.done(&again, returned(json!(1))).await;
    new.done(&two, returned(json!(2))).await;
    assert_eq!(finish(&engine, first).await.status, Status::Completed);
    assert_eq!(finish(&engine, latest).await.status, Status::Completed);
}
