//! Results and replays of events.

use serde_json::{Value, json};

use super::{only_run, publish, runs_of, save_echo, subscribe};
use crate::support::{Server, chain, wait_for_go};

#[tokio::test]
async fn the_results_of_an_event_name_runs_waits_and_failures() {
    let server = Server::start().await;
    save_echo(&server, "echo").await;
    let mut strict = chain(&[]);
    strict["inputSchema"] = json!({"type": "object", "required": ["user"]});
    server.publish("strict", &strict).await;
    let run = server.start_chain("waits", &[wait_for_go()]).await;
    server.wait_for(&run, "waiting").await;
    let echo = subscribe(&server, "go", &json!({"name": "echo"})).await;
    let refused = subscribe(&server, "go", &json!({"name": "strict"})).await;
    let missing = subscribe(&server, "go", &json!({"name": "missing"})).await;
    let failing =
        subscribe(&server, "go", &json!({"name": "echo", "filter": {"$expr": "payload.n // (payload.n - 1) > 1"}}))
            .await;
    let event = publish(&server, "go", &[], &json!({"n": 1})).await.is(200);
    assert_eq!(event["matched"], json!({"workflows": 1, "queues": 0, "http": 0, "waits": 1, "failed": 3}));
    let shown = server.get(&format!("/v1/events/{}", event["id"].as_str().unwrap())).await.is(200);
    assert_eq!((&shown["matched"], &shown["nextCursor"]), (&event["matched"], &Value::Null));
    assert!(shown["fannedAt"].is_string());
    let results = shown["results"].as_array().unwrap();
    let of = |subscription: &str| results.iter().find(|result| result["subscription"] == subscription).unwrap();
    let started = runs_of(&server, &event).await;
    assert_eq!((&of(&echo)["type"], &of(&echo)["run"]), (&json!("run"), &started[0]["id"]));
    assert_eq!(
        (&of(&refused)["type"], &of(&refused)["code"]),
        (&json!("failed"), &json!("VALIDATION_ERROR")),
        "{shown}"
    );
    assert_eq!(of(&missing)["code"], "WORKFLOW_NOT_FOUND", "{shown}");
    assert_eq!(of(&failing)["type"], "failed", "{shown}");
    assert!(!of(&failing)["message"].as_str().unwrap().is_empty());
    let wait = results.iter().find(|result| result["type"] == "wait").unwrap();
    assert_eq!((format!("/v1/runs/{}", wait["run"].as_str().unwrap()), &wait["step"]), (run, &json!("wait")));
    assert_eq!(results.len(), 5);
}

#[tokio::test]
async fn results_are_paged() {
    let server = Server::start().await;
    save_echo(&server, "echo").await;
    let mut ids = Vec::new();
    for _ in 0..30 {
        ids.push(subscribe(&server, "a", &json!({"name": "echo"})).await);
    }
    let event = publish(&server, "a", &[], &json!(1)).await.is(200);
    let path = format!("/v1/events/{}", event["id"].as_str().unwrap());
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = server.get(&format!("{path}?limit=1{cursor}")).await.is(200);
        let results = page["results"].as_array().unwrap().iter();
        seen.extend(results.map(|result| result["subscription"].as_str().unwrap().to_owned()));
        let Some(next) = page["nextCursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    seen.sort();
    ids.sort();
    assert_eq!(seen, ids);
    for wrong in ["cursor=x", "limit=0", "colour=red"] {
        server.get(&format!("{path}?{wrong}")).await.refuses(400, "VALIDATION_ERROR");
    }
}

#[tokio::test]
async fn a_replay_reaches_one_subscription_again() {
    let server = Server::start().await;
    save_echo(&server, "echo").await;
    let first = subscribe(&server, "a", &json!({"name": "echo"})).await;
    let event = publish(&server, "a", &[("event-id", "1"), ("event-source", "s")], &json!({"n": 1})).await.is(200);
    // A subscription that was created after the event receives a replay.
    let late = subscribe(&server, "a", &json!({"name": "echo"})).await;
    let path = format!("/v1/events/{}/replay?waitSeconds=30", event["id"].as_str().unwrap());
    for subscription in [&first, &late] {
        let replayed = server.post(&path, &json!({"subscription": subscription})).await.is(200);
        assert_eq!((&replayed["created"], &replayed["matched"]["workflows"]), (&json!(true), &json!(1)));
        let run = only_run(&server, &replayed).await;
        assert_eq!(
            (&run["trigger"]["subscription"], &run["output"]["input"]),
            (&json!(subscription), &json!({"n": 1}))
        );
        let shown = server.get(&format!("/v1/events/{}", replayed["id"].as_str().unwrap())).await.is(200);
        assert_eq!((&shown["replayOf"], &shown["source"]), (&event["id"], &json!("s")));
    }
    let keyed = [("idempotency-key", "again")];
    let one = server.post_with(&path, &keyed, &json!({"subscription": first})).await.is(200);
    let two = server.post_with(&path, &keyed, &json!({"subscription": first})).await.is(200);
    assert_eq!((&one["id"], &one["created"], &two["created"]), (&two["id"], &json!(true), &json!(false)));

    let other = subscribe(&server, "b", &json!({"name": "echo"})).await;
    server.post(&path, &json!({"subscription": other})).await.refuses(422, "VALIDATION_ERROR");
    server.post(&format!("/v1/subscriptions/{first}/pause"), &Value::Null).await.is(200);
    server.post(&path, &json!({"subscription": first})).await.refuses(409, "SUBSCRIPTION_PAUSED");
    server.post(&path, &json!({"subscription": "x"})).await.refuses(404, "NOT_FOUND");
    server.post(&path, &json!({})).await.refuses(400, "VALIDATION_ERROR");
    server.post("/v1/events/x/replay", &json!({"subscription": late})).await.refuses(404, "NOT_FOUND");
}
