//! Runs: started once per idempotency key, shown, waited for, listed, and read step by step.

use std::time::{Duration, Instant};

use axum::http::Method;
use everstep_api::auth::Permission;
use serde_json::{Value, json};

use crate::support::{Server, chain, wait_for_go};

#[tokio::test]
async fn a_run_is_started_and_waited_for() {
    let server = Server::start().await;
    let end = json!({"outputParameters": [{"name": "sum", "sourceVariable": "{{ctx.input.n}}"}]});
    let mut graph = chain(&[]);
    graph["nodes"][1]["config"] = end;
    server.publish("sum", &graph).await;
    let answer = server.post("/v1/workflows/sum/runs", &json!({"input": {"n": 5}})).await;
    let place = answer.headers["location"].to_str().unwrap().to_owned();
    let started = answer.is(201);
    assert_eq!(started["created"], true);
    assert_eq!(place, format!("/v1/runs/{}", started["run"]["id"].as_str().unwrap()));
    let answer = server.get(&format!("{place}?waitSeconds=30")).await;
    let version = answer.headers["etag"].to_str().unwrap().to_owned();
    let run = answer.is(200);
    assert_eq!((&run["status"], &run["output"]), (&json!("completed"), &json!({"sum": 5})));
    assert_eq!((&run["workflow"], &run["workflowVersion"]), (&json!("sum"), &json!(1)));
    assert_eq!(version, format!("\"{}\"", run["version"]));
    assert_eq!((&run["input"], &run["error"], &run["owner"]), (&json!({"n": 5}), &Value::Null, &Value::Null));
    for time in ["createdAt", "endedAt"] {
        let text = run[time].as_str().unwrap();
        assert!(text.len() == 27 && text.ends_with('Z'), "{time}: {text}");
    }
}

#[tokio::test]
async fn waiting_ends_with_its_time() {
    let server = Server::start().await;
    let run = server.start_chain("waits", &[wait_for_go()]).await;
    let began = Instant::now();
    let shown = server.get(&format!("{run}?waitSeconds=1")).await.is(200);
    assert_eq!(shown["status"], "waiting");
    assert!((1..5).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    for wrong in ["31", "-1", "x", "1.5"] {
        server.get(&format!("{run}?waitSeconds={wrong}")).await.refuses(400, "VALIDATION_ERROR");
    }
}

#[tokio::test]
async fn waiting_ends_with_the_run() {
    let server = Server::start().await;
    let run = server.start_chain("waits", &[wait_for_go()]).await;
    let waiting = async { server.get(&format!("{run}?waitSeconds=30")).await.is(200) };
    let signal = async {
        server.wait_for(&run, "waiting").await;
        server.post(&format!("{run}/signals/go"), &json!({})).await.is(200);
        Instant::now()
    };
    let (shown, signalled) = tokio::join!(waiting, signal);
    assert_eq!(shown["status"], "completed");
    assert!(signalled.elapsed() < Duration::from_secs(2), "{:?}", signalled.elapsed());
}

#[tokio::test]
async fn a_start_with_a_known_key_finds_its_run() {
    let server = Server::start().await;
    for name in ["one", "two"] {
        server.publish(name, &chain(&[wait_for_go()])).await;
    }
    let header = [("idempotency-key", "k")];
    let first = server.post_with("/v1/workflows/one/runs", &header, &Value::Null).await.is(201);
    let again = server.post("/v1/workflows/one/runs", &json!({"idempotencyKey": "k"})).await.is(200);
    assert_eq!((&again["created"], &again["run"]["id"]), (&json!(false), &first["run"]["id"]));
    assert_eq!(again["run"]["idempotencyKey"], "k");
    // The key of a workflow is not that of another, nor of the workspace.
    let other = server.post_with("/v1/workflows/two/runs", &header, &Value::Null).await.is(201);
    assert_ne!(other["run"]["id"], first["run"]["id"]);
    let body = json!({"definitionId": "one", "input": {"a": 1}, "idempotencyKey": "k"});
    let wide = server.post("/v1/workflow-runs", &body).await.is(201);
    assert_eq!(wide["run"]["input"], json!({"a": 1}));
    let wide_again = server.post("/api/v1/workflow-runs", &json!({"definitionId": "two", "idempotencyKey": "k"})).await;
    assert_eq!(wide_again.is(200)["run"]["id"], wide["run"]["id"]);
    // Without a key every start is a new run.
    let runs = [
        server.post("/v1/workflow-runs", &json!({"definitionId": "one"})).await.is(201),
        server.post("/v1/workflow-runs", &json!({"definitionId": "one"})).await.is(201),
    ];
    assert_ne!(runs[0]["run"]["id"], runs[1]["run"]["id"]);
}

#[tokio::test]
async fn a_start_is_repeated_without_the_permission_to_view_runs() {
    let server = Server::start().await;
    server.publish("one", &chain(&[wait_for_go()])).await;
    let machine = json!({"states": [
        {"name": "open", "initial": true, "on": {"CLOSE": {"to": "closed", "require": {"user": "ann"}}}},
        {"name": "closed", "terminal": true},
    ]});
    server.publish("two", &machine).await;
    let keys = [server.key_with(&[Permission::Manage]).await, server.key_with(&[Permission::Manage]).await];
    for name in ["one", "two"] {
        let start = json!({"definitionId": name, "idempotencyKey": name});
        let first = server.ask_as(&keys[0], Method::POST, "/v1/workflow-runs", &start).await.is(201);
        for key in &keys {
            let again = server.ask_as(key, Method::POST, "/v1/workflow-runs", &start).await.is(200);
            assert_eq!((&again["created"], &again["run"]["id"]), (&json!(false), &first["run"]["id"]));
        }
    }
}

#[tokio::test]
async fn fifty_starts_with_one_key_are_one_run() {
    let server = Server::start().await;
    server.publish("once", &chain(&[wait_for_go()])).await;
    let body = json!({"definitionId": "once", "idempotencyKey": "k"});
    let starts = (0..50).map(|_| server.post("/v1/workflow-runs", &body));
    let answers = futures_util::future::join_all(starts).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 201).count(), 1);
    assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 49);
    let first = &answers[0].body["run"]["id"];
    assert!(answers.iter().all(|answer| answer.body["run"]["id"] == *first));
}

