//! Secrets: they can be written, and never read.

use everstep_core::ids::WorkspaceId;
use serde_json::{Value, json};

use crate::support::Server;

#[tokio::test]
async fn a_secret_is_set_listed_by_name_and_deleted() {
    let server = Server::start().await;
    let set = server.put("/v1/secrets/stripe-key", &json!({"value": "sk_live_1"})).await.is(201);
    assert_eq!(set.as_object().unwrap().keys().collect::<Vec<_>>(), ["name", "createdAt", "updatedAt"]);
    let again = server.put("/v1/secrets/stripe-key", &json!({"value": "sk_live_2"})).await.is(200);
    assert_eq!(again["createdAt"], set["createdAt"]);
    assert_eq!(*server.vault.open(WorkspaceId::DEFAULT, "stripe-key").await.unwrap(), "sk_live_2");
    server.put("/v1/secrets/a.first", &json!({"value": "x"})).await.is(201);

    let listed = server.get("/v1/secrets").await.is(200);
    let names: Vec<_> = listed["secrets"].as_array().unwrap().iter().map(|one| one["name"].clone()).collect();
    assert_eq!(names, ["a.first", "stripe-key"]);
    assert!(!listed.to_string().contains("sk_live"), "{listed}");
    let page = server.get("/v1/secrets?limit=1").await.is(200);
    assert_eq!(page["nextCursor"], "a.first");
    let page = server.get("/v1/secrets?limit=1&cursor=a.first").await.is(200);
    assert_eq!((&page["secrets"][0]["name"], &page["nextCursor"]), (&json!("stripe-key"), &Value::Null));

    let gone = server.delete("/v1/secrets/stripe-key").await;
    assert_eq!((gone.status, gone.body), (204, Value::Null));
    server.delete("/v1/secrets/stripe-key").await.refuses(404, "NOT_FOUND");
    // There is no route to read one.
    server.get("/v1/secrets/a.first").await.refuses(405, "METHOD_NOT_ALLOWED");
}

#[tokio::test]
async fn an_invalid_secret_is_rejected_and_not_repeated() {
    let server = Server::start().await;
    for (name, value) in [
        ("-x", json!({"value": "sesame"})),
        ("a%20b", json!({"value": "sesame"})),
        (&*"x".repeat(129), json!({"value": "sesame"})),
        ("x", json!({"value": ""})),
        ("x", json!({"value": format!("sesame{}", "x".repeat(65_536))})),
        ("x", json!({"value": 5})),
        ("x", json!({"value": "sesame", "note": "x"})),
        ("x", json!({})),
    ] {
        let answer = server.put(&format!("/v1/secrets/{name}"), &value).await;
        let problem = answer.refuses(400, "VALIDATION_ERROR");
        assert!(!problem.to_string().contains("sesame"), "{problem}");
    }
    let large = json!({"value": "x".repeat(500_000)});
    server.put("/v1/secrets/x", &large).await.refuses(413, "PAYLOAD_TOO_LARGE");
    // The maximum size, with each character written as six.
    let wide = format!("{{\"value\": \"{}\"}}", "\\u0001".repeat(65_536));
    let value: Value = serde_json::from_str(&wide).unwrap();
    server.put("/v1/secrets/wide", &value).await.is(201);
    assert_eq!(server.get("/v1/secrets").await.is(200)["secrets"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn without_a_key_nothing_is_stored_and_the_remedy_is_shown() {
    let server = Server::without_secrets_key().await;
    let problem = server.put("/v1/secrets/x", &json!({"value": "sesame"})).await.refuses(409, "SECRETS_KEY_MISSING");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("EVERSTEP_SECRETS_KEY=$(everstep secrets key)"), "{detail}");
    assert_eq!(server.get("/v1/secrets").await.is(200)["secrets"], json!([]));
}
