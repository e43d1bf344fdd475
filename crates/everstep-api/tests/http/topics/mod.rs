//! Events, subscriptions, and runs that begin later.

mod cloud_events;
mod pending;
mod publish;
mod results;
mod subscriptions;
mod triggers;
mod waits;

use serde_json::{Value, json};

use crate::support::{Answer, Server, chain};

/// Saves a workflow that returns its input.
async fn save_echo(server: &Server, name: &str) {
    let mut definition = chain(&[]);
    definition["nodes"][1]["config"] =
        json!({"outputParameters": [{"name": "input", "sourceVariable": "{{ctx.input}}"}]});
    server.publish(name, &definition).await;
}

/// Subscribes a workflow to a pattern and returns the id of the subscription.
async fn subscribe(server: &Server, pattern: &str, body: &Value) -> String {
    let mut body = body.clone();
    body["type"] = json!("workflow");
    let made = server.post(&subscriptions_of(pattern), &body).await.is(201);
    made["id"].as_str().unwrap().to_owned()
}

/// The path of the subscriptions of a pattern.
fn subscriptions_of(pattern: &str) -> String {
    format!("/v1/topics/{}/subscriptions", pattern.replace('#', "%23").replace('/', "%2F"))
}

/// Publishes an event and waits for its fan-out.
async fn publish(server: &Server, topic: &str, headers: &[(&str, &str)], data: &Value) -> Answer {
    server.post_with(&format!("/v1/topics/{topic}?waitSeconds=30"), headers, data).await
}

/// The runs that an event has started, by workflow.
async fn runs_of(server: &Server, event: &Value) -> Vec<Value> {
    let event = event["id"].as_str().unwrap();
    let page = server.get(&format!("/v1/runs?trigger=event:{event}")).await.is(200);
    let mut runs = page["runs"].as_array().unwrap().clone();
    runs.sort_by_key(|run| run["workflow"].to_string());
    runs
}

/// The only run of an event, after its end.
async fn only_run(server: &Server, event: &Value) -> Value {
    let runs = runs_of(server, event).await;
    assert_eq!(runs.len(), 1, "{runs:?}");
    server.get(&format!("/v1/runs/{}?waitSeconds=30", runs[0]["id"].as_str().unwrap())).await.is(200)
}