#[tokio::test]
async fn a_start_that_makes_no_sense_is_refused() {
    let server = Server::start().await;
    server.publish("plain", &chain(&[])).await;
    let long = "k".repeat(256);
    let wrong = [
        json!({}),
        json!({"definitionId": ""}),
        json!({"definitionId": "plain", "input": [1]}),
        json!({"definitionId": "plain", "input": null}),
        json!({"definitionId": "plain", "idempotencyKey": long}),
        json!({"definitionId": "plain", "idempotencyKey": ""}),
        json!({"definitionId": "plain", "inputt": {}}),
        json!(["plain"]),
    ];
    for body in wrong {
        server.post("/v1/workflow-runs", &body).await.refuses(400, "VALIDATION_ERROR");
    }
    let ok = "k".repeat(255);
    server.post("/v1/workflow-runs", &json!({"definitionId": "plain", "idempotencyKey": ok})).await.is(201);
    server.post("/v1/workflow-runs", &json!({"definitionId": "missing"})).await.refuses(404, "WORKFLOW_NOT_FOUND");
    server.post("/v1/workflows/No%20Name/runs", &Value::Null).await.refuses(400, "VALIDATION_ERROR");
    server.post("/v1/workflows/plain/runs", &json!({"version": 9})).await.refuses(404, "WORKFLOW_NOT_FOUND");
    server.post("/v1/workflows/plain/runs", &json!({"tagss": {}})).await.refuses(400, "VALIDATION_ERROR");
    server.post("/v1/workflows/plain/runs?x=1", &Value::Null).await.refuses(400, "VALIDATION_ERROR");
    let header = [("idempotency-key", "a")];
    let body = json!({"idempotencyKey": "b"});
    server.post_with("/v1/workflows/plain/runs", &header, &body).await.refuses(400, "VALIDATION_ERROR");
    let nul = json!({"input": {"text": "a\0b"}});
    server.post("/v1/workflows/plain/runs", &nul).await.refuses(422, "VALIDATION_ERROR");
    let large = json!({"input": "x".repeat(1024 * 1024)});
    server.post("/v1/workflows/plain/runs", &large).await.refuses(413, "PAYLOAD_TOO_LARGE");
    let huge = json!({"input": "x".repeat(2 * 1024 * 1024)});
    server.post("/v1/workflows/plain/runs", &huge).await.refuses(413, "PAYLOAD_TOO_LARGE");
}

