//! Names and versions of code workflows: their owners, and the workers that serve them.

use std::sync::Arc;
use std::time::Duration;

use everstep_core::code::Report;
use everstep_core::failure::Failure;
use everstep_core::run::Input;
use everstep_core::schema::Schema;
use everstep_core::status::Status;
use everstep_core::workflow::Style;
use everstep_engine::{DefinitionOutcome, Engine, Error, Hello, SaveOptions, ServedWorkflow, Start};
use everstep_store::Precondition;
use serde_json::{Value, json};

use crate::support::{WORKSPACE, chain, engine_with, finish, open, publish};
use crate::worker::{Worker, hasty, place, returned, start};

#[tokio::test]
async fn a_name_belongs_to_one_style() {
    let (_folder, engine) = place().await;
    publish(&engine, "order", &chain(&[])).await;
    let hello = Hello {
        workspace: WORKSPACE,
        worker: "ann".into(),
        sdk: None,
        workflows: ["fresh", "order"]
            .map(|name| ServedWorkflow {
                name: name.into(),
                version: 1,
                retention_days: None,
                input_schema: None,
                triggers: Vec::new(),
                index: Vec::new(),
            })
            .to_vec(),
        capacity: 1,
        holds: vec![],
    };
    let error = engine.open_session(hello).await.err().unwrap();
    assert_eq!(error.code(), "WORKFLOW_STYLE_CONFLICT");
    let error = engine.library().find(WORKSPACE, "fresh", None).await.err().unwrap();
    assert_eq!(error.code(), "NOT_FOUND", "a rejected worker has registered nothing");
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
    // The registration of code releases the numbers.
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
    // A reader finds nothing now.
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
    let first = Start { version: Some(1), allow_unserved: true, ..Start::new("order", json!({})) };
    let first = engine.start_run(first).await.unwrap().run;
    let (one, two) = (old.turn().await, new.turn().await);
    assert_eq!(((one.run, one.version), (two.run, two.version)), ((first, 1), (latest, 2)));
    // A worker that cannot run a version gives the turn back.
    let mut third = Worker::named(&engine, "third", 1, 10, vec![]).await;
    old.tell(&one, Report::Declined { failure: Failure::fatal("VERSION_MISMATCH", "expected 1, got 3") });
    let again = third.turn().await;
    assert_eq!((again.run, again.turn), (first, 2));
    third.done(&again, returned(json!(1))).await;
    new.done(&two, returned(json!(2))).await;
    assert_eq!(finish(&engine, first).await.status, Status::Completed);
    assert_eq!(finish(&engine, latest).await.status, Status::Completed);
}

fn unserved(name: &str, version: Option<u32>) -> Start {
    Start { version, allow_unserved: true, ..Start::new(name, json!({})) }
}

fn not_found(name: &str, version: Option<u32>) -> Error {
    Error::WorkflowNotFound { name: name.to_owned(), version }
}

#[tokio::test]
async fn a_name_that_no_worker_has_registered_is_unknown_unless_the_caller_allows_it() {
    let (_folder, engine) = place().await;
    for version in [None, Some(1), Some(3)] {
        let start = Start { version, ..Start::new("order", json!({})) };
        assert_eq!(engine.start_run(start).await.err(), Some(not_found("order", version)));
    }
    // A start that allows unserved names creates the name, but for a start that does not, the name is still unknown.
    for version in [None, Some(3)] {
        engine.start_run(unserved("order", version)).await.unwrap();
        let start = Start { version, ..Start::new("order", json!({})) };
        assert_eq!(engine.start_run(start).await.err(), Some(not_found("order", version)));
    }
    let again = engine.start_run(unserved("order", None)).await.unwrap().run;
    // A worker registers one version: then every version can be started.
    let mut worker = Worker::named(&engine, "ann", 1, 10, vec![]).await;
    let mut turns = vec![worker.turn().await.run, worker.turn().await.run];
    for version in [None, Some(1), Some(3), Some(4)] {
        let started = engine.start_run(Start { version, ..Start::new("order", json!({})) }).await.unwrap();
        let row = engine.world().runs.get_run(WORKSPACE, started.run).await.unwrap().unwrap();
        assert_eq!(row.version, version.unwrap_or(1));
    }
    turns.extend([worker.turn().await.run, worker.turn().await.run]);
    assert!(turns.contains(&again));
}

