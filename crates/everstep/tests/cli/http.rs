//! The real server over HTTP: a workflow is saved, run, signalled and cancelled, and everything outlives the process.

use serde_json::{Value, json};

use crate::support::{Folder, Server, chain};

fn waits() -> Value {
    chain(&[json!({"id": "wait", "type": "wait", "config": {"event": "go"}, "outputVariable": "answer"})])
}

#[test]
fn a_workflow_is_saved_run_signalled_and_shown() {
    let folder = Folder::new();
    let server = Server::start(&folder.at("data"));
    let client = server.client();
    client.publish("order", &waits());
    let run = client.start("order", &json!({"input": {"n": 1}}));
    client.wait_for(&run, "waiting");
    assert_eq!(client.post(&format!("{run}/signals/stop"), &json!({})).is(200)["outcome"], "ignored");
    let key = [("idempotency-key", "once")];
    assert_eq!(
        client.post_with(&format!("{run}/signals/go"), &key, &json!({"ok": true})).is(200)["outcome"],
        "accepted"
    );
    assert_eq!(client.wait(&run)["status"], "completed");
    let journal = client.journal(&run);
    assert_eq!(journal.last().unwrap()["event"], "RunCompleted");
    assert!(journal.iter().any(|entry| entry["idempotencyKey"] == "once"));
    assert!(journal.iter().all(|entry| entry["writer"] == server.node()));
    let listed = client.get("/v1/runs?workflow=order&status=completed").is(200);
    assert_eq!(listed["runs"].as_array().unwrap().len(), 1);
}

#[test]
fn what_was_answered_outlives_a_kill() {
    let folder = Folder::new();
    let data = folder.at("data");
    let server = Server::start(&data);
    let client = server.client();
    client.publish("order", &waits());
    let first = client.start("order", &json!({"idempotencyKey": "k"}));
    let second = client.start("order", &json!({}));
    client.wait_for(&first, "waiting");
    let key = [("idempotency-key", "s")];
    client.post_with(&format!("{second}/signals/go"), &key, &json!({})).is(200);
    server.kill();

    let server = Server::start(&data);
    let client = server.client();
    assert_eq!(client.wait(&second)["status"], "completed");
    let again = client.post("/v1/workflows/order/runs", &json!({"idempotencyKey": "k"})).is(200);
    assert_eq!(
        (&again["created"], format!("/v1/runs/{}", again["run"]["id"].as_str().unwrap())),
        (&json!(false), first.clone())
    );
    let version = client.get(&first).header("etag").unwrap().to_owned();
    let cancel = format!("{first}/cancel");
    client.post_with(&cancel, &[("if-match", "\"1\"")], &Value::Null).refuses(409, "CONCURRENCY_ERROR");
    client.post_with(&cancel, &[("if-match", &version)], &json!({"reason": "enough"})).is(200);
    assert_eq!(client.get(&first).is(200)["status"], "cancelled");
    client.post(&format!("{first}/resume"), &Value::Null).refuses(409, "INVALID_TRANSITION");
}

#[test]
fn an_invalid_request_is_rejected_with_the_reason() {
    let folder = Folder::new();
    let server = Server::start(&folder.at("data"));
    let client = server.client();
    let problem = client.put("/v1/workflows/bad", &json!({"nodes": [], "edges": []})).refuses(422, "VALIDATION_ERROR");
    assert!(problem["problems"][0]["message"].is_string(), "{problem}");
    client.post("/v1/workflow-runs", &json!({"definitionId": "missing"})).refuses(404, "WORKFLOW_NOT_FOUND");
    client.get("/v1/runs?page=2").refuses(400, "VALIDATION_ERROR");
    client.get("/v1/nothing").refuses(404, "NOT_FOUND");
    server.stranger().get("/v1/runs").refuses(401, "AUTH_ERROR");
}
