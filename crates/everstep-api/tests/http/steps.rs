//! The details of a run: steps, contexts, logs, and what it waits for.

use serde_json::{Value, json};

use crate::support::{Server, chain, wait_for_go};

fn keys(page: &Value, field: &str) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    page["steps"].as_array().unwrap().iter().map(|step| (text(&step["key"]), text(&step[field]))).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[tokio::test]
async fn a_run_shows_what_it_waits_for() {
    let server = Server::start().await;
    let ask = json!({"id": "ask", "type": "wait", "config": {"event": "approve"}, "timeoutSeconds": 3600});
    let mut graph = chain(&[ask]);
    graph["edges"].as_array_mut().unwrap().push(json!({"source": "ask", "target": "end", "sourceHandle": "timeout"}));
    server.put("/v1/workflows/asks", &graph).await.is(201);
    let started = server.post("/v1/workflows/asks/runs", &Value::Null).await.is(201);
    let run = format!("/v1/runs/{}", started["run"]["id"].as_str().unwrap());
    let shown = server.wait_for(&run, "waiting").await;
    let text = shown["waitingFor"].as_str().unwrap();
    assert!(text.starts_with("waits for the signal \"approve\" at step ask until 20"), "{text}");
    let [open] = &shown["open"].as_array().unwrap()[..] else { panic!("{shown}") };
    assert_eq!((&open["step"], &open["kind"], &open["event"]), (&json!("ask"), &json!("wait"), &json!("approve")));
    assert!(open["due"].is_string() && open["since"].is_string() && open["attempt"] == 1);
    server.post(&format!("{run}/pause"), &Value::Null).await.is(200);
    let paused = server.get(&run).await.is(200);
    assert!(paused["waitingFor"].as_str().unwrap().starts_with("is paused since 20"), "{paused}");
    server.post(&format!("{run}/cancel"), &Value::Null).await.is(200);
    let over = server.get(&run).await.is(200);
    assert_eq!((&over["waitingFor"], &over["open"]), (&Value::Null, &json!([])));
}

#[tokio::test]
async fn a_run_in_memory_shows_what_it_performs() {
    let server = Server::start().await;
    let run = server.start_chain("busy", &[json!({"id": "a", "type": "noop", "config": {"delayMs": 60_000}})]).await;
    let shown = server.get(&run).await.is(200);
    assert_eq!((&shown["status"], &shown["waitingFor"]), (&json!("running"), &json!("performs step a, attempt 1")));
    assert_eq!((&shown["open"][0]["kind"], &shown["version"]), (&json!("task"), &json!(4)));
    let nap = json!({"id": "nap", "type": "delay", "config": {"delayMinutes": 60}});
    let run = server.start_chain("naps", &[nap]).await;
    let text = server.wait_for(&run, "waiting").await["waitingFor"].as_str().unwrap().to_owned();
    assert!(text.starts_with("sleeps at step nap until 20"), "{text}");
}

