//! Runs that start runs.

use std::time::Duration;

use everstep_core::ids::RunId;
use everstep_core::journal::Kind;
use everstep_core::payload::Payload;
use everstep_core::run::{Input, Reply};
use everstep_core::status::Status;
use everstep_engine::Engine;
use everstep_store::RunFilter;
use serde_json::{Value, json};

use crate::support::{WORKSPACE, chain, engine, finish, publish, start};

fn calls(workflow: &str, config: &Value) -> Value {
    let mut config = config.clone();
    config["workflow"] = workflow.into();
    json!({
        "nodes": [
            {"id": "start", "type": "start"},
            {"id": "call", "type": "workflow", "config": config},
            {"id": "end", "type": "end", "config": {"outputParameters": [
                {"name": "result", "sourceVariable": "{{ctx.workflowResult}}"}
            ]}},
        ],
        "edges": [{"source": "start", "target": "call"}, {"source": "call", "target": "end"}],
    })
}

fn doubles() -> Value {
    json!({
        "nodes": [
            {"id": "start", "type": "start"},
            {"id": "double", "type": "javascript", "config": {"code": "return ctx.input.n * 2"}},
            {"id": "end", "type": "end", "config": {"outputParameters": [
                {"name": "n", "sourceVariable": "{{ctx.jsResult}}"}
            ]}},
        ],
        "edges": [{"source": "start", "target": "double"}, {"source": "double", "target": "end"}],
    })
}

fn waits() -> Value {
    chain(&[("wait", "wait", json!({"config": {"event": "go"}}))])
}