#[tokio::test]
async fn a_registration_is_known_after_a_restart_without_workers() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine_with(open(folder.path()).await, hasty()).await;
    let worker = Worker::named(&engine, "ann", 2, 10, vec![]).await;
    engine.close_session(&worker.session);
    engine.start_run(unserved("parcel", None)).await.unwrap();
    drop(worker);
    engine.stop(Duration::ZERO).await.unwrap();
    drop(engine);
    let engine = engine_with(open(folder.path()).await, hasty()).await;
    let run = engine.start_run(Start::new("order", json!({}))).await.unwrap().run;
    let parcel = engine.start_run(Start::new("parcel", json!({}))).await.err();
    assert_eq!(parcel, Some(not_found("parcel", None)));
    let mut worker = Worker::named(&engine, "ann", 2, 10, vec![]).await;
    assert_eq!(worker.turn().await.run, run);
}

#[tokio::test]
async fn a_graph_replaces_a_name_that_only_a_start_has_created() {
    let (_folder, engine) = place().await;
    let waiting = engine.start_run(unserved("order", None)).await.unwrap().run;
    let options = SaveOptions { activate: true, precondition: Precondition::Nothing };
    let saved = engine.library().save(WORKSPACE, "order", &chain(&[]), None, options).await.unwrap();
    assert_eq!(saved, DefinitionOutcome::Saved { version: 2, is_first: true, secrets: Vec::new() });
    let run = engine.start_run(Start::new("order", json!({}))).await.unwrap().run;
    let row = finish(&engine, run).await;
    assert_eq!((row.status, row.version), (Status::Completed, 2));
    // The run that waits for a worker is unchanged, and can be cancelled.
    assert_eq!(engine.start_run(unserved("order", Some(1))).await.err(), Some(not_found("order", Some(1))));
    engine.send(waiting, Input::Cancel { reason: None }).await.unwrap();
    assert_eq!(finish(&engine, waiting).await.status, Status::Cancelled);
}

#[tokio::test]
async fn a_similar_name_is_found() {
    let (_folder, engine) = place().await;
    publish(&engine, "order", &chain(&[])).await;
    publish(&engine, "payment", &chain(&[])).await;
    for (name, nearest) in [("ordr", Some("order")), ("Payment", Some("payment")), ("x", None)] {
        let found = engine.library().nearest_name(WORKSPACE, name).await.unwrap();
        assert_eq!(found.as_deref(), nearest);
    }
}

/// Opens a session of a worker whose workflow `order` has a schema of its input.
async fn serve(engine: &Engine, schema: Option<Value>) {
    let input_schema = schema.map(|schema| Arc::new(Schema::for_input(&schema).expect("it compiles")));
    let workflows = vec![ServedWorkflow {
        name: "order".into(),
        version: 1,
        retention_days: None,
        input_schema,
        triggers: Vec::new(),
        index: Vec::new(),
    }];
    let hello = Hello { workspace: WORKSPACE, worker: "ann".into(), sdk: None, workflows, capacity: 1, holds: vec![] };
    let session = engine.open_session(hello).await.expect("the worker is accepted");
    assert_eq!(session.workflows[0].input_schema, None, "the library has it");
}

#[tokio::test]
async fn code_brings_the_schema_of_its_input_and_the_last_registration_counts() {
    let (_folder, engine) = place().await;
    let try_start =
        async |input: Value| engine.start_run(Start::new("order", input)).await.map(drop).map_err(|error| error.code());
    serve(&engine, Some(json!({"type": "object", "required": ["id"]}))).await;
    assert_eq!(try_start(json!({})).await, Err("VALIDATION_ERROR"));
    assert_eq!(try_start(json!({"id": 1})).await, Ok(()));
    assert_eq!(try_start(json!({})).await, Err("VALIDATION_ERROR"), "the cached schema");
    serve(&engine, Some(json!({"type": "string"}))).await;
    assert_eq!(try_start(json!({"id": 1})).await, Err("VALIDATION_ERROR"));
    assert_eq!(try_start(json!("a")).await, Ok(()));
    serve(&engine, None).await;
    assert_eq!(try_start(json!(5)).await, Ok(()));
}
