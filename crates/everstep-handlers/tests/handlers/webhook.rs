//! The webhook kind, against a real target.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use everstep_core::failure::Failure;
use everstep_core::ids::WorkspaceId;
use everstep_core::time::Timestamp;
use everstep_core::webhook;
use everstep_handlers::{Ports, Registry, Secrets, Task};
use everstep_net::{Client, Guard};
use everstep_testkit::webhook_target::{TargetMode, WebhookTarget};
use serde_json::{Value, json};
use zeroize::Zeroizing;

use crate::{faults, task};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

struct Safe;

#[async_trait]
impl Secrets for Safe {
    async fn reveal(&self, _: WorkspaceId, name: &str) -> Result<Zeroizing<String>, Failure> {
        match name {
            "signing" => Ok(Zeroizing::new(SECRET.to_owned())),
            "token" => Ok(Zeroizing::new("t0ken-of-the-chat".to_owned())),
            "broken" => Ok(Zeroizing::new("whsec_%".to_owned())),
            _ => Err(Failure::fatal("SECRET_NOT_FOUND", format!("the secret {name:?} does not exist"))),
        }
    }
}

async fn perform(task: Task) -> Result<Value, Failure> {
    let client = Client::new("127.0.0.1".parse::<Guard>().expect("this is a network"));
    let registry = Registry::standard(Ports { client, secrets: Arc::new(Safe), ..Ports::none() });
    let handler = registry.find_handler("webhook").expect("it is standard");
    handler.perform(task).await.result.map(|outcome| outcome.output.value().clone())
}

async fn send(config: Value, secrets: &[&str]) -> Result<Value, Failure> {
    let secrets = secrets.iter().map(|pointer| (*pointer).to_owned()).collect();
    perform(Task { secrets, written: config.clone(), ..task("webhook", config, json!({})) }).await
}

#[tokio::test]
async fn a_message_is_signed_and_has_the_same_id_in_every_attempt() {
    let target = WebhookTarget::start();
    let config = json!({
        "target": target.url("/hooks?x=1"),
        "type": "order.approved",
        "payload": {"order": 7},
        "headers": {"X-Tenant": "acme", "X-Token": {"$secret": "token"}},
        "secret": {"$secret": "signing"},
    });
    for _ in 0..2 {
        let sent = send(config.clone(), &["/secret", "/headers/X-Token"]).await;
        assert_eq!(sent.expect("it is accepted"), json!({"status": 204}));
    }
    let received = target.received();
    let (first, second) = (&received[0], &received[1]);
    assert_eq!((first.path.as_str(), first.header("content-type")), ("/hooks?x=1", "application/json"));
    assert_eq!((first.header("x-tenant"), first.header("x-token")), ("acme", "t0ken-of-the-chat"));
    assert_eq!(first.id(), second.id());
    assert_eq!(first.header("idempotency-key"), first.id());
    let body = first.json();
    assert_eq!((&body["type"], &body["data"]["payload"]), (&json!("order.approved"), &json!({"order": 7})));
    assert_eq!((&body["data"]["step"], body["timestamp"].is_string()), (&json!("step"), true));
    let seconds: i64 = first.header("webhook-timestamp").parse().expect("it is a number of seconds");
    let at = Timestamp::from_millis(seconds * 1_000);
    let expected = webhook::sign(SECRET, first.id(), at, &first.body).expect("the secret is valid");
    assert_eq!(first.header("webhook-signature"), expected);
    assert!(!String::from_utf8_lossy(&first.body).contains(SECRET));
}

#[tokio::test]
async fn a_delivery_is_sent_as_it_was_decided() {
    let target = WebhookTarget::start();
    let delivery = json!({
        "id": "0198f0a0-0000-7000-8000-000000000001",
        "type": "workflow.transition",
        "timestamp": "2026-11-18T09:00:00Z",
        "data": {"runId": "r", "payload": {"$secret": "signing"}},
    });
    let sent = send(json!({"target": target.url("/"), "timeoutSeconds": 5, "delivery": delivery}), &[]).await;
    assert_eq!(sent.expect("it is accepted"), json!({"status": 204}));
    let received = target.received().remove(0);
    assert_eq!(received.id(), delivery["id"]);
    let expected = json!({
        "type": "workflow.transition",
        "timestamp": "2026-11-18T09:00:00Z",
        "data": {"runId": "r", "payload": {"$secret": "signing"}},
    });
    assert_eq!(received.json(), expected, "a payload never reveals a secret");
    assert_eq!(received.header("webhook-signature"), "");
}

