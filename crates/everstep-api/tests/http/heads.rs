//! The journal without values, and one step with them.

use std::sync::{Arc, Mutex};

use axum::http::Method;
use serde_json::{Value, json};

use crate::support::{Server, chain, wait_for_go};

const SECRET: &str = "a value that no head contains";

/// A run with values in each part of its journal, which has failed.
async fn run_with_values(server: &Server) -> String {
    let work = json!({"id": "work", "type": "javascript", "outputVariable": "made", "config": {
        "code": "console.log(ctx.input.note); console.log('two'); return {note: ctx.input.note}",
    }});
    let fails = json!({"id": "fails", "type": "javascript", "retry": {"maxAttempts": 1}, "config": {
        "code": "throw new Error('é'.repeat(500))",
    }});
    server.publish("values", &chain(&[work, wait_for_go(), fails])).await;
    let start = json!({"input": {"note": SECRET}});
    let started = server.post("/v1/workflows/values/runs", &start).await.is(201);
    let run = format!("/v1/runs/{}", started["run"]["id"].as_str().unwrap());
    server.wait_for(&run, "waiting").await;
    server.post(&format!("{run}/signals/go"), &json!({"note": SECRET})).await.is(200);
    server.wait_for(&run, "failed").await;
    run
}

async fn heads(server: &Server, run: &str, query: &str) -> Vec<Value> {
    server.get(&format!("{run}/journal?view=heads{query}")).await.is(200)["entries"].as_array().unwrap().clone()
}

#[tokio::test]
async fn heads_hold_no_payload() {
    let server = Server::start().await;
    let run = run_with_values(&server).await;
    let all = heads(&server, &run, "").await;
    assert!(!Value::from(all.clone()).to_string().contains(SECRET));
    let full = server.get(&format!("{run}/journal")).await.is(200);
    let kept = |entries: &[Value]| -> Vec<Value> {
        entries.iter().map(|entry| json!([entry["seq"], entry["at"], entry["event"], entry["step"]])).collect()
    };
    assert_eq!(kept(&all), kept(full["entries"].as_array().unwrap()));
    let of = |event: &str, step: &str| all.iter().find(|head| head["event"] == event && head["step"] == step).unwrap();
    let completed = of("StepCompleted", "work");
    assert_eq!(completed["logLines"], 2);
    let output = json!({"note": SECRET}).to_string().len();
    assert_eq!(completed["bytes"], output + SECRET.len() + "two".len());
    let wait = of("StepDispatched", "wait");
    assert_eq!((&wait["dispatch"], &wait["signal"]), (&json!("wait"), &json!("go")));
    let failed = of("StepFailed", "fails");
    assert_eq!(failed["error"]["message"].as_str().unwrap().chars().count(), 200, "{failed}");
    // The end of the run follows from the updates alone.
    let last = all.last().unwrap();
    assert_eq!((&last["updates"][0]["of"], &last["updates"][0]["change"]), (&json!("run"), &json!("failed")));
    assert_eq!(last["updates"][0]["failedStep"], "fails");
    server.get(&format!("{run}/journal?view=half")).await.refuses(400, "VALIDATION_ERROR");
    server.get(&format!("{run}/journal?view=heads&limit=10001")).await.refuses(400, "VALIDATION_ERROR");
    server.get(&format!("{run}/journal?view=full&limit=1001")).await.refuses(400, "VALIDATION_ERROR");
}

#[tokio::test]
async fn a_page_of_heads_has_the_updates_of_the_whole() {
    let server = Server::start().await;
    let run = server.start_chain("waits", &[wait_for_go()]).await;
    server.wait_for(&run, "waiting").await;
    // The cancellation of the run cancels a step that began on another page.
    server.post(&format!("{run}/cancel"), &json!({"reason": "no"})).await.is(200);
    let all = heads(&server, &run, "").await;
    let mut pages = Vec::new();
    let mut after = 0;
    loop {
        let page = server.get(&format!("{run}/journal?view=heads&limit=1&after={after}")).await.is(200);
        pages.extend(page["entries"].as_array().unwrap().iter().cloned());
        let Some(next) = page["nextAfter"].as_u64() else { break };
        after = next;
    }
    assert_eq!(pages, all);
    let last = all.last().unwrap();
    assert_eq!((&last["event"], &last["reason"]), (&json!("RunCancelled"), &json!("no")));
    let step = last["updates"].as_array().unwrap().iter().find(|update| update["of"] == "step").unwrap();
    assert_eq!((&step["step"], &step["change"]), (&json!("wait"), &json!("cancelled")));
}

