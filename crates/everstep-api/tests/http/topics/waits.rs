//! Waits that events resolve.

use serde_json::{Value, json};

use super::{publish, runs_of, save_echo, subscribe};
use crate::support::{Server, chain};

fn wait(id: &str, event: &str, pattern: &Value) -> Value {
    json!({"id": id, "type": "wait", "config": {"event": event, "match": pattern}, "outputVariable": id})
}

#[tokio::test]
async fn one_event_starts_two_workflows_and_wakes_a_waiting_run() {
    let server = Server::start().await;
    save_echo(&server, "ship").await;
    save_echo(&server, "bill").await;
    subscribe(&server, "order.*", &json!({"name": "ship"})).await;
    subscribe(&server, "order.paid", &json!({"name": "bill"})).await;
    let run = server.start_chain("order", &[wait("paid", "order.paid", &json!({"order": 17}))]).await;
    server.wait_for(&run, "waiting").await;
    let other = publish(&server, "order.paid", &[], &json!({"order": 18})).await.is(200);
    assert_eq!(other["matched"]["waits"], 0);
    let data = json!({"order": 17, "amount": 40});
    let event = publish(&server, "order.paid", &[("event-source", "bank")], &data).await.is(200);
    assert_eq!(event["matched"], json!({"workflows": 2, "queues": 0, "http": 0, "waits": 1, "failed": 0}));
    assert_eq!(runs_of(&server, &event).await.len(), 2);
    server.wait_for(&run, "completed").await;
    let steps = server.get(&format!("{run}/steps")).await.is(200);
    let step = steps["steps"].as_array().unwrap().iter().find(|step| step["key"] == "paid").unwrap();
    assert_eq!(step["output"], data);
    assert_eq!((&step["event"]["id"], &step["event"]["topic"]), (&event["id"], &json!("order.paid")), "{step}");
    assert_eq!(step["event"]["source"], "bank");
    assert!(step["event"]["at"].is_string());
}

#[tokio::test]
async fn an_event_resolves_every_matching_wait_of_a_run() {
    let server = Server::start().await;
    // Three waits at the same time.
    let nodes = json!([
        {"id": "start", "type": "start"},
        wait("any", "order.paid", &json!({})),
        wait("mine", "order.paid", &json!({"order": 17})),
        wait("other", "order.paid", &json!({"order": 18})),
        {"id": "end", "type": "end"},
    ]);
    let edge = |source: &str, target: &str| json!({"source": source, "target": target});
    let edges: Vec<_> = ["any", "mine", "other"].iter().flat_map(|id| [edge("start", id), edge(id, "end")]).collect();
    server.publish("order", &json!({"nodes": nodes, "edges": edges})).await;
    let started = server.post("/v1/workflows/order/runs", &json!({})).await.is(201);
    let run = format!("/v1/runs/{}", started["run"]["id"].as_str().unwrap());
    server.wait_for(&run, "waiting").await;
    let event = publish(&server, "order.paid", &[], &json!({"order": 17})).await.is(200);
    assert_eq!(event["matched"]["waits"], 2);
    let open = crate::support::until("two resolved waits", async || {
        let open = server.get(&run).await.is(200)["open"].as_array().unwrap().clone();
        (open.len() == 1).then_some(open)
    })
    .await;
    assert_eq!(open[0]["step"], "other");
    publish(&server, "order.paid", &[], &json!({"order": 18})).await.is(200);
    server.wait_for(&run, "completed").await;
}

