//! Workflows that events start, and runs that wait for events.

use serde_json::{Value, json};

use super::Play;

/// Publishes an event and waits for its fan-out.
fn publish(play: &Play, topic: &str, data: &Value) -> Value {
    play.client().post(&format!("/v1/topics/{topic}?waitSeconds=30"), data).is(200)
}

/// The ended runs that an event has started, by workflow.
fn runs(play: &Play, event: &Value) -> Vec<Value> {
    let client = play.client();
    let page = client.get(&format!("/v1/runs?trigger=event:{}", event["id"].as_str().unwrap())).is(200);
    let mut runs = page["runs"].as_array().unwrap().clone();
    runs.sort_by_key(|run| run["workflow"].to_string());
    runs.iter().map(|run| client.wait(&format!("/v1/runs/{}", run["id"].as_str().unwrap()))).collect()
}

/// The only run that an event starts.
pub(super) fn only_run(play: &Play, topic: &str, data: &Value) -> Value {
    let mut runs = runs(play, &publish(play, topic, data));
    assert_eq!(runs.len(), 1, "{runs:?}");
    runs.remove(0)
}

pub(super) fn onboards_every_user_that_signs_up(play: &Play, name: &str) {
    let client = play.client();
    client.post("/v1/topics/user.signup/subscriptions", &json!({"type": "workflow", "name": name})).is(201);
    let event = publish(play, "user.signup", &json!({"user": 7, "name": "Ada"}));
    let page = client.get(&format!("/v1/runs?trigger=event:{}", event["id"].as_str().unwrap())).is(200);
    let run = format!("/v1/runs/{}", page["runs"][0]["id"].as_str().unwrap());
    client.wait_for(&run, "waiting");
    assert_eq!(publish(play, "email.verified", &json!({"user": 8, "address": "b@c.d"}))["matched"]["waits"], 0);
    assert_eq!(publish(play, "email.verified", &json!({"user": 7, "address": "a@b.c"}))["matched"]["waits"], 1);
    let result = json!({"user": 7, "letter": "Welcome, Ada!", "verified": "a@b.c"});
    assert_eq!(client.wait(&run)["output"]["result"], result);
}

pub(super) fn writes_a_receipt_for_every_payment(play: &Play, _: &str) {
    let run = only_run(play, "order.paid", &json!({"order": 1, "amount": 40}));
    assert_eq!(run["output"], json!({"receipt": "Order 1: 40 received."}));
}

pub(super) fn ships_orders_of_one_country(play: &Play, _: &str) {
    let started = |country: &str| {
        let data = json!({"order": 2, "amount": 40, "country": country});
        runs(play, &publish(play, "order.paid", &data))
    };
    let workflows = |runs: &[Value]| runs.iter().map(|run| run["workflow"].to_string()).collect::<Vec<_>>();
    assert_eq!(workflows(&started("NO")), ["\"receipt\""]);
    let both = started("SE");
    assert_eq!(workflows(&both), ["\"receipt\"", "\"ship\""]);
    assert_eq!(both[1]["output"], json!({"shipped": 2, "because": "api", "event": "order.shipped"}));
    let shipped = play.client().get("/v1/events?topic=order.shipped").is(200);
    assert_eq!(shipped["events"].as_array().unwrap().len(), 1, "{shipped}");
    assert_eq!(shipped["events"][0]["source"], format!("run:{}", both[1]["id"].as_str().unwrap()));
}

pub(super) fn continues_when_it_is_paid(play: &Play, name: &str) {
    let client = play.client();
    let run = client.start(name, &json!({"input": {"order": 3}}));
    client.wait_for(&run, "waiting");
    let event = publish(play, "order.paid", &json!({"order": 3, "amount": 9, "country": "SE"}));
    assert_eq!((&event["matched"]["workflows"], &event["matched"]["waits"]), (&json!(2), &json!(1)));
    assert_eq!(client.wait(&run)["output"], json!({"status": "paid", "amount": 9}));
}
