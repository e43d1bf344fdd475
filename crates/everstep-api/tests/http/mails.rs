//! Mails: the options of a workspace, and definitions that send mails.

use axum::http::Method;
use everstep_testkit::webhook_target::WebhookTarget;
use serde_json::{Value, json};

use crate::support::{Answer, Server, chain};

const PROBLEM: &str = "NOTIFY_NOT_CONFIGURED";

fn machine() -> Value {
    let mail = json!({"type": "notify", "target": "ann", "template": {"subject": "Done", "text": "{{ctx.n}}"}});
    json!({"states": [
        {"name": "open", "initial": true, "on": {"CLOSE": {"to": "closed", "events": [mail]}},
         "after": [{"every": "1d", "times": 2, "events": [mail]}]},
        {"name": "closed", "terminal": true},
    ]})
}

fn graph() -> Value {
    let config = json!({"target": "ann", "template": {"subject": "Done", "text": "x"}});
    chain(&[json!({"id": "tell", "type": "notify", "config": config})])
}

async fn set(server: &Server, options: Value) -> Answer {
    server.ask_as_admin(Method::PATCH, "/v1/workspaces/default", &[], &json!({"options": options})).await
}

#[tokio::test]
async fn a_definition_that_sends_mails_needs_a_way_to_send_them() {
    let server = Server::start().await;
    let refused = server.put("/v1/workflows/review", &machine()).await.refuses(422, "VALIDATION_ERROR");
    let found: Vec<_> =
        refused["problems"].as_array().unwrap().iter().map(|one| (&one["code"], &one["path"])).collect();
    assert_eq!(
        found,
        [
            (&json!(PROBLEM), &json!("/states/0/on/CLOSE/events/0")),
            (&json!(PROBLEM), &json!("/states/0/after/0/events/0"))
        ]
    );
    assert!(refused["problems"][0]["hint"].as_str().unwrap().contains("EVERSTEP_SMTP_URL"), "{refused}");
    let refused = server.put("/v1/workflows/tell", &graph()).await.refuses(422, "VALIDATION_ERROR");
    let problem = &refused["problems"][0];
    assert_eq!(
        (&problem["code"], &problem["node"], &problem["path"]),
        (&json!(PROBLEM), &json!("tell"), &json!("/nodes/1"))
    );
    let checked = server.post("/v1/workflows/validate", &machine()).await.is(200);
    assert_eq!((&checked["valid"], &checked["problems"][0]["code"]), (&json!(false), &json!(PROBLEM)));

    set(&server, json!({"notifyUrl": "https://mail.example.com/hooks", "notifySecret": "mail-signing"})).await.is(200);
    server.put("/v1/workflows/review", &machine()).await.is(201);
    server.put("/v1/workflows/tell", &graph()).await.is(201);
    assert_eq!(server.post("/v1/workflows/validate", &machine()).await.is(200)["valid"], true);
    // Another workspace has no address.
    let made = server.post("/v1/workspaces", &json!({"name": "shop"})).await.is(201);
    let admin = made["secret"].as_str().unwrap();
    server.ask_as(admin, Method::PUT, "/v1/workflows/tell", &graph()).await.refuses(422, "VALIDATION_ERROR");
}

#[tokio::test]
async fn the_address_for_mails_is_an_option_of_a_workspace() {
    let server = Server::start().await;
    let url = "https://mail.example.com/hooks?team=7";
    for (options, part) in [
        (json!({"notifyUrl": url}), "needs options.notifySecret"),
        (json!({"notifySecret": "mail-signing"}), "no effect without options.notifyUrl"),
        (json!({"notifyUrl": "mail.example.com", "notifySecret": "a"}), "http:// or https://"),
        (json!({"notifyUrl": "ftp://mail.example.com", "notifySecret": "a"}), "http:// or https://"),
        (json!({"notifyUrl": "https://ann:pw@mail.example.com", "notifySecret": "a"}), "a user and a password"),
        (json!({"notifyUrl": url, "notifySecret": "a b"}), "name of a secret"),
        (json!({"notifyUrl": 5}), "expected a string"),
    ] {
        let refused = set(&server, options.clone()).await.refuses(400, "VALIDATION_ERROR");
        assert!(refused["detail"].as_str().unwrap().contains(part), "{options}: {refused}");
        let made = json!({"name": "shop", "options": options});
        server.post("/v1/workspaces", &made).await.refuses(400, "VALIDATION_ERROR");
    }
    let both = json!({"fetch": false, "roles": {}, "notifyUrl": url, "notifySecret": "mail-signing"});
    let changed = set(&server, json!({"notifyUrl": url, "notifySecret": "mail-signing"})).await.is(200);
    assert_eq!(changed["options"], both);
    assert_eq!(set(&server, json!({"roles": {}})).await.is(200)["options"], both);
    set(&server, json!({"notifySecret": null})).await.refuses(400, "VALIDATION_ERROR");
    let removed = set(&server, json!({"notifyUrl": null})).await.is(200);
    assert_eq!(removed["options"], json!({"fetch": false, "roles": {}}));
    let made = json!({"name": "shop", "options": {"notifyUrl": url, "notifySecret": "mail-signing"}});
    assert_eq!(server.post("/v1/workspaces", &made).await.is(201)["workspace"]["options"], both);
}

#[tokio::test]
async fn a_node_of_a_graph_sends_a_mail() {
    let (server, target) = (Server::start().await, WebhookTarget::start());
    set(&server, json!({"notifyUrl": target.url("/mails"), "notifySecret": "mail-signing"})).await.is(200);
    server.put("/v1/secrets/mail-signing", &json!({"value": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"})).await.is(201);
    let config = json!({
        "target": ["{{ctx.input.to}}", "bob"],
        "template": {"subject": "Order {{ctx.input.n}}", "text": "{{ctx.input.n}}"},
    });
    let definition = chain(&[json!({"id": "tell", "type": "notify", "config": config})]);
    server.put("/v1/workflows/tell", &definition).await.is(201);
    let input = json!({"input": {"to": ["ann", "cay"], "n": 7}});
    let started = server.post("/v1/workflows/tell/runs", &input).await.is(201);
    server.wait_for(&format!("/v1/runs/{}", started["run"]["id"].as_str().unwrap()), "completed").await;
    let received = target.received().remove(0);
    let data = received.json()["data"].clone();
    assert_eq!(
        (&data["recipients"], &data["subject"], &data["text"]),
        (&json!(["ann", "cay", "bob"]), &json!("Order 7"), &json!("7"))
    );
    assert!(received.header("webhook-signature").starts_with("v1,"));
}