#[tokio::test]
async fn steps_are_shown_with_their_attempts_and_times() {
    let server = Server::start().await;
    let code = "console.log('one'); console.log('two'); if (ctx.input.n === 1) { throw new Error('no luck') } return 7";
    let a =
        json!({"id": "a", "type": "javascript", "config": {"code": code}, "retry": {"maxAttempts": 2, "baseMs": 100}});
    let mut graph = chain(&[a]);
    graph["nodes"].as_array_mut().unwrap().push(json!({"id": "b", "type": "noop"}));
    graph["edges"].as_array_mut().unwrap().push(json!({"source": "a", "target": "b", "sourceHandle": "error"}));
    graph["edges"].as_array_mut().unwrap().push(json!({"source": "b", "target": "end"}));
    // An end that is reached on one of two paths.
    graph["nodes"][2]["joinMode"] = "any".into();
    let saved = server.put("/v1/workflows/tries", &graph).await;
    assert_eq!(saved.status, 201, "{}", saved.body);
    let start = async |n: u32| {
        let started = server.post("/v1/workflows/tries/runs", &json!({"input": {"n": n}})).await.is(201);
        let run = format!("/v1/runs/{}", started["run"]["id"].as_str().unwrap());
        server.get(&format!("{run}?waitSeconds=30")).await.is(200);
        run
    };
    let run = start(0).await;
    let page = server.get(&format!("{run}/steps")).await.is(200);
    let expected = [("start", "completed"), ("a", "completed"), ("b", "skipped"), ("end", "completed")];
    let mut sorted = keys(&page, "status");
    sorted.sort();
    let mut wanted = pairs(&expected);
    wanted.sort();
    assert_eq!((sorted, &page["nextCursor"]), (wanted, &Value::Null));
    let step = page["steps"].as_array().unwrap().iter().find(|step| step["key"] == "a").unwrap();
    assert_eq!((&step["type"], &step["node"], &step["output"]), (&json!("javascript"), &json!("a"), &json!(7)));
    assert!(step["durationMs"].as_f64().unwrap() > 0.0 && step["startedAt"].is_string());
    assert_eq!(step["attempts"][0]["logs"], json!(["one", "two"]));

    let run = start(1).await;
    let page = server.get(&format!("{run}/steps?limit=2")).await.is(200);
    assert_eq!(keys(&page, "status"), pairs(&[("start", "completed"), ("a", "failed")]));
    let attempts = page["steps"][1]["attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), 2, "{page}");
    assert!(attempts.iter().all(|attempt| attempt["status"] == "failed" && attempt["error"]["message"].is_string()));
    let cursor = page["nextCursor"].as_str().unwrap();
    let page = server.get(&format!("{run}/steps?limit=2&cursor={cursor}")).await.is(200);
    assert_eq!(keys(&page, "type"), pairs(&[("b", "noop"), ("end", "end")]));
    // The same under the path of the workflow.
    let id = run.strip_prefix("/v1/runs/").unwrap();
    let same = server.get(&format!("/v1/workflows/tries/runs/{id}/steps")).await.is(200);
    assert_eq!(same["steps"].as_array().unwrap().len(), 4);
    server.get(&format!("/v1/workflows/other/runs/{id}/steps")).await.refuses(404, "NOT_FOUND");
    server.get(&format!("{run}/steps?cursor=x")).await.refuses(400, "VALIDATION_ERROR");

    let logs = server.get(&format!("{run}/logs")).await.is(200);
    let lines: Vec<_> = logs["logs"].as_array().unwrap().iter().map(|line| line["line"].as_str().unwrap()).collect();
    assert_eq!(lines, ["one", "two", "one", "two"]);
    assert_eq!((&logs["logs"][2]["attempt"], &logs["logs"][0]["step"]), (&json!(2), &json!("a")));
    let first = server.get(&format!("{run}/logs?limit=1")).await.is(200);
    assert_eq!(first["logs"].as_array().unwrap().len(), 2, "an attempt's lines stay together");
    let cursor = first["nextCursor"].as_str().unwrap();
    let rest = server.get(&format!("{run}/logs?cursor={cursor}&step=a")).await.is(200);
    assert_eq!((rest["logs"].as_array().unwrap().len(), &rest["nextCursor"]), (2, &Value::Null));
    assert_eq!(server.get(&format!("{run}/logs?step=b")).await.is(200)["logs"], json!([]));
}

#[tokio::test]
async fn a_context_is_shown_as_it_was() {
    let server = Server::start().await;
    let work = json!({"id": "work", "type": "noop", "config": {"output": {"n": 1}}, "outputVariable": "first"});
    let run = server.start_chain("keeps", &[work, wait_for_go()]).await;
    server.wait_for(&run, "waiting").await;
    let now = server.get(&format!("{run}/context")).await.is(200);
    assert_eq!(now["context"]["first"], json!({"n": 1}));
    assert_eq!((&now["context"]["input"], &now["scopes"]), (&json!({}), &json!([])));
    assert!(now["context"].as_object().unwrap().keys().all(|name| !name.starts_with("__")), "{now}");
    let before = server.get(&format!("{run}/context?at=4")).await.is(200);
    assert_eq!((&before["seq"], &before["context"]["first"]), (&json!(4), &Value::Null));
    server.get(&format!("{run}/context?at=400")).await.refuses(400, "VALIDATION_ERROR");
    server.get(&format!("{run}/context?at=0")).await.refuses(400, "VALIDATION_ERROR");
}

#[tokio::test]
async fn iterations_under_way_have_a_context_of_their_own() {
    let server = Server::start().await;
    let graph = json!({
        "nodes": [
            {"id": "start", "type": "start"},
            {"id": "each", "type": "loop", "config": {"sourceVariable": "{{ctx.input.items}}", "concurrency": 2}},
            {"id": "ask", "type": "wait", "config": {"event": "go"}},
            {"id": "end", "type": "end"},
        ],
        "edges": [
            {"source": "start", "target": "each"},
            {"source": "each", "target": "ask", "sourceHandle": "loop"},
            {"source": "each", "target": "end", "sourceHandle": "done"},
        ],
    });
    server.put("/v1/workflows/loops", &graph).await.is(201);
    let started = server.post("/v1/workflows/loops/runs", &json!({"input": {"items": ["x", "y", "z"]}})).await.is(201);
    let run = format!("/v1/runs/{}", started["run"]["id"].as_str().unwrap());
    let shown = server.wait_for(&run, "waiting").await;
    assert_eq!(shown["waitingFor"], "waits for the signal \"go\" at step each[0].ask and 1 more");
    let received = server.get(&format!("{run}/context")).await.is(200);
    let scopes: Vec<_> =
        received["scopes"].as_array().unwrap().iter().map(|scope| scope["scope"].as_str().unwrap()).collect();
    assert_eq!(scopes, ["each[0]", "each[1]"]);
    let values: Vec<_> = received["scopes"][1]["context"].as_object().unwrap().values().cloned().collect();
    assert!(values.contains(&json!("y")) && values.contains(&json!(1)), "{received}");
    let steps = server.get(&format!("{run}/steps")).await.is(200);
    let ask = [("each", "running"), ("each[0].ask", "waiting"), ("each[1].ask", "waiting")];
    assert_eq!(keys(&steps, "status")[1..], pairs(&ask));
    server.post(&format!("{run}/cancel"), &Value::Null).await.is(200);
    let steps = server.get(&format!("{run}/steps")).await.is(200);
    assert!(keys(&steps, "status")[1..].iter().all(|(_, status)| status == "cancelled"), "{steps}");
}

#[tokio::test]
async fn a_view_shows_what_is_asked_for_once_it_is_there() {
    let server = Server::start().await;
    let mut graph = chain(&[wait_for_go()]);
    let outputs = json!([{"name": "total", "sourceVariable": 5}, {"name": "order", "sourceVariable": "{{ctx.input}}"}]);
    graph["nodes"][2]["config"] = json!({"outputParameters": outputs});
    server.put("/v1/workflows/shows", &graph).await.is(201);
    let started = server.post("/v1/workflows/shows/runs", &json!({"input": {"id": 7}})).await.is(201);
    let run = format!("/v1/runs/{}", started["run"]["id"].as_str().unwrap());
    let wanted = json!({"widgetConfig": {"fields": ["total", "order.id", "missing"]}});
    let before = server.post(&format!("{run}/view"), &wanted).await.is(200);
    assert!(before.get("data").is_none() && before["status"] != "completed", "{before}");
    server.wait_for(&run, "waiting").await;
    server.post(&format!("{run}/signals/go"), &json!({})).await.is(200);
    server.get(&format!("{run}?waitSeconds=30")).await.is(200);
    let after = server.post(&format!("{run}/view"), &wanted).await.is(200);
    assert_eq!(after["data"], json!({"total": 5, "order.id": 7, "missing": null}));
    assert_eq!(after["status"], "completed");
    assert!(server.post(&format!("{run}/view"), &Value::Null).await.is(200).get("data").is_none());
    server.post(&format!("{run}/view"), &json!({"widget": {}})).await.refuses(400, "VALIDATION_ERROR");
}
