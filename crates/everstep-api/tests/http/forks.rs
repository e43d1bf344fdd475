//! Runs that continue from others, and test runs.

use axum::http::Method;
use everstep_api::auth::Permission;
use serde_json::{Value, json};

use crate::support::{Server, chain, wait_for_go};

async fn delete(server: &Server, path: &str) -> crate::support::Answer {
    let key = server.key_with(&[Permission::Publish]).await;
    server.ask(Method::DELETE, path, &[("x-api-key", &key)], "").await
}

#[tokio::test]
async fn a_fork_goes_on_from_where_its_original_was() {
    let server = Server::start().await;
    let work = json!({"id": "work", "type": "noop", "config": {"output": {"n": 1}}});
    let run = server.start_chain("forks", &[work, wait_for_go()]).await;
    let waiting = server.wait_for(&run, "waiting").await;
    let at = waiting["version"].as_u64().unwrap();
    server.post(&format!("{run}/signals/go"), &json!({"by": "one"})).await.is(200);
    let ended = server.get(&format!("{run}?waitSeconds=30")).await.is(200);
    assert_eq!(ended["status"], "completed");

    let answer = server.post(&format!("{run}/fork"), &json!({"at": at - 1})).await;
    let place = answer.headers["location"].to_str().unwrap().to_owned();
    let forked = answer.is(201);
    assert_eq!((&forked["forkedAt"], &forked["created"]), (&json!(at), &json!(true)), "an item is taken whole");
    assert_eq!(forked["notUndone"], json!({"children": [], "steps": [], "writes": []}));
    assert_eq!((&forked["run"]["origin"], &forked["run"]["input"]), (&ended["id"], &ended["input"]));
    server.wait_for(&place, "waiting").await;
    server.post(&format!("{place}/signals/go"), &json!({"by": "two"})).await.is(200);
    assert_eq!(server.get(&format!("{place}?waitSeconds=30")).await.is(200)["status"], "completed");
    let listed = server.get("/v1/runs?workflow=forks").await.is(200);
    assert_eq!(listed["runs"][0]["origin"], ended["id"]);
    assert_eq!(listed["runs"].as_array().unwrap().len(), 2);

    // Earlier steps are performed again.
    let early = server.post(&format!("{run}/fork"), &json!({"at": 1})).await.is(201);
    assert_eq!(early["notUndone"]["steps"], json!(["work"]));
    let place = format!("/v1/runs/{}", early["run"]["id"].as_str().unwrap());
    server.wait_for(&place, "waiting").await;
    let steps = server.get(&format!("{place}/steps")).await.is(200);
    let work = steps["steps"].as_array().unwrap().iter().find(|step| step["key"] == "work").unwrap();
    assert_eq!(work["attempts"].as_array().unwrap().len(), 2, "{work}");
}

#[tokio::test]
async fn a_fork_lists_the_writes_that_it_does_not_undo() {
    let server = Server::start().await;
    let key = json!({"namespace": "books", "key": "count"});
    let count = json!({"id": "count", "type": "store.increment", "config": key});
    let read = json!({"id": "read", "type": "store.get", "config": key});
    let side = |id: &str| json!({"type": "book", "id": id});
    let link = json!({"namespace": "books", "from": side("1"), "to": side("2")});
    let link = json!({"id": "link", "type": "links.upsert", "config": link});
    let run = server.start_chain("writes", &[count, read, link, wait_for_go()]).await;
    server.wait_for(&run, "waiting").await;
    let record = server.get("/v1/store/books/count").await.is(200);
    assert_eq!((&record["value"], &record["writtenBy"]["step"]), (&json!(1), &json!("count")));
    assert_eq!(format!("/v1/runs/{}", record["writtenBy"]["run"].as_str().unwrap()), run);

    let answer = server.post(&format!("{run}/fork"), &json!({"at": 1})).await;
    let place = answer.headers["location"].to_str().unwrap().to_owned();
    let forked = answer.is(201);
    assert_eq!(forked["notUndone"]["steps"], json!(["count", "link", "read"]));
    assert_eq!(forked["notUndone"]["writes"], json!(["count", "link"]));
    server.wait_for(&place, "waiting").await;
    let record = server.get("/v1/store/books/count").await.is(200);
    assert_eq!((&record["value"], &record["writtenBy"]["run"]), (&json!(2), &forked["run"]["id"]));
    let id = forked["run"]["id"].as_str().unwrap();
    let changes = server.get(&format!("/v1/namespaces/books/changes?run={id}")).await.is(200);
    let steps: Vec<_> = changes["changes"].as_array().unwrap().iter().map(|change| change["step"].clone()).collect();
    assert_eq!(steps, ["count", "link"]);
    // A fork after the writes performs none of them.
    let late = server.post(&format!("{run}/fork"), &Value::Null).await.is(201);
    assert_eq!(late["notUndone"]["writes"], json!([]));
}