#[tokio::test]
async fn a_stream_of_heads_continues_their_page() {
    let server = Server::start().await;
    let run = run_with_values(&server).await;
    let all = heads(&server, &run, "").await;
    let headers = [("x-api-key", server.key())];
    let response = server.send(Method::GET, &format!("{run}/events?after=3&view=heads"), &headers, "").await;
    let bytes = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let events = text.split("\n\n").filter(|event| event.contains("event: entry"));
    let sent: Vec<Value> =
        events.map(|event| serde_json::from_str(event.split_once("data: ").unwrap().1).unwrap()).collect();
    assert_eq!(sent, all[3..]);
    server.get(&format!("{run}/events?view=half")).await.refuses(400, "VALIDATION_ERROR");
}

#[tokio::test]
async fn a_step_has_its_values() {
    let server = Server::start().await;
    let run = run_with_values(&server).await;
    let step = server.get(&format!("{run}/steps/work")).await.is(200);
    assert_eq!(
        (&step["key"], &step["status"], &step["type"]),
        (&json!("work"), &json!("completed"), &json!("javascript"))
    );
    assert_eq!(step["output"], json!({"note": SECRET}));
    assert_eq!(step["logs"], json!([SECRET, "two"]));
    assert!(step["config"]["code"].as_str().unwrap().contains("console.log"), "{step}");
    let (dispatch, end) = (step["dispatchSeq"].as_u64().unwrap(), step["endSeq"].as_u64().unwrap());
    assert!(dispatch < end && step["tookMs"].as_f64().unwrap() >= 0.0, "{step}");
    let failed = server.get(&format!("{run}/steps/fails?attempt=1")).await.is(200);
    assert_eq!((&failed["output"], &failed["status"]), (&Value::Null, &json!("failed")));
    server.get(&format!("{run}/steps/missing")).await.refuses(404, "NOT_FOUND");
    server.get(&format!("{run}/steps/work?attempt=2")).await.refuses(404, "NOT_FOUND");
    server.get(&format!("{run}/steps/work?part=all")).await.refuses(400, "VALIDATION_ERROR");
}

#[tokio::test]
async fn the_input_of_a_step_is_what_its_handler_received() {
    let server = Server::start().await;
    server.put("/v1/secrets/sesame", &json!({"value": "open"})).await.is(201);
    let received: Arc<Mutex<Vec<String>>> = Arc::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let seen = Arc::clone(&received);
    let router = axum::Router::new().fallback(async move |body: String| {
        seen.lock().unwrap().push(body);
        "{}"
    });
    tokio::spawn(async move { axum::serve(listener, router).await });
    let nodes = json!([
        {"id": "start", "type": "start"},
        {"id": "outer", "type": "loop", "config": {"sourceVariable": "{{ctx.input.rows}}", "itemVariable": "row"}},
        {"id": "inner", "type": "loop", "config": {"sourceVariable": "{{row.cells}}", "itemVariable": "cell"}},
        {"id": "send", "type": "http", "config": {
            "url": url, "method": "POST", "headers": {"authorization": {"$secret": "sesame"}},
            "body": {"row": "{{row.name}}", "cell": "{{cell}}", "nth": "{{index}}"},
        }},
        {"id": "end", "type": "end"},
    ]);
    let edges = json!([
        {"source": "start", "target": "outer"},
        {"source": "outer", "target": "inner", "sourceHandle": "loop"},
        {"source": "inner", "target": "send", "sourceHandle": "loop"},
        {"source": "outer", "target": "end", "sourceHandle": "done"},
    ]);
    server.publish("nested", &json!({"nodes": nodes, "edges": edges})).await;
    let rows = json!([{"name": "a", "cells": [1]}, {"name": "b", "cells": [2, 3]}]);
    let started = server.post("/v1/workflows/nested/runs", &json!({"input": {"rows": rows}})).await.is(201);
    let run = format!("/v1/runs/{}", started["run"]["id"].as_str().unwrap());
    server.wait_for(&run, "completed").await;
    let step = server.get(&format!("{run}/steps/outer%5B1%5D.inner%5B1%5D.send")).await.is(200);
    let input = &step["input"];
    assert_eq!(input["body"], json!({"row": "b", "cell": 3, "nth": 1}), "{step}");
    assert_eq!(input["headers"], json!({"authorization": {"$secret": "sesame"}}));
    assert_eq!(step["config"]["body"]["cell"], "{{cell}}");
    let received = received.lock().unwrap().clone();
    assert!(received.contains(&input["body"].to_string()), "{received:?}");
}
