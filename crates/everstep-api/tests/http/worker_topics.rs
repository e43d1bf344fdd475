//! Events in the worker protocol: triggers of a hello, publish reports, and waits for events.

use axum::http::Method;
use everstep_api::auth::Permission;
use serde_json::{Value, json};

use crate::support::Server;
use crate::workers::{Worker, hello};

/// A hello with triggers for its only workflow.
fn hello_with(triggers: Value) -> Value {
    let mut hello = hello(&[("onboard", 1)]);
    hello["workflows"][0]["triggers"] = triggers;
    hello
}

/// Publishes an event and waits for its fan-out.
async fn publish(server: &Server, topic: &str, data: Value) -> Value {
    let event = json!({"topic": topic, "source": "shop", "data": data});
    server.post("/v1/events?waitSeconds=30", &event).await.is(200)
}

#[tokio::test]
async fn a_trigger_that_is_wrong_is_refused_with_its_path() {
    let server = Server::start().await;
    let wrong = [
        (json!([{"event": "user.sign*"}]), "workflows[0].triggers[0]/event"),
        (json!([{"event": "t"}, {"event": "everstep.runs"}]), "workflows[0].triggers[1]/event"),
        (json!([{"event": "t", "match": 5}]), "workflows[0].triggers[0]/match"),
        (json!([{"event": "t", "match": {"$expr": "payload.total >"}}]), "workflows[0].triggers[0]/match/$expr"),
        (json!([{"event": "t", "match": {"$expr": "input.total > 1"}}]), "workflows[0].triggers[0]/match/$expr"),
        (json!(vec![json!({"event": "t"}); 21]), "workflows[0].triggers"),
    ];
    for (triggers, path) in wrong {
        let refused = server.post("/v1/worker/sessions", &hello_with(triggers)).await.refuses(400, "VALIDATION_ERROR");
        assert_eq!(refused["path"], path, "{refused}");
    }
    for triggers in [json!([{"topic": "t"}]), json!([{"event": "t", "input": {}}]), json!({"event": "t"})] {
        server.post("/v1/worker/sessions", &hello_with(triggers)).await.refuses(400, "VALIDATION_ERROR");
    }
    assert_eq!(server.get("/v1/subscriptions").await.is(200)["subscriptions"], json!([]));
}

#[tokio::test]
async fn a_worker_is_started_by_an_event_publishes_one_and_receives_one() {
    let server = Server::start().await;
    let triggers = json!([{"event": "user.*", "match": {"plan": "pro"}}]);
    let mut worker = Worker::open_with(&server, &hello_with(triggers)).await;
    let page = server.get("/v1/subscriptions").await.is(200);
    let [subscription] = &page["subscriptions"].as_array().unwrap()[..] else { panic!("{page}") };
    assert_eq!((&subscription["pattern"], &subscription["origin"]), (&json!("user.*"), &json!("workflow")));
    assert_eq!(publish(&server, "user.signup", json!({"plan": "free"})).await["matched"]["workflows"], 0);
    let event = publish(&server, "user.signup", json!({"plan": "pro", "id": 7})).await;
    assert_eq!(event["matched"]["workflows"], 1);

    let turn = worker.turn().await;
    assert_eq!(turn["input"], json!({"plan": "pro", "id": 7}));
    let trigger = json!({
        "type": "event", "id": event["id"], "topic": "user.signup", "subscription": subscription["id"],
        "source": "shop", "depth": 0, "scheduledFor": null,
    });
    assert_eq!(turn["trigger"], trigger);
    let announce =
        json!({"kind": "publish", "step": "announce", "topic": "user.welcomed", "data": {"id": 7}, "subject": "7"});
    let messages = worker.send(&turn, &[announce]).await;
    let wake = &messages[0]["wakes"][0];
    assert_eq!((&wake["kind"], &wake["status"]), (&json!("publish"), &json!("completed")), "{messages:?}");
    assert_eq!(messages[0]["acks"][0][0], 1, "{messages:?}");
    let published = server.get(&format!("/v1/events/{}", wake["output"]["id"].as_str().unwrap())).await.is(200);
    let run = turn["run"].as_str().unwrap();
    assert_eq!((&published["source"], &published["eventId"]), (&json!(format!("run:{run}")), &json!("announce")));
    assert_eq!(
        (&published["data"], &published["depth"], &published["subject"]),
        (&json!({"id": 7}), &json!(1), &json!("7"))
    );

    let wait = json!({"kind": "wait", "step": "paid", "event": "order.paid", "match": {"user": 7}, "since": "start"});
    let mut messages = worker.send(&turn, &[wait]).await;
    while !messages.iter().any(|message| message["acks"][0][0] == 2) {
        messages = worker.poll().await;
    }
    let event = publish(&server, "order.paid", json!({"user": 7, "by": "Ada"})).await;
    assert_eq!(event["matched"]["waits"], 1);
    let messages = worker.poll().await;
    let wake = messages.iter().find_map(|message| message["wakes"].get(0)).expect("the wait is resolved");
    assert_eq!((&wake["status"], &wake["payload"]), (&json!("resolved"), &json!({"user": 7, "by": "Ada"})));
    assert_eq!(wake["event"]["id"], event["id"]);
    assert_eq!((&wake["event"]["topic"], &wake["event"]["source"]), (&json!("order.paid"), &json!("shop")));
    assert!(wake["event"]["at"].as_str().unwrap().ends_with('Z'), "{wake}");
    worker.send(&turn, &[json!({"kind": "returned", "output": 5})]).await;
    let ended = server.get(&format!("/v1/runs/{run}?waitSeconds=10")).await.is(200);
    assert_eq!((&ended["status"], &ended["trigger"]), (&json!("completed"), &trigger));
}

#[tokio::test]
async fn a_wait_of_code_finds_an_event_of_the_past_by_since() {
    let server = Server::start().await;
    let mut worker = Worker::open_with(&server, &hello_with(json!([{"event": "order.placed"}]))).await;
    publish(&server, "order.placed", json!({})).await;
    let turn = worker.turn().await;
    let first = publish(&server, "order.paid", json!({"n": 1})).await;
    publish(&server, "order.paid", json!({"n": 2})).await;
    let wait = |step: &str, since: &Value| json!({"kind": "wait", "step": step, "event": "order.paid", "timeoutMs": 600_000, "since": since});
    let waits = [wait("start", &json!("start")), wait("ago", &json!({"agoMs": 60_000}))];
    let mut messages = worker.send(&turn, &waits).await;
    let mut resolved = Vec::new();
    while resolved.len() < 2 {
        resolved.extend(messages.iter().flat_map(|message| message["wakes"].as_array().cloned().unwrap_or_default()));
        if resolved.len() < 2 {
            messages = worker.poll().await;
        }
    }
    resolved.sort_by_key(|wake| wake["step"].to_string());
    let steps: Vec<_> = resolved.iter().map(|wake| (&wake["step"], &wake["payload"], &wake["event"]["id"])).collect();
    let (ago, start, oldest) = (json!("ago"), json!("start"), json!({"n": 1}));
    assert_eq!(steps, [(&ago, &oldest, &first["id"]), (&start, &oldest, &first["id"])]);
    worker.send(&turn, &[json!({"kind": "returned"})]).await;
}

#[tokio::test]
async fn triggers_need_no_more_than_the_right_to_serve() {
    let server = Server::start().await;
    let key = server.key_with(&[Permission::Serve]).await;
    let hello = hello_with(json!([{"event": "user.signup"}]));
    server.ask_as(&key, Method::POST, "/v1/worker/sessions", &hello).await.is(201);
}