/// The only run of a workflow, when it exists.
async fn only_run(engine: &Engine, workflow: &str) -> RunId {
    let find = async {
        loop {
            let filter = RunFilter { workflow: Some(workflow.to_owned()), ..RunFilter::default() };
            let page = engine.world().runs.list_runs(WORKSPACE, filter, None, 10).await.unwrap();
            if let [run] = page.runs.as_slice() {
                return run.id;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), find).await.expect("the child is started")
}

async fn reach(engine: &Engine, run: RunId, status: Status) {
    let reached = async {
        while engine.world().runs.get_run(WORKSPACE, run).await.unwrap().unwrap().status != status {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), reached).await.expect("the run reaches the status");
}

async fn signal(engine: &Engine, run: RunId) {
    let input = Input::Signal { event: "go".to_owned(), payload: Payload::from(json!({"gone": true})) };
    assert_eq!(engine.send(run, input).await.unwrap(), Reply::Accepted);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_s_output_is_its_step_s() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    publish(&engine, "double", &doubles()).await;
    publish(&engine, "caller", &calls("double", &json!({"input": {"n": "{{ctx.input.n}}"}}))).await;
    let row = finish(&engine, start(&engine, "caller", json!({"n": 4})).await).await;
    assert_eq!((row.status, row.error), (Status::Completed, None));
    assert_eq!(row.output.unwrap().value(), &json!({"result": {"n": 8}}));
    let child = only_run(&engine, "double").await;
    assert_eq!(engine.world().runs.get_run(WORKSPACE, child).await.unwrap().unwrap().parent, Some(row.id));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_of_an_unpublished_workflow_fails_its_step() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    publish(&engine, "billing", &doubles()).await;
    let mut caller = calls("biling", &json!({}));
    caller["nodes"][1]["retry"] = json!({"maxAttempts": 1});
    publish(&engine, "caller", &caller).await;
    let row = finish(&engine, start(&engine, "caller", json!({})).await).await;
    let error = row.error.unwrap();
    assert_eq!((row.status, error.code.as_str()), (Status::Failed, "WORKFLOW_NOT_FOUND"));
    assert_eq!(error.message, r#"workflow "biling" was not found; did you mean "billing"?"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_retry_policy_of_a_step_applies_to_a_workflow_that_is_not_found() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let mut caller = calls("double", &json!({"input": {"n": 2}}));
    caller["nodes"][1]["retry"] = json!({"maxAttempts": 3, "backoff": "fixed", "baseMs": 100});
    publish(&engine, "caller", &caller).await;
    let run = start(&engine, "caller", json!({})).await;
    let failed = async {
        loop {
            let entries = engine.world().runs.journal(run, 0, 100).await.unwrap();
            if entries.iter().any(|entry| entry.row.kind == Kind::StepFailed) {
                break;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), failed).await.expect("the first attempt fails");
    publish(&engine, "double", &doubles()).await;
    let row = finish(&engine, run).await;
    assert_eq!((row.status, row.error), (Status::Completed, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parent_parks_while_its_child_waits_and_goes_on_when_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    publish(&engine, "waits", &waits()).await;
    publish(&engine, "caller", &calls("waits", &json!({}))).await;
    let parent = start(&engine, "caller", json!({})).await;
    let child = only_run(&engine, "waits").await;
    reach(&engine, parent, Status::Waiting).await;
    reach(&engine, child, Status::Waiting).await;
    let parked = async {
        while engine.active_runs() > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), parked).await.expect("both runs leave memory");
    signal(&engine, child).await;
    assert_eq!(finish(&engine, parent).await.status, Status::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_parent_cancels_its_child() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    publish(&engine, "waits", &waits()).await;
    publish(&engine, "caller", &calls("waits", &json!({}))).await;
    let parent = start(&engine, "caller", json!({})).await;
    let child = only_run(&engine, "waits").await;
    assert_eq!(engine.send(parent, Input::Cancel { reason: None }).await.unwrap(), Reply::Accepted);
    assert_eq!(finish(&engine, child).await.status, Status::Cancelled);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_without_a_waiting_step_outlives_its_parent() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    publish(&engine, "waits", &waits()).await;
    publish(&engine, "caller", &calls("waits", &json!({"wait": false}))).await;
    let row = finish(&engine, start(&engine, "caller", json!({})).await).await;
    let child = only_run(&engine, "waits").await;
    assert_eq!(row.output.unwrap().value(), &json!({"result": {"runId": child.to_string()}}));
    signal(&engine, child).await;
    assert_eq!(finish(&engine, child).await.status, Status::Completed);
}

/// The memory of the process is lost; the journal contains the child.
#[test]
fn a_crash_finds_the_same_child_again() {
    let folder = tempfile::tempdir().unwrap();
    let (parent, child) = on_a_machine_that_crashes(async {
        let engine = engine(folder.path()).await;
        publish(&engine, "waits", &waits()).await;
        publish(&engine, "caller", &calls("waits", &json!({}))).await;
        let parent = start(&engine, "caller", json!({})).await;
        (parent, only_run(&engine, "waits").await)
    });
    on_a_machine_that_crashes(async {
        let engine = engine(folder.path()).await;
        signal(&engine, child).await;
        assert_eq!(finish(&engine, parent).await.status, Status::Completed);
        assert_eq!(only_run(&engine, "waits").await, child);
        let journal = engine.world().runs.journal(parent, 0, 100).await.unwrap();
        let calls = |kind| {
            let is_call = |step: Option<&everstep_core::ids::StepKey>| step.is_some_and(|step| step.as_str() == "call");
            journal.iter().filter(|entry| entry.row.kind == kind && is_call(entry.row.step.as_ref())).count()
        };
        assert_eq!((calls(Kind::StepDispatched), calls(Kind::StepCompleted)), (1, 1));
    });
}

fn on_a_machine_that_crashes<T>(work: impl Future<Output = T>) -> T {
    // All loops end at once; nothing is handed over.
    tokio::runtime::Runtime::new().unwrap().block_on(work)
}

#[tokio::test]
async fn a_child_whose_input_does_not_fit_fails_its_step_and_is_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let mut child = doubles();
    child["inputSchema"] = json!({"properties": {"n": {"type": "number"}}, "required": ["n"]});
    publish(&engine, "double", &child).await;
    let mut parent = calls("double", &json!({"input": {"n": "{{ctx.input.n}}"}}));
    parent["nodes"][1]["retry"] = json!({"maxAttempts": 2, "baseMs": 100});
    publish(&engine, "parent", &parent).await;
    let good = start(&engine, "parent", json!({"n": 4})).await;
    assert_eq!(finish(&engine, good).await.output.unwrap().value()["result"], json!({"n": 8}));
    let bad = start(&engine, "parent", json!({"n": "four"})).await;
    let row = finish(&engine, bad).await;
    let failure = row.error.unwrap();
    assert_eq!((row.status, failure.code.as_str()), (Status::Failed, "VALIDATION_ERROR"));
    assert!(failure.message.contains("/n: expected a number, found a string"), "{}", failure.message);
    // Its retry policy applies, and no child was written.
    let journal = engine.world().runs.journal(bad, 0, 100).await.unwrap();
    assert_eq!(journal.iter().filter(|entry| entry.row.kind == Kind::StepFailed).count(), 2);
    let filter = RunFilter { parent: Some(bad), ..RunFilter::default() };
    assert_eq!(engine.world().runs.list_runs(WORKSPACE, filter, None, 10).await.unwrap().runs.len(), 0);
}
