//! More work than a server can do.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::neighbours::attack::Attack;
use crate::neighbours::site::chain;

/// Runs of one request.
const BATCH_RUNS: usize = 1_000;
/// More than a node has in memory.
const BATCHES: usize = 6;
/// Connections that send batches: together more runs than a node has places for starts.
const BATCH_CLIENTS: usize = 12;
const KEYS: usize = 60;
/// Writes of one transaction.
const TRANSACTION_WRITES: usize = 64;
const SUBSCRIPTIONS: usize = 1_000;
/// Subscriptions that accept an event.
const MATCHES: usize = 10;
/// Subscriptions with an expression, and the bytes of the data that they read.
const LARGE_EVENT_SUBSCRIPTIONS: usize = 500;
const LARGE_EVENT_BYTES: usize = 900_000;
/// The time between two large events.
const LARGE_EVENT_PAUSE: Duration = Duration::from_millis(20);
/// Events of one request.
const BATCH_EVENTS: usize = 1_000;

/// Runs that wait, but not for so long that they leave memory.
pub(crate) async fn start_runs(attack: Attack) -> anyhow::Result<()> {
    let node = json!({"id": "wait", "type": "delay", "config": {"delaySeconds": 25}});
    attack.save("waits", &chain(&[node])).await?;
    let batch = json!({"runs": vec![json!({}); BATCH_RUNS]});
    for _ in 0..BATCHES {
        attack.prepare("POST", "/v1/workflows/waits/runs/batch", &batch).await?;
    }
    let request: Arc<[u8]> = attack.post("/v1/workflows/waits/runs/batch", &batch.to_string()).into();
    attack.begin();
    attack.keep_sending(1, Duration::from_millis(500), move |_, _| Arc::clone(&request)).await;
    Ok(())
}

/// More starts at the same time than a node has places for, on several connections.
pub(crate) async fn start_batches(attack: Attack) -> anyhow::Result<()> {
    attack.save("quick", &chain(&[json!({"id": "work", "type": "noop"})])).await?;
    let batch = json!({"runs": vec![json!({}); BATCH_RUNS]});
    let request: Arc<[u8]> = attack.post("/v1/workflows/quick/runs/batch", &batch.to_string()).into();
    attack.begin();
    attack.keep_sending(BATCH_CLIENTS, Duration::ZERO, move |_, _| Arc::clone(&request)).await;
    Ok(())
}

/// A connection per API key, which starts and lists runs.
pub(crate) async fn use_many_keys(attack: Attack) -> anyhow::Result<()> {
    attack.save("quick", &chain(&[json!({"id": "work", "type": "noop"})])).await?;
    let mut requests: Vec<[Arc<[u8]>; 2]> = Vec::new();
    for _ in 0..KEYS {
        let holder = attack.with_role("operator").await?;
        requests.push([holder.post("/v1/workflows/quick/runs", "{}").into(), holder.get("/v1/runs?limit=100").into()]);
    }
    attack.begin();
    attack.keep_sending(KEYS, Duration::ZERO, move |client, n| Arc::clone(&requests[client][n % 2])).await;
    Ok(())
}

/// Transactions with many ops on one record.
pub(crate) async fn write_one_record(attack: Attack) -> anyhow::Result<()> {
    let writes = vec![json!({"increment": {"key": "one", "by": 1}}); TRANSACTION_WRITES];
    let transaction = json!({ "writes": writes });
    attack.prepare("POST", "/v1/namespaces/busy/transact", &transaction).await?;
    let requests: [Arc<[u8]>; 2] = [
        attack.post("/v1/namespaces/busy/transact", &transaction.to_string()).into(),
        attack.post("/v1/store/busy/one/increment", "{}").into(),
    ];
    attack.begin();
    attack.keep_sending(16, Duration::ZERO, move |client, _| Arc::clone(&requests[client % 2])).await;
    Ok(())
}

/// Events for many subscriptions, a part of which starts runs.
pub(crate) async fn publish_events(attack: Attack) -> anyhow::Result<()> {
    attack.save("reacts", &chain(&[json!({"id": "work", "type": "noop"})])).await?;
    let mut connection = attack.connect().await?;
    for n in 0..SUBSCRIPTIONS {
        let filter = json!({"group": n / MATCHES});
        let body = json!({"type": "workflow", "name": "reacts", "filter": filter}).to_string();
        let answer = connection.ask(&attack.post("/v1/topics/bad.news/subscriptions", &body)).await?;
        anyhow::ensure!(answer.status == 201, "no subscription: {} {}", answer.status, answer.body);
    }
    let event = |n: usize| json!({"topic": "bad.news", "data": {"group": n % (SUBSCRIPTIONS / MATCHES)}});
    let events: Vec<Value> = (0..BATCH_EVENTS).map(event).collect();
    let request: Arc<[u8]> = attack.post("/v1/events", &json!({ "events": events }).to_string()).into();
    attack.begin();
    attack.keep_sending(4, Duration::ZERO, move |_, _| Arc::clone(&request)).await;
    Ok(())
}

/// Events near the maximum of their data, for subscriptions whose expressions read a small part of it and match none.
pub(crate) async fn publish_large_events(attack: Attack) -> anyhow::Result<()> {
    attack.save("reacts", &chain(&[json!({"id": "work", "type": "noop"})])).await?;
    let mut connection = attack.connect().await?;
    for n in 0..LARGE_EVENT_SUBSCRIPTIONS {
        let filter = json!({"$expr": format!("event.data.group == {}", n + 1)});
        let body = json!({"type": "workflow", "name": "reacts", "filter": filter}).to_string();
        let answer = connection.ask(&attack.post("/v1/topics/large.news/subscriptions", &body)).await?;
        anyhow::ensure!(answer.status == 201, "no subscription: {} {}", answer.status, answer.body);
    }
    // Many small values are more costly to copy than one long text.
    let values = vec!["0123456789"; LARGE_EVENT_BYTES / 13];
    let data = json!({"group": 0, "values": values}).to_string();
    let request: Arc<[u8]> = attack.post("/v1/topics/large.news", &data).into();
    attack.begin();
    attack.keep_sending(2, LARGE_EVENT_PAUSE, move |_, _| Arc::clone(&request)).await;
    Ok(())
}

/// Actions in one run, whose journal grows.
pub(crate) async fn act_in_one_run(attack: Attack) -> anyhow::Result<()> {
    let states = json!([
        {"name": "ping", "initial": true, "on": {"GO": {"to": "pong"}}},
        {"name": "pong", "on": {"GO": {"to": "ping"}}},
    ]);
    attack.save("ping-pong", &json!({ "states": states })).await?;
    let run = attack.start("ping-pong", &json!({})).await?;
    let request: Arc<[u8]> = attack.post(&format!("/v1/runs/{run}/transitions"), r#"{"action": "GO"}"#).into();
    attack.begin();
    attack.keep_sending(32, Duration::ZERO, move |_, _| Arc::clone(&request)).await;
    Ok(())
}
