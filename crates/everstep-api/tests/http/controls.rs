//! Inputs of a run from clients, and the replies.

use std::time::Duration;

use axum::http::Method;
use serde_json::{Value, json};

use crate::support::{Answer, Server, wait_for_go};

#[tokio::test]
async fn a_signal_is_accepted_once_per_key() {
    let server = Server::start().await;
    let second = json!({"id": "again", "type": "wait", "config": {"event": "go"}});
    let run = server.start_chain("twice", &[wait_for_go(), second]).await;
    let key = [("idempotency-key", "first")];
    let signal = format!("{run}/signals/go");
    assert_eq!(server.post_with(&signal, &key, &json!({"n": 1})).await.is(200), json!({"outcome": "accepted"}));
    assert_eq!(server.post_with(&signal, &key, &json!({"n": 1})).await.is(200), json!({"outcome": "repeated"}));
    assert_eq!(server.wait_for(&run, "waiting").await["version"], 6);
    server.post_with(&signal, &[("idempotency-key", "second")], &Value::Null).await.is(200);
    server.wait_for(&run, "completed").await;
    let journal = server.get(&format!("{run}/journal")).await.is(200);
    let signalled = &journal["entries"][4];
    assert_eq!((&signalled["data"]["output"], &signalled["idempotencyKey"]), (&json!({"n": 1}), &json!("first")));
    server.post(&signal, &Value::Null).await.refuses(409, "RUN_ENDED");
}

#[tokio::test]
async fn a_signal_without_a_wait_is_reported_as_ignored() {
    let server = Server::start().await;
    let run = server.start_chain("other", &[wait_for_go()]).await;
    let answer = server.post(&format!("{run}/signals/stop"), &json!({})).await.is(200);
    assert_eq!((&answer["outcome"], answer["reason"].is_string()), (&json!("ignored"), true));
    let large = json!("x".repeat(1024 * 1024));
    let problem = server.post(&format!("{run}/signals/go"), &large).await.refuses(413, "PAYLOAD_TOO_LARGE");
    assert!(problem["hint"].as_str().unwrap().contains("send a reference"), "{problem}");
    let long = format!("{run}/signals/{}", "e".repeat(257));
    server.post(&long, &json!({})).await.refuses(400, "VALIDATION_ERROR");
    server.post(&format!("{run}/signals/go?x=1"), &json!({})).await.refuses(400, "VALIDATION_ERROR");
    let missing = "/v1/runs/019a0000-0000-7000-8000-000000000000/signals/go";
    server.post(missing, &json!({})).await.refuses(404, "NOT_FOUND");
}