#[tokio::test]
async fn a_step_publishes_once_and_its_event_names_the_run() {
    let server = Server::start().await;
    save_echo(&server, "listener").await;
    subscribe(&server, "order.shipped", &json!({"name": "listener"})).await;
    let announce = json!({"id": "announce", "type": "publish", "outputVariable": "sent",
        "config": {"topic": "order.shipped", "data": {"order": "{{ctx.input.order}}"}, "subject": "orders"}});
    server.publish("ship", &chain(&[announce, wait("w", "go", &json!({}))])).await;
    let started = server.post("/v1/workflows/ship/runs", &json!({"input": {"order": 7}})).await.is(201);
    let run = started["run"]["id"].as_str().unwrap();
    server.wait_for(&format!("/v1/runs/{run}"), "waiting").await;
    let steps = server.get(&format!("/v1/runs/{run}/steps")).await.is(200);
    let step = steps["steps"].as_array().unwrap().iter().find(|step| step["key"] == "announce").unwrap().clone();
    assert_eq!(step["output"]["topic"], "order.shipped");
    let id = step["output"]["id"].as_str().unwrap();
    let event = crate::support::until("the end of the fan-out", async || {
        let event = server.get(&format!("/v1/events/{id}")).await.is(200);
        event["fannedAt"].is_string().then_some(event)
    })
    .await;
    assert_eq!((&event["source"], &event["eventId"]), (&json!(format!("run:{run}")), &json!("announce")));
    assert_eq!((&event["data"], &event["subject"]), (&json!({"order": 7}), &json!("orders")));
    let listener = server.get(&format!("/v1/runs?trigger=event:{id}")).await.is(200);
    assert_eq!(listener["runs"].as_array().unwrap().len(), 1);
    // A fork does not publish the past again.
    let before = server.get("/v1/events?topic=order.shipped").await.is(200)["events"].as_array().unwrap().len();
    let at = step["seq"].as_u64().unwrap();
    server.post(&format!("/v1/runs/{run}/fork"), &json!({"at": at})).await.is(201);
    let after = server.get("/v1/events?topic=order.shipped").await.is(200)["events"].as_array().unwrap().len();
    assert_eq!((before, after), (1, 1));
}

#[tokio::test]
async fn reserved_names_are_refused_for_waits_and_signals() {
    let server = Server::start().await;
    for name in ["@store/a", "everstep.runs"] {
        let answer = server.put("/v1/workflows/flow", &chain(&[wait("w", name, &json!({}))])).await;
        answer.refuses(422, "VALIDATION_ERROR");
    }
    let run = server.start_chain("flow", &[wait("w", "go", &json!({}))]).await;
    server.wait_for(&run, "waiting").await;
    server.post(&format!("{run}/signals/everstep.go"), &json!({})).await.refuses(400, "VALIDATION_ERROR");
    server.post(&format!("{run}/signals/@go"), &json!({})).await.refuses(400, "VALIDATION_ERROR");
    assert_eq!(server.post(&format!("{run}/signals/go"), &json!({})).await.is(200)["outcome"], "accepted");
}

#[tokio::test]
async fn a_wait_that_has_looked_back_over_too_many_events_says_so() {
    let server = Server::start().await;
    publish(&server, "order.paid", &[], &json!({"order": 1})).await.is(200);
    let looking_back = |id: &str| {
        let mut wait = wait(id, "order.paid", &json!({"order": 17}));
        wait["config"]["sinceSeconds"] = json!(3_600);
        wait
    };
    let few = server.start_chain("few", &[looking_back("paid")]).await;
    let shown = server.wait_for(&few, "waiting").await;
    assert_eq!(shown["waitingFor"], "waits for the signal \"order.paid\" with {\"order\":17} at step paid");
    // Without a request for each of them.
    let copies = "with recursive numbers(n) as (select 1 union all select n + 1 from numbers where n < 10000)
        insert into events (workspace, id, topic, source, event_id, at, depth, fanned_at, codec, data)
        select workspace, unhex(substr(hex(id), 1, 12) || hex(randomblob(10))), topic, source, n, at, depth, fanned_at,
            codec, data
        from events, numbers";
    let database = rusqlite::Connection::open(server.folder.path().join("everstep.db")).unwrap();
    assert_eq!(database.execute(copies, ()).unwrap(), 10_000);
    drop(database);
    let many = server.start_chain("many", &[looking_back("paid")]).await;
    let shown = server.wait_for(&many, "waiting").await;
    let sentence = shown["waitingFor"].as_str().unwrap();
    assert!(sentence.contains("the first 10000 events since "), "{sentence}");
    // It stays open for later events.
    publish(&server, "order.paid", &[], &json!({"order": 17})).await.is(200);
    server.wait_for(&many, "completed").await;
}
