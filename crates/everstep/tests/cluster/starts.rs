//! Starts, forks and test runs, over several nodes.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::cluster::Site;
use crate::support::{chain, wait_for};

#[test]
fn fifty_starts_with_one_key_over_two_nodes_are_one_run() {
    let site = Site::new();
    let ((_one, a), (_two, b)) = site.start_two();
    let wait = json!({"id": "wait", "type": "wait", "config": {"event": "go"}});
    a.publish("once", &chain(&[wait]));
    let body = json!({"definitionId": "once", "idempotencyKey": "k"});
    let answers: Vec<_> = std::thread::scope(|scope| {
        let starts: Vec<_> = (0..50)
            .map(|n| if n % 2 == 0 { &a } else { &b })
            .map(|client| scope.spawn(|| client.post("/v1/workflow-runs", &body)))
            .collect();
        starts.into_iter().map(|start| start.join().unwrap()).collect()
    });
    assert_eq!(answers.iter().filter(|answer| answer.status == 201).count(), 1);
    assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 49);
    assert_eq!(answers.iter().filter(|answer| answer.body["created"] == false).count(), 49);
    let runs: BTreeSet<_> = answers.iter().map(|answer| answer.body["run"]["id"].to_string()).collect();
    assert_eq!(runs.len(), 1);
    let listed = b.get("/v1/runs?workflow=once").is(200);
    assert_eq!(listed["runs"].as_array().unwrap().len(), 1);
}

#[test]
fn a_test_run_is_shown_answered_and_deleted_at_any_node() {
    let site = Site::new();
    let ((_one, a), (_two, b)) = site.start_two();
    let wait = json!({"id": "wait", "type": "wait", "config": {"event": "go"}});
    let work = json!({"id": "work", "type": "noop"});
    let body = json!({"definition": chain(&[wait, work]), "input": {"n": 1}});
    let started = a.post("/v1/test-runs", &body).is(201);
    let run = format!("/v1/runs/{}", started["run"]["id"].as_str().unwrap());
    wait_for("the run to wait", || (b.get(&run).is(200)["status"] == "waiting").then_some(()));
    assert_eq!(b.get(&run).is(200)["waitingFor"], "waits for the signal \"go\" at step wait");
    b.post(&format!("{run}/signals/go"), &json!({})).is(200);
    assert_eq!(a.wait(&run)["status"], "completed");
    assert_eq!(a.get("/v1/runs").is(200)["runs"], json!([]));
    let id = run.strip_prefix("/v1/runs/").unwrap();
    assert_eq!(b.try_ask("DELETE", &format!("/v1/test-runs/{id}"), &[], &Value::Null).unwrap().status, 204);
    a.get(&run).refuses(404, "NOT_FOUND");
}