#[tokio::test]
async fn every_response_except_2xx_is_a_failure() {
    let target = WebhookTarget::start();
    let config = json!({"target": target.url("/secret/path?token=x")});
    for (mode, code, status) in [
        (TargetMode::Refuse(404), "HTTP_STATUS", Some(404)),
        (TargetMode::Refuse(302), "HTTP_STATUS", Some(302)),
        (TargetMode::Refuse(500), "HTTP_STATUS", Some(500)),
        (TargetMode::HeadOnly(503), "HTTP_STATUS", Some(503)),
        (TargetMode::CutOff, "HTTP_ERROR", None),
    ] {
        target.set_mode(mode);
        let failure = send(config.clone(), &[]).await.expect_err("it is refused");
        assert_eq!((failure.code.as_str(), failure.retryable), (code, true), "{mode:?}: {failure}");
        assert_eq!(failure.status, status, "{mode:?}: {failure}");
        assert!(!failure.message.contains("token"), "{failure}");
    }
    target.set_mode(TargetMode::HeadOnly(200));
    let outcome = send(config.clone(), &[]).await.expect("its status is 2xx");
    assert_eq!(outcome, json!({"status": 200}));
    target.set_mode(TargetMode::Hang);
    let hung = Task { timeout: Duration::from_millis(200), ..task("webhook", config, json!({})) };
    assert_eq!(perform(hung).await.expect_err("it does not answer").code, "STEP_TIMEOUT");
    let refused = send(json!({"target": "http://127.0.0.9/"}), &[]).await.expect_err("the address is private");
    assert_eq!(refused.code, "ADDRESS_REFUSED");
    let broken = send(json!({"target": target.url("/"), "secret": {"$secret": "broken"}}), &["/secret"]).await;
    assert_eq!(broken.expect_err("the secret is not base64").code, "WEBHOOK_SECRET_INVALID");
}

#[tokio::test]
async fn a_secret_in_a_header_is_sent_only_to_the_host_of_the_definition() {
    let target = WebhookTarget::start();
    let config = json!({"target": target.url("/"), "headers": {"x-token": {"$secret": "token"}}});
    let secrets = vec!["/headers/x-token".to_owned()];
    let written = json!({"target": "{{ctx.url}}", "headers": {"x-token": {"$secret": "token"}}});
    let task = Task { secrets, written, ..task("webhook", config, json!({})) };
    assert_eq!(perform(task).await.expect_err("the host is computed").code, "INVALID_CONFIG");
    assert_eq!(target.count(), 0);
}

#[test]
fn errors_in_a_config_are_found_when_it_is_saved() {
    for (config, fault) in [
        (json!({}), "target"),
        (json!({"target": "ftp://a.example"}), "/target: `target` must begin with"),
        (json!({"target": "https://u:p@a.example"}), "/target: `target` must not contain credentials"),
        (json!({"target": "https://a.example", "headers": {"Webhook-Id": "x"}}), "/headers/Webhook-Id"),
        (
            json!({"target": "https://{{ctx.x}}/", "headers": {"x": {"$secret": "a"}}}),
            "/target: a webhook with a secret",
        ),
        (json!({"target": "https://a.example", "timeoutSeconds": 61}), "/timeoutSeconds"),
        (json!({"target": "https://a.example", "delivery": {}}), "delivery"),
    ] {
        let found = faults("webhook", &config);
        assert!(found.iter().any(|found| found.contains(fault)), "{config}: {found:?}");
    }
    assert_eq!(faults("webhook", &json!({"target": "{{ctx.url}}", "payload": {"$expr": "ctx.x"}})), [""; 0]);
    let encoded = BASE64_STANDARD.encode("a secret");
    assert_eq!(faults("webhook", &json!({"target": "https://a.example/{{ctx.x}}", "secret": encoded})), [""; 0]);
}