#[tokio::test]
async fn every_start_refuses_a_nul_character_in_the_input_alike() {
    let server = Server::start().await;
    server.publish("plain", &chain(&[])).await;
    let input = json!({"text": "a\0b"});
    let starts = [
        ("/v1/workflows/plain/runs", json!({"input": input})),
        ("/v1/workflows/code-of-a-worker/runs", json!({"input": input})),
        ("/v1/workflow-runs", json!({"definitionId": "plain", "input": input})),
        ("/v1/test-runs", json!({"definition": chain(&[]), "input": input})),
    ];
    for (path, body) in starts {
        let problem = server.post(path, &body).await.refuses(422, "VALIDATION_ERROR");
        assert!(problem["detail"].as_str().unwrap().contains("NUL"), "{path}: {problem}");
    }
    let many = json!({"runs": [{"input": input}, {"input": 1}]});
    let started = server.post("/v1/workflows/plain/runs/batch", &many).await.is(207);
    assert_eq!(started["runs"][0]["error"]["code"], "VALIDATION_ERROR", "{started}");
    assert_eq!(started["runs"][0]["error"]["status"], 422, "{started}");
    assert!(started["runs"][1]["id"].is_string(), "{started}");
    // An escaped backslash before the same letters is not a NUL.
    server.post("/v1/workflows/plain/runs", &json!({"input": {"text": "a\\u0000"}})).await.is(201);
}

#[tokio::test]
async fn a_run_keeps_its_version_and_how_long_it_is_kept() {
    let server = Server::start().await;
    server.publish("two", &chain(&[])).await;
    server.publish("two", &chain(&[wait_for_go()])).await;
    let old = server.post("/v1/workflows/two/runs", &json!({"version": 1, "retentionDays": 7})).await.is(201);
    assert_eq!((&old["run"]["workflowVersion"], &old["run"]["retentionDays"]), (&json!(1), &json!(7)));
    let long = server.post("/v1/workflows/two/runs", &json!({"retentionDays": 4_000})).await.is(201);
    assert_eq!((&long["run"]["workflowVersion"], &long["run"]["retentionDays"]), (&json!(2), &json!(365)));
}

#[tokio::test]
async fn runs_are_listed_page_by_page() {
    let server = Server::start().await;
    let mut ids = Vec::new();
    for n in 0..5 {
        let name = if n % 2 == 0 { "even" } else { "odd" };
        ids.push(server.start_chain(name, &[wait_for_go()]).await.replace("/v1/runs/", ""));
    }
    ids.reverse();
    let listed = |page: &Value| -> Vec<String> {
        page["runs"].as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap().to_owned()).collect()
    };
    let page = server.get("/v1/runs?limit=2").await.is(200);
    assert_eq!(listed(&page), ids[..2]);
    let cursor = page["nextCursor"].as_str().unwrap();
    let page = server.get(&format!("/v1/runs?limit=4&cursor={cursor}")).await.is(200);
    assert_eq!((listed(&page), &page["nextCursor"]), (ids[2..].to_vec(), &Value::Null));
    let page = server.get("/v1/runs?workflow=odd").await.is(200);
    assert_eq!(listed(&page), [ids[1].clone(), ids[3].clone()]);
    let done = server.start_chain("done", &[]).await;
    server.get(&format!("{done}?waitSeconds=30")).await.is(200);
    let page = server.get("/v1/runs?status=completed").await.is(200);
    assert_eq!(page["runs"].as_array().unwrap().len(), 1);
    assert_eq!(page["runs"][0]["status"], "completed");
    let page = server.get("/v1/runs?until=2001-01-01T00:00:00Z").await.is(200);
    assert_eq!(page["runs"], json!([]));
    for (query, count) in [("since=2026-05-01", 2), ("until=2026-05-01", 0), ("status=failed&since=2026-05-01", 0)] {
        let page = server.get(&format!("/v1/workflows/odd/runs?{query}")).await.is(200);
        assert_eq!(page["runs"].as_array().unwrap().len(), count, "{query}");
    }
    for wrong in ["status=done", "limit=0", "limit=501", "since=yesterday", "cursor=x", "inputs.x=1", "limit=1&limit=2"]
    {
        server.get(&format!("/v1/runs?{wrong}")).await.refuses(400, "VALIDATION_ERROR");
    }
}

