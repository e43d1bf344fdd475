//! Triggers of definitions.

use axum::http::Method;
use serde_json::{Value, json};

use super::{only_run, publish, save_echo, subscriptions_of};
use crate::support::{Server, chain};

/// A workflow with triggers that returns its input.
fn triggered(triggers: &Value) -> Value {
    let mut definition = chain(&[]);
    definition["nodes"][1]["config"] =
        json!({"outputParameters": [{"name": "input", "sourceVariable": "{{ctx.input}}"}]});
    definition["triggers"] = triggers.clone();
    definition
}

async fn patterns(server: &Server) -> Vec<String> {
    let page = server.get("/v1/subscriptions").await.is(200);
    let mut patterns: Vec<_> = page["subscriptions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|subscription| subscription["pattern"].as_str().unwrap().to_owned())
        .collect();
    patterns.sort();
    patterns
}

#[tokio::test]
async fn the_triggers_of_the_active_version_are_in_force() {
    let server = Server::start().await;
    server.publish("flow", &triggered(&json!([{"type": "event", "topic": "a.*"}, {"type": "manual"}]))).await;
    assert_eq!(patterns(&server).await, ["a.*"]);
    let event = publish(&server, "a.b", &[], &json!({"n": 1})).await.is(200);
    let run = only_run(&server, &event).await;
    assert_eq!((&run["workflowVersion"], &run["output"]["input"]), (&json!(1), &json!({"n": 1})));

    let two = json!([{"type": "event", "topic": "b"}, {"type": "event", "eventName": "c", "match": {"n": 2},
        "payloadMapping": {"mapped": {"$expr": "payload.n"}}}]);
    server.publish("flow", &triggered(&two)).await;
    assert_eq!(patterns(&server).await, ["b", "c"]);
    assert_eq!(publish(&server, "a.b", &[], &json!(1)).await.is(200)["matched"]["workflows"], 0);
    assert_eq!(publish(&server, "c", &[], &json!({"n": 1})).await.is(200)["matched"]["workflows"], 0);
    let event = publish(&server, "c", &[], &json!({"n": 2})).await.is(200);
    let run = only_run(&server, &event).await;
    assert_eq!((&run["workflowVersion"], &run["output"]["input"]), (&json!(2), &json!({"mapped": 2})));

    server.post("/v1/workflows/flow/activate", &json!({"version": 1})).await.is(200);
    assert_eq!(patterns(&server).await, ["a.*"]);
    let saved =
        server.put("/v1/workflows/flow?activate=false", &triggered(&json!([{"type": "event", "topic": "d"}]))).await;
    saved.is(200);
    assert_eq!(patterns(&server).await, ["a.*"], "a version that is not active has no triggers in force");
    assert_eq!(server.delete("/v1/workflows/flow").await.status, 204);
    assert!(patterns(&server).await.is_empty());
}

#[tokio::test]
async fn expressions_read_the_trigger_of_their_run() {
    let server = Server::start().await;
    let mut definition = triggered(&json!([{"type": "event", "topic": "a.*"}]));
    let parameter = |name: &str, source: &str| json!({"name": name, "sourceVariable": source});
    let parameters = [
        parameter("topic", "{{meta.trigger.topic}}"),
        parameter("id", "{{meta.trigger.id}}"),
        parameter("all", "{{meta.trigger}}"),
    ];
    definition["nodes"][1]["config"] = json!({"outputParameters": parameters});
    server.publish("flow", &definition).await;
    let event = publish(&server, "a.b", &[("event-source", "shop")], &json!({})).await.is(200);
    let output = only_run(&server, &event).await["output"].clone();
    assert_eq!((&output["topic"], &output["id"]), (&json!("a.b"), &event["id"]), "{output}");
    assert_eq!((&output["all"]["type"], &output["all"]["source"]), (&json!("event"), &json!("shop")), "{output}");
    // A run that a caller has started has none.
    let started = server.post("/v1/workflows/flow/runs?waitSeconds=30", &json!({})).await.is(201);
    assert_eq!(started["run"]["output"]["all"], Value::Null, "{started}");
}

#[tokio::test]
async fn a_trigger_belongs_to_its_definition() {
    let server = Server::start().await;
    let definition = triggered(&json!([{"type": "event", "topic": "a"}]));
    server.publish("flow", &definition).await;
    let page = server.get(&subscriptions_of("a")).await.is(200);
    let trigger = &page["subscriptions"][0];
    assert_eq!(
        (&trigger["origin"], &trigger["name"], &trigger["version"]),
        (&json!("workflow"), &json!("flow"), &Value::Null)
    );
    let path = format!("/v1/subscriptions/{}", trigger["id"].as_str().unwrap());
    let problem = server.delete(&path).await.refuses(409, "OWNED_BY_WORKFLOW");
    assert_eq!(problem["workflow"], "flow");
    let problem = server.ask_as_admin(Method::PATCH, &path, &[], &json!({"filter": {"a": 1}})).await;
    problem.refuses(409, "OWNED_BY_WORKFLOW");
    // A pause survives a version that keeps the trigger.
    assert!(server.post(&format!("{path}/pause"), &Value::Null).await.is(200)["pausedAt"].is_string());
    let mut other = triggered(&json!([{"type": "event", "topic": "a"}, {"type": "event", "topic": "b"}]));
    other["description"] = json!("another version");
    server.publish("flow", &other).await;
    let page = server.get("/v1/subscriptions").await.is(200);
    let paused: Vec<_> = page["subscriptions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["pattern"].clone(), row["pausedAt"].is_string()))
        .collect();
    assert!(paused.contains(&(json!("a"), true)) && paused.contains(&(json!("b"), false)), "{page}");
    assert_eq!(publish(&server, "a", &[], &json!(1)).await.is(200)["matched"]["workflows"], 0);
    assert_eq!(publish(&server, "b", &[], &json!(1)).await.is(200)["matched"]["workflows"], 1);
}

#[tokio::test]
async fn a_trigger_that_is_not_valid_is_a_problem_of_its_definition() {
    let server = Server::start().await;
    for (trigger, path) in [
        (json!({"type": "event"}), "/triggers/0/topic"),
        (json!({"type": "event", "topic": "a..b"}), "/triggers/0/topic"),
        (json!({"type": "event", "topic": "a", "match": []}), "/triggers/0/match"),
        (json!({"type": "event", "topic": "a", "match": {"$expr": "ctx.x"}}), "/triggers/0/match/$expr"),
        (json!({"type": "event", "topic": "a", "colour": 1}), "/triggers/0/colour"),
        (json!({"type": "schedule", "cron": "* * * * *"}), "/triggers/0/type"),
        (json!({"type": "webhook"}), "/triggers/0/type"),
    ] {
        let answer = server.put("/v1/workflows/flow", &triggered(&json!([trigger]))).await;
        let problem = answer.refuses(422, "VALIDATION_ERROR");
        let paths: Vec<_> =
            problem["problems"].as_array().unwrap().iter().map(|one| one["path"].as_str().unwrap()).collect();
        assert!(paths.contains(&path), "{trigger}: {problem}");
    }
    let many: Vec<_> = (0..21).map(|n| json!({"type": "event", "topic": format!("t{n}")})).collect();
    server.put("/v1/workflows/flow", &triggered(&json!(many))).await.refuses(422, "VALIDATION_ERROR");
    server.put("/v1/workflows/flow", &triggered(&json!(many[..20]))).await.is(201);
    assert_eq!(patterns(&server).await.len(), 20);
}

#[tokio::test]
async fn a_machine_is_started_by_its_trigger() {
    let server = Server::start().await;
    save_echo(&server, "other").await;
    let machine = json!({
        "trigger": {"type": "event", "topic": "expense.filed"},
        "start": {"require": {"user": ["ann"]}},
        "states": [
            {"name": "review", "initial": true, "on": {"CLOSE": {"to": "closed"}}},
            {"name": "closed", "terminal": true},
        ],
    });
    server.publish("expense", &machine).await;
    let event = publish(&server, "expense.filed", &[], &json!({"amount": 20})).await.is(200);
    let runs = super::runs_of(&server, &event).await;
    assert_eq!(runs.len(), 1, "{event}");
    let path = format!("/v1/runs/{}", runs[0]["id"].as_str().unwrap());
    let run = server.wait_for(&path, "waiting").await;
    assert_eq!((&run["machine"]["state"], &run["input"]), (&json!("review"), &json!({"amount": 20})));
    let history = server.get(&format!("{path}/history")).await.is(200);
    assert_eq!(history["entries"][0]["by"], json!({"kind": "system", "id": "@trigger"}), "{history}");
}