#[tokio::test]
async fn an_ignored_signal_is_answered_with_the_match_or_the_names_that_are_awaited() {
    let server = Server::start().await;
    let ask = json!({"id": "ask", "type": "wait", "config": {"event": "paid", "match": {"order": 7}}});
    let run = server.start_chain("asks", &[ask]).await;
    let waiting = server.wait_for(&run, "waiting").await;
    assert_eq!(waiting["waitingFor"], r#"waits for the signal "paid" with {"order":7} at step ask"#);
    assert_eq!(waiting["open"][0]["match"], json!({"order": 7}));
    let other = server.post(&format!("{run}/signals/paid"), &json!({"order": 8})).await.is(200);
    let reason = r#"a wait for this signal exists, but its match differs: step "ask" expects {"order":7}"#;
    assert_eq!(other, json!({"outcome": "ignored", "reason": reason}));
    let unknown = server.post(&format!("{run}/signals/payed"), &json!({"order": 7})).await.is(200);
    let reason = r#"no wait for this signal is open; the run waits for "paid""#;
    assert_eq!(unknown, json!({"outcome": "ignored", "reason": reason}));
    assert_eq!(server.post(&format!("{run}/signals/paid"), &json!({"order": 7})).await.is(200)["outcome"], "accepted");
}

/// Fails after half of the time that the server may wait.
async fn answered_early(answer: impl Future<Output = Answer>) -> Answer {
    tokio::time::timeout(Duration::from_secs(15), answer).await.expect("the server answers when the run is paused")
}

#[tokio::test]
async fn a_wait_for_a_run_ends_when_the_run_is_paused() {
    let server = Server::start().await;
    let run = server.start_chain("paused", &[wait_for_go()]).await;
    server.wait_for(&run, "waiting").await;
    let (path, pause) = (format!("{run}?waitSeconds=30"), format!("{run}/pause"));
    // Whichever of the two requests is received first, the wait ends.
    let (shown, paused) = tokio::join!(answered_early(server.get(&path)), server.post(&pause, &Value::Null));
    assert_eq!((paused.status, shown.is(200)["status"].take()), (200, json!("paused")));
    let shown = answered_early(server.get(&path)).await.is(200);
    assert!(shown["waitingFor"].as_str().unwrap().starts_with("is paused since "), "{shown}");
    // A start that finds the run by its key is answered too.
    let keyed = json!({"idempotencyKey": "k"});
    let start = "/v1/workflows/paused/runs";
    let id = server.post(start, &keyed).await.is(201)["run"]["id"].as_str().unwrap().to_owned();
    server.post(&format!("/v1/runs/{id}/pause"), &Value::Null).await.is(200);
    let found = answered_early(server.post("/v1/workflows/paused/runs?waitSeconds=30", &keyed)).await.is(200);
    assert_eq!(found["run"]["status"], "paused");
    server.post(&format!("{run}/resume"), &Value::Null).await.is(200);
    server.post(&format!("{run}/signals/go"), &Value::Null).await.is(200);
    assert_eq!(server.get(&path).await.is(200)["status"], "completed");
}

#[tokio::test]
async fn a_run_is_paused_resumed_and_cancelled() {
    let server = Server::start().await;
    let run = server.start_chain("steered", &[wait_for_go()]).await;
    server.post(&format!("{run}/resume"), &Value::Null).await.refuses(409, "INVALID_TRANSITION");
    assert_eq!(server.post(&format!("{run}/pause"), &Value::Null).await.is(200)["outcome"], "accepted");
    assert_eq!(server.get(&run).await.is(200)["status"], "paused");
    assert_eq!(server.post(&format!("{run}/pause"), &json!({})).await.is(200)["outcome"], "ignored");
    server.post(&format!("{run}/resume"), &Value::Null).await.is(200);
    server.wait_for(&run, "waiting").await;
    server.post(&format!("{run}/retry"), &Value::Null).await.refuses(409, "INVALID_TRANSITION");
    let key = [("idempotency-key", "c")];
    let body = json!({"reason": "no longer wanted"});
    assert_eq!(server.post_with(&format!("{run}/cancel"), &key, &body).await.is(200)["outcome"], "accepted");
    assert_eq!(server.post_with(&format!("{run}/cancel"), &key, &body).await.is(200)["outcome"], "repeated");
    let shown = server.get(&run).await.is(200);
    assert_eq!(shown["status"], "cancelled");
    let journal = server.get(&format!("{run}/journal")).await.is(200);
    assert_eq!(journal["entries"].as_array().unwrap().last().unwrap()["data"], body);
    server.post(&format!("{run}/cancel"), &json!({"why": "x"})).await.refuses(400, "VALIDATION_ERROR");
}

#[tokio::test]
async fn a_failed_run_is_retried() {
    let server = Server::start().await;
    let shaky = json!({"id": "a", "type": "noop", "config": {"failTimes": 1}, "retry": {"maxAttempts": 1}});
    let run = server.start_chain("shaky", &[shaky]).await;
    let failed = server.get(&format!("{run}?waitSeconds=30")).await.is(200);
    assert_eq!(failed["status"], "failed");
    assert!(failed["error"]["code"].is_string() && failed["error"]["message"].is_string(), "{failed}");
    server.post(&format!("{run}/retry"), &Value::Null).await.is(200);
    server.wait_for(&run, "completed").await;
}

#[tokio::test]
async fn a_control_for_another_version_changes_nothing() {
    let server = Server::start().await;
    let run = server.start_chain("guarded", &[wait_for_go()]).await;
    let version = server.wait_for(&run, "waiting").await["version"].as_u64().unwrap();
    let old = (version - 1).to_string();
    let cancel = format!("{run}/cancel");
    for header in [old.clone(), format!("\"{old}\"")] {
        let answer = server.post_with(&cancel, &[("if-match", &header)], &Value::Null).await;
        let problem = answer.refuses(409, "CONCURRENCY_ERROR");
        assert_eq!(problem["detail"], "Concurrent modification detected");
        assert_eq!(problem["version"], version, "{problem}");
        assert!(problem["hint"].as_str().unwrap().contains("GET /v1/runs/{id}"), "{problem}");
    }
    let body = json!({"expectedVersion": version - 1});
    for control in ["cancel", "pause", "resume", "retry"] {
        let problem = server.post(&format!("{run}/{control}"), &body).await.refuses(409, "CONCURRENCY_ERROR");
        assert_eq!(problem["version"], version, "{control}: {problem}");
    }
    let signalled = server.post_with(&format!("{run}/signals/go"), &[("if-match", &old)], &Value::Null).await;
    assert_eq!(signalled.refuses(409, "CONCURRENCY_ERROR")["version"], version);
    for wrong in ["*", "W/\"4\"", "\"4\", \"5\"", "four"] {
        server.post_with(&cancel, &[("if-match", wrong)], &Value::Null).await.refuses(400, "VALIDATION_ERROR");
    }
    let both = [("if-match", "9")];
    server.post_with(&cancel, &both, &json!({"expectedVersion": version})).await.refuses(400, "VALIDATION_ERROR");
    assert_eq!(server.get(&run).await.is(200)["version"], version);
    let new = version.to_string();
    server.post_with(&cancel, &[("if-match", &new)], &json!({"expectedVersion": version})).await.is(200);
    assert_eq!(server.get(&run).await.is(200)["status"], "cancelled");
    server.ask(Method::GET, &cancel, &[], "").await.refuses(401, "AUTH_ERROR");
}
