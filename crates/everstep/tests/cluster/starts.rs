//! Test runs, over several nodes.

use serde_json::{Value, json};

use crate::support::cluster::Site;
use crate::support::{chain, wait_for};

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