#[tokio::test]
async fn a_run_that_was_over_is_not_forked_there() {
    let server = Server::start().await;
    let run = server.start_chain("forks", &[wait_for_go()]).await;
    let at = server.wait_for(&run, "waiting").await["version"].as_u64().unwrap();
    server.post(&format!("{run}/cancel"), &Value::Null).await.is(200);
    let refused = server.post(&format!("{run}/fork"), &json!({"at": at + 1})).await.refuses(409, "RUN_ENDED");
    assert_eq!(refused["hint"], format!("the last entry at which it can be forked is {at}"));
    let missing = server.post(&format!("{run}/fork"), &json!({"at": 99})).await.refuses(400, "VALIDATION_ERROR");
    assert_eq!(missing["hint"], format!("its last entry is {}", at + 1));
    server.post(&format!("{run}/fork"), &json!({"input": {}})).await.refuses(400, "VALIDATION_ERROR");
    // Without `at` it is the last possible entry.
    let forked = server.post(&format!("{run}/fork"), &Value::Null).await.is(201);
    assert_eq!(forked["forkedAt"], at);
    let short = server.start_chain("short", &[]).await;
    server.get(&format!("{short}?waitSeconds=30")).await.is(200);
    server.post(&format!("{short}/fork"), &Value::Null).await.refuses(409, "RUN_ENDED");
    server.post("/v1/runs/019a0000-0000-7000-8000-000000000000/fork", &Value::Null).await.refuses(404, "NOT_FOUND");
}

#[tokio::test]
async fn a_key_makes_one_fork() {
    let server = Server::start().await;
    let run = server.start_chain("forks", &[wait_for_go()]).await;
    server.wait_for(&run, "waiting").await;
    let path = format!("{run}/fork");
    let header = [("idempotency-key", "f1")];
    let forks = (0..10).map(|_| server.post_with(&path, &header, &Value::Null));
    let answers = futures_util::future::join_all(forks).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 201).count(), 1);
    assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 9);
    assert!(answers.iter().all(|answer| answer.body["run"]["id"] == answers[0].body["run"]["id"]));
    let other = server.post_with(&path, &[("idempotency-key", "f2")], &Value::Null).await.is(201);
    assert_ne!(other["run"]["id"], answers[0].body["run"]["id"]);
}

#[tokio::test]
async fn a_test_run_leaves_nothing_behind() {
    let server = Server::start().await;
    let mut graph = chain(&[wait_for_go()]);
    graph["nodes"][2]["config"] = json!({"outputParameters": [{"name": "n", "sourceVariable": "{{ctx.input.n}}"}]});
    let answer = server.post("/v1/test-runs", &json!({"definition": graph, "input": {"n": 3}})).await;
    let run = answer.headers["location"].to_str().unwrap().to_owned();
    let started = answer.is(201);
    assert_eq!((&started["run"]["isTest"], &started["created"]), (&json!(true), &json!(true)));
    server.wait_for(&run, "waiting").await;
    assert_eq!(server.get("/v1/runs").await.is(200)["runs"], json!([]), "it is not listed");
    server.post(&format!("{run}/signals/go"), &json!({})).await.is(200);
    let ended = server.get(&format!("{run}?waitSeconds=30")).await.is(200);
    assert_eq!((&ended["status"], &ended["output"]), (&json!("completed"), &json!({"n": 3})));
    let steps = server.get(&format!("{run}/steps")).await.is(200);
    assert_eq!(steps["steps"][1]["type"], "wait", "its workflow is in its journal");
    let id = run.strip_prefix("/v1/runs/").unwrap();
    assert_eq!(delete(&server, &format!("/v1/test-runs/{id}")).await.status, 204);
    server.get(&run).await.refuses(404, "NOT_FOUND");
    delete(&server, &format!("/v1/test-runs/{id}")).await.refuses(404, "NOT_FOUND");
}

#[tokio::test]
async fn a_test_run_that_goes_on_is_stopped_and_deleted() {
    let server = Server::start().await;
    let body = json!({"definition": chain(&[json!({"id": "a", "type": "noop", "config": {"delayMs": 60_000}})])});
    let started = server.post("/v1/test-runs", &body).await.is(201);
    let id = started["run"]["id"].as_str().unwrap();
    assert_eq!(delete(&server, &format!("/v1/test-runs/{id}")).await.status, 204);
    server.get(&format!("/v1/runs/{id}")).await.refuses(404, "NOT_FOUND");
    // A run of a saved workflow is not a test.
    let run = server.start_chain("real", &[wait_for_go()]).await;
    let path = run.replace("/v1/runs/", "/v1/test-runs/");
    let refused = delete(&server, &path).await.refuses(409, "NOT_A_TEST_RUN");
    assert!(refused["detail"].as_str().unwrap().ends_with("is not a test run"), "{refused}");
    server.get(&run).await.is(200);
    // An invalid definition cannot be tested.
    let wrong = server.post("/v1/test-runs", &json!({"definition": {"nodes": [], "edges": []}})).await;
    assert!(!wrong.refuses(422, "VALIDATION_ERROR")["problems"].as_array().unwrap().is_empty());
    server.post("/v1/test-runs", &json!({"input": {}})).await.refuses(400, "VALIDATION_ERROR");
    let key = server.key_with(&[Permission::Manage]).await;
    let body = body.to_string();
    let asked = server.ask(Method::POST, "/v1/test-runs", &[("x-api-key", &key)], &body).await;
    asked.refuses(403, "PERMISSION_DENIED");
}
