//! Runs that begin later.

use everstep_core::time::Timestamp;
use serde_json::{Value, json};

use super::save_echo;
use crate::support::{Server, chain, wait_for_go};

/// Starts a run that begins in an hour.
async fn start_later(server: &Server, name: &str) -> (String, Value) {
    let body = json!({"delaySeconds": 3_600, "input": {"n": 1}});
    let started = server.post(&format!("/v1/workflows/{name}/runs"), &body).await.is(201);
    (format!("/v1/runs/{}", started["run"]["id"].as_str().unwrap()), started["run"].clone())
}

#[tokio::test]
async fn a_run_begins_at_its_time() {
    let server = Server::start().await;
    save_echo(&server, "echo").await;
    let now = server.engine.world().clock.now();
    let soon = Timestamp::from_millis(now.millis() + 300);
    let body = json!({"startAt": soon.to_string(), "input": {"n": 1}});
    let started = server.post("/v1/workflows/echo/runs", &body).await.is(201);
    let path = format!("/v1/runs/{}", started["run"]["id"].as_str().unwrap());
    let run = server.get(&format!("{path}?waitSeconds=30")).await.is(200);
    assert_eq!((&run["status"], &run["output"]["input"]), (&json!("completed"), &json!({"n": 1})));
    assert_eq!(run.get("startAt"), None, "it has begun");
    let journal = server.get(&format!("{path}/journal")).await.is(200);
    let first = &journal["entries"][0];
    assert_eq!((&first["seq"], &first["event"]), (&json!(1), &json!("RunStarted")));
    let began: Timestamp = first["at"].as_str().unwrap().parse().unwrap();
    assert!(began >= soon, "it began at {began} and not before {soon}");
    // A time in the past is now.
    let body = json!({"startAt": "2020-01-01T00:00:00Z"});
    let started = server.post("/v1/workflows/echo/runs?waitSeconds=30", &body).await.is(201);
    assert_eq!(started["run"]["status"], "completed");
}

#[tokio::test]
async fn a_run_that_has_not_begun_is_pending() {
    let server = Server::start().await;
    server.publish("waits", &chain(&[wait_for_go()])).await;
    let (path, started) = start_later(&server, "waits").await;
    let shown = server.get(&path).await.is(200);
    for run in [&started, &shown] {
        assert_eq!(
            (&run["status"], &run["version"], &run["owner"]),
            (&json!("pending"), &json!(0), &Value::Null),
            "{run}"
        );
        assert!(run["waitingFor"].as_str().unwrap().starts_with("begins at 20"), "{run}");
        assert!(run["wakeAt"].is_string(), "{run}");
        assert_eq!(run["startAt"], run["wakeAt"], "{run}");
    }
    let listed = server.get("/v1/runs?status=pending").await.is(200);
    assert_eq!(listed["runs"].as_array().unwrap().len(), 1);
    assert_eq!(server.get(&format!("{path}/journal")).await.is(200)["entries"], json!([]));
    assert_eq!(server.get(&format!("{path}/steps")).await.is(200)["steps"], json!([]));
    server.post(&format!("{path}/signals/go"), &json!({})).await.refuses(409, "RUN_PENDING");
    server.post(&format!("{path}/retry"), &Value::Null).await.refuses(409, "INVALID_TRANSITION");
    server.post(&format!("{path}/fork"), &json!({})).await.refuses(409, "RUN_PENDING");
    server.delete("/v1/workflows/waits").await.refuses(409, "WORKFLOW_IN_USE");

    assert_eq!(server.post(&format!("{path}/pause"), &Value::Null).await.is(200)["outcome"], "accepted");
    let paused = server.get(&path).await.is(200);
    assert_eq!((&paused["status"], &paused["wakeAt"]), (&json!("paused"), &Value::Null));
    assert_eq!(paused["startAt"], shown["startAt"]);
    let sentence = paused["waitingFor"].as_str().unwrap();
    assert!(sentence.starts_with("is paused before its beginning; it was to begin at 20"), "{sentence}");
    assert_eq!(server.post(&format!("{path}/resume"), &Value::Null).await.is(200)["outcome"], "accepted");
    let resumed = server.get(&path).await.is(200);
    assert_eq!((&resumed["status"], &resumed["wakeAt"]), (&json!("pending"), &shown["wakeAt"]));

    assert_eq!(server.post(&format!("{path}/cancel"), &json!({"reason": "no"})).await.is(200)["outcome"], "accepted");
    let journal = server.get(&format!("{path}/journal")).await.is(200);
    let events: Vec<_> = journal["entries"].as_array().unwrap().iter().map(|entry| entry["event"].clone()).collect();
    assert_eq!(events, ["RunStarted", "RunCancelled"]);
    assert_eq!(server.get(&path).await.is(200)["status"], "cancelled");
}

#[tokio::test]
async fn a_delay_is_checked() {
    let server = Server::start().await;
    save_echo(&server, "echo").await;
    for (body, field) in [
        (json!({"startAt": "tomorrow"}), "startAt"),
        (json!({"startAt": "2999-01-01T00:00:00Z"}), "startAt"),
        (json!({"startAt": "2026-12-01T00:00:00Z", "delaySeconds": 1}), "startAt"),
        (json!({"delaySeconds": 31_536_001}), "delaySeconds"),
    ] {
        let problem = server.post("/v1/workflows/echo/runs", &body).await.refuses(400, "VALIDATION_ERROR");
        assert_eq!(problem["path"], field, "{problem}");
    }
    for body in [json!({"delaySeconds": -1}), json!({"delaySeconds": 1.5}), json!({"delaySeconds": "1"})] {
        server.post("/v1/workflows/echo/runs", &body).await.refuses(400, "VALIDATION_ERROR");
    }
    let batch = json!({"runs": [{"delaySeconds": 60}, {"startAt": "x"}, {}]});
    let answer = server.post("/v1/workflows/echo/runs/batch", &batch).await.is(207);
    assert_eq!(answer["runs"][1]["error"]["code"], "VALIDATION_ERROR");
    let later = server.get(&format!("/v1/runs/{}", answer["runs"][0]["id"].as_str().unwrap())).await.is(200);
    assert_eq!(later["status"], "pending");
    // A start with the same key finds the run that has not begun.
    let keyed = json!({"delaySeconds": 60, "idempotencyKey": "k"});
    let first = server.post("/v1/workflows/echo/runs", &keyed).await.is(201);
    let again = server.post("/v1/workflows/echo/runs", &keyed).await.is(200);
    assert_eq!((&again["created"], &again["run"]["id"]), (&json!(false), &first["run"]["id"]));
}