#[tokio::test]
async fn a_journal_is_read_in_pages() {
    let server = Server::start().await;
    let run =
        server.start_chain("received", &[json!({"id": "a", "type": "noop", "config": {"output": {"n": 1}}})]).await;
    server.get(&format!("{run}?waitSeconds=30")).await.is(200);
    let whole = server.get(&format!("{run}/journal")).await.is(200);
    let entries = whole["entries"].as_array().unwrap();
    let events: Vec<_> = entries.iter().map(|entry| entry["event"].as_str().unwrap()).collect();
    let step = ["StepDispatched", "StepCompleted"];
    let expected = [&["RunStarted"][..], &step, &step, &step, &["RunCompleted"]].concat();
    assert_eq!(events, expected);
    assert_eq!(whole["nextAfter"], Value::Null);
    assert_eq!(entries[3]["step"], "a");
    assert_eq!((&entries[3]["attempt"], &entries[3]["data"]), (&json!(1), &json!({"kind": "task"})));
    assert_eq!(entries[4]["data"], json!({"output": {"n": 1}}));
    let node = server.get("/readyz").await.is(200)["node"].clone();
    assert!(entries.iter().all(|entry| entry["writer"] == node));
    let mut paged = Vec::new();
    let mut after = json!(0);
    while after != Value::Null {
        let page = server.get(&format!("{run}/journal?after={after}&limit=3")).await.is(200);
        paged.extend(page["entries"].as_array().unwrap().clone());
        after = page["nextAfter"].clone();
    }
    assert_eq!(&paged, entries);
    server.get(&format!("{run}/journal?limit=1001")).await.refuses(400, "VALIDATION_ERROR");
    let missing = "/v1/runs/019a0000-0000-7000-8000-000000000000";
    server.get(&format!("{missing}/journal")).await.refuses(404, "NOT_FOUND");
    server.get(missing).await.refuses(404, "NOT_FOUND");
    server.get("/v1/runs/nonsense").await.refuses(404, "NOT_FOUND");
}

#[tokio::test]
async fn nodes_are_listed_for_admins() {
    let server = Server::start().await;
    let run = server.start_chain("busy", &[json!({"id": "a", "type": "noop", "config": {"delayMs": 60_000}})]).await;
    let listed = server.get("/v1/nodes").await.is(200);
    let [node] = &listed["nodes"].as_array().unwrap()[..] else { panic!("one node: {listed}") };
    assert_eq!(node["id"], server.get(&run).await.is(200)["owner"]);
    assert_eq!((&node["isSelf"], &node["isFenced"], &node["runs"]), (&json!(true), &json!(false), &json!(1)));
    assert!(node["skewMs"].is_null() || node["skewMs"].is_i64(), "{node}");
    // No other node can use the database, so there is no lease that could end.
    assert_eq!((&node["leaseUntil"], &node["isExpired"]), (&Value::Null, &json!(false)));
    let key = server.key_with(&[Permission::View]).await;
    server.ask(Method::GET, "/v1/nodes", &[("x-api-key", &key)], "").await.refuses(403, "PERMISSION_DENIED");
}

#[tokio::test]
async fn a_start_that_waits_for_the_end_shows_the_run_as_it_is_read_later() {
    let server = Server::start().await;
    let noop = json!({"id": "a", "type": "noop"});
    let fails = json!({"id": "a", "type": "noop", "config": {"failTimes": 1}, "retry": {"maxAttempts": 1}});
    server.publish("completes", &chain(&[noop])).await;
    server.publish("fails", &chain(&[fails])).await;
    let decided = json!({
        "states": [
            {"name": "open", "initial": true, "after": [{"in": "1s", "to": "closed"}]},
            {"name": "closed", "terminal": true, "output": {"n": "{{ctx.n}}"}},
        ],
    });
    server.publish("decides", &decided).await;
    let start = json!({"input": {"n": 3}, "tags": {"team": "blue"}, "idempotencyKey": "once"});
    for (workflow, status) in [("completes", "completed"), ("fails", "failed"), ("decides", "completed")] {
        let path = format!("/v1/workflows/{workflow}/runs?waitSeconds=30");
        let started = server.post(&path, &start).await.is(201);
        assert_eq!(started["run"]["status"], status, "{started}");
        let id = started["run"]["id"].as_str().unwrap();
        assert_eq!(started["run"], server.get(&format!("/v1/runs/{id}")).await.is(200));
        // The same start again finds the run, and reads it.
        let found = server.post(&path, &start).await.is(200);
        assert_eq!((&found["run"], &found["created"]), (&started["run"], &json!(false)));
    }
}
