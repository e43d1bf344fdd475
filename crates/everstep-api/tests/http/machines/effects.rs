//! Side effects of machines, as callers see them: an end before the last delivery, the kinds of steps, and the example of
//! a document that is approved, by a clock that the test moves.

use axum::http::Method;
use everstep_testkit::webhook_target::{TargetMode, WebhookTarget};
use serde_json::{Value, json};

use super::{ACT, act};
use crate::people as tokens;
use crate::support::{Server, chain, until};

const EXAMPLE: &str = include_str!("../../../../../examples/document-approval.yaml");
const HOUR: u64 = 3_600;

async fn start_run(server: &Server, name: &str) -> String {
    let started = server.post(&format!("/v1/workflows/{name}/runs"), &json!({})).await.is(201);
    format!("/v1/runs/{}", started["run"]["id"].as_str().unwrap())
}

#[tokio::test]
async fn a_machine_is_completed_while_a_delivery_hangs() {
    let (server, target) = (tokens::start().await, WebhookTarget::start());
    target.set_mode(TargetMode::Hang);
    let tell = json!([{"id": "tell", "type": "webhook", "target": target.url("/"), "timeoutSeconds": 60}]);
    let machine = json!({"states": [
        {"name": "open", "initial": true, "on": {"CLOSE": {"to": "closed"}}},
        {"name": "closed", "terminal": true, "entry": tell},
    ]});
    server.publish("tells", &machine).await;
    let run = start_run(&server, "tells").await;
    let closed = act(&server, "ann", &run, &json!({"action": "CLOSE"})).await.is(200);
    assert_eq!((&closed["nextState"], &closed["isCompleted"]), (&json!("closed"), &json!(true)), "{closed}");
    until("the webhook to hang", async || (target.count() == 1).then_some(())).await;
    let instance = run.replace("/v1/runs", "/workflow-engine/instances");
    let shown = server.get(&instance).await.is(200);
    assert_eq!((&shown["status"], &shown["state"]), (&json!("COMPLETED"), &json!("closed")), "{shown}");
    assert_eq!(shown["availableActions"], json!([]));
    assert_eq!(server.get(&run).await.is(200)["status"], "waiting", "the run ends after its last delivery");
    target.set_mode(TargetMode::Accept);
    server.wait_for(&run, "completed").await;
    assert_eq!(server.get(&instance).await.is(200)["status"], "COMPLETED");
}

#[tokio::test]
async fn a_delivery_is_shown_with_its_own_kind() {
    let (server, target) = (tokens::start().await, WebhookTarget::start());
    server.publish("works", &chain(&[])).await;
    // Ids are unique in their list: two states have a side effect `tell` each, of different kinds.
    let machine = json!({"states": [
        {"name": "open", "initial": true, "entry": [{"id": "tell", "type": "workflow", "target": "works"}],
         "on": {"CLOSE": {"to": "closed"}}},
        {"name": "closed", "terminal": true, "entry": [{"id": "tell", "type": "webhook", "target": target.url("/")}]},
    ]});
    server.publish("tells", &machine).await;
    let run = start_run(&server, "tells").await;
    act(&server, "ann", &run, &json!({"action": "CLOSE"})).await.is(200);
    server.wait_for(&run, "completed").await;
    let shown = server.get(&format!("{run}/steps")).await.is(200);
    let steps = shown["steps"].as_array().unwrap().iter();
    let kinds: Vec<_> = steps.map(|step| (step["key"].as_str().unwrap(), step["type"].as_str().unwrap())).collect();
    assert_eq!(kinds, [("@entry[1].tell", "workflow"), ("@entry[2].tell", "webhook")], "{shown}");
}

/// The subjects and recipients of the mails so far.
fn mails(target: &WebhookTarget) -> Vec<(String, Value)> {
    let mails = target.received().into_iter().map(|mail| mail.json()["data"].clone());
    mails.map(|data| (data["subject"].as_str().unwrap().to_owned(), data["recipients"].clone())).collect()
}

#[tokio::test]
async fn a_document_without_a_decision_is_escalated_and_expires() {
    let (server, clock) = tokens::start_on_clock().await;
    let target = WebhookTarget::start();
    let options = json!({"options": {"notifyUrl": target.url("/mails"), "notifySecret": "mail-signing"}});
    server.ask_as_admin(Method::PATCH, "/v1/workspaces/default", &[], &options).await.is(200);
    server.put("/v1/secrets/mail-signing", &json!({"value": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"})).await.is(201);
    let definition: Value = serde_saphyr::from_str(EXAMPLE).unwrap();
    server.publish("document-approval", &definition).await;
    let addresses = json!({"author": "eve@a.example", "reviewers": ["ann@a.example"], "manager": "mia@a.example"});
    let input = json!({"input": {
        "title": "Plan", "text": "…", "reviewers": ["ann", "bob", "cay"], "manager": "mia", "addresses": addresses,
    }});
    let author = tokens::token(&server, "eve", &["workflow:manage"]);
    let path = "/v1/workflows/document-approval/runs";
    let started = tokens::ask(&server, &author, Method::POST, path, &input).await.is(201);
    let run = format!("/v1/runs/{}", started["run"]["id"].as_str().unwrap());
    let uploader = tokens::token(&server, "eve", ACT);
    let file =
        tokens::ask(&server, &uploader, Method::POST, "/v1/files?name=plan.json", &json!("a plan")).await.is(201);
    act(&server, "eve", &run, &json!({"action": "SUBMIT", "files": [file["id"]]})).await.is(200);
    let mut expected = vec![("Please review: Plan".to_owned(), json!(["ann@a.example"]))];
    until("the first mail", async || (mails(&target) == expected).then_some(())).await;
    for _ in 0..3 {
        clock.advance(12 * HOUR);
        expected.push(("Reminder: Plan".to_owned(), json!(["ann@a.example"])));
        // The request is refused; the timer that is due is decided before it.
        act(&server, "eve", &run, &json!({"action": "SUBMIT"})).await.refuses(409, "ACTION_CLOSED");
        until("a reminder", async || (mails(&target) == expected).then_some(())).await;
    }
    clock.advance(12 * HOUR);
    // The timer fires before the request is decided: by itself, or because of the request.
    let refused = act(&server, "ann", &run, &json!({"action": "SUBMIT"})).await;
    assert_eq!((refused.status, &refused.body["state"]), (409, &json!("escalated")), "{}", refused.body);
    expected.push(("Please decide: Plan".to_owned(), json!(["mia@a.example"])));
    until("the mail to the manager", async || (mails(&target) == expected).then_some(())).await;
    clock.advance(5 * 24 * HOUR);
    assert_eq!(act(&server, "mia", &run, &json!({"action": "APPROVE"})).await.status, 409);
    server.wait_for(&run, "failed").await;
    assert_eq!(server.get(&run).await.is(200)["machine"]["state"], "expired");
    assert_eq!(mails(&target), expected);
}
