//! One-time links: a browser exchanges a code for a key of its own.

use std::io::Read;
use std::time::Duration;

use axum::http::Method;
use everstep_api::auth::{ApiKey, Permission};
use everstep_core::ids::WorkspaceId;
use everstep_core::time::Timestamp;
use everstep_engine::NodeClock;
use everstep_store::KeyRow;
use flate2::read::GzDecoder;
use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::people;
use crate::support::{Answer, Server, until};

async fn code(server: &Server, key: &str) -> String {
    let made = server.ask_as(key, Method::POST, "/v1/sign-in-codes", &Value::Null).await.is(201);
    made["code"].as_str().unwrap().to_owned()
}

async fn use_code(server: &Server, code: &str) -> Answer {
    server.ask(Method::POST, "/v1/sign-ins", &[], &json!({"code": code}).to_string()).await
}

async fn add_key(server: &Server, change: impl FnOnce(KeyRow) -> KeyRow) -> (String, KeyRow) {
    let (secret, now) = (ApiKey::generate(), NodeClock::system().now());
    let permissions = [Permission::View, Permission::Manage];
    let row = change(secret.row(WorkspaceId::DEFAULT, "ops desk", &permissions, now));
    server.access.add_key(&row).await.unwrap();
    (secret.reveal().to_owned(), row)
}

/// Waits for the audit rows of an action.
async fn audited(server: &Server, action: &str) -> Vec<Value> {
    until("the audit row", async || {
        let rows = server.get("/v1/audit").await.is(200)["entries"].as_array().unwrap().clone();
        let rows: Vec<_> = rows.into_iter().filter(|row| row["action"] == action).collect();
        (!rows.is_empty()).then_some(rows)
    })
    .await
}

fn time(text: &Value) -> Timestamp {
    text.as_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_code_becomes_a_key_with_the_same_permissions() {
    let server = Server::start().await;
    let (key, maker) = add_key(&server, |row| KeyRow { rate_limit: Some(50), ..row }).await;
    let made = server.ask_as(&key, Method::POST, "/v1/sign-in-codes", &json!({})).await.is(201);
    assert!(made["code"].as_str().unwrap().starts_with("esc_"), "{made}");
    let before = NodeClock::system().now();
    assert!((50.0..61.0).contains(&time(&made["expiresAt"]).since(before).as_secs_f64()), "{made}");

    let signed_in = use_code(&server, made["code"].as_str().unwrap()).await.is(201);
    assert_eq!(signed_in["name"], "console: ops desk");
    let life = time(&signed_in["expiresAt"]).since(before).as_secs_f64();
    assert!((12.0 * 3_600.0 - 5.0..12.0 * 3_600.0 + 5.0).contains(&life), "{signed_in}");
    let own = signed_in["key"].as_str().unwrap();
    let me = server.ask_as(own, Method::GET, "/v1/me", &Value::Null).await.is(200);
    assert_eq!((&me["key"]["name"], &me["key"]["rateLimit"]), (&json!("console: ops desk"), &json!(50)));
    assert_eq!(me["permissions"], json!(["workflow:view", "workflow:act", "workflow:manage"]));
    let listed = server.get("/v1/keys?limit=500").await.is(200);
    assert!(listed["keys"].as_array().unwrap().iter().any(|key| key["id"] == me["key"]["id"]), "{listed}");

    let row = audited(&server, "POST /v1/sign-ins").await.remove(0);
    assert_eq!((&row["actor"], &row["details"]["key"]), (&json!(format!("key:{}", maker.id)), &me["key"]["id"]));
}

#[tokio::test]
async fn a_code_is_used_once() {
    let server = Server::start().await;
    let (key, _) = add_key(&server, |row| row).await;
    let code = code(&server, &key).await;
    let sent: Vec<_> = (0..20).map(|_| use_code(&server, &code)).collect();
    let statuses: Vec<_> = futures_util::future::join_all(sent).await.into_iter().map(|answer| answer.status).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 201).count(), 1, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 409).count(), 19, "{statuses:?}");
    use_code(&server, &code).await.refuses(409, "CODE_USED");
}

#[tokio::test]
async fn an_old_or_forged_code_is_refused() {
    let (server, clock) = people::start_on_clock().await;
    let (key, _) = add_key(&server, |row| row).await;
    let code = code(&server, &key).await;
    let other = if code.as_bytes()[10] == b'A' { 'B' } else { 'A' };
    let forged = format!("{}{other}{}", &code[..10], &code[11..]);
    for wrong in ["", "esc_", &forged, &key] {
        use_code(&server, wrong).await.refuses(401, "AUTH_ERROR");
    }
    clock.advance(61);
    use_code(&server, &code).await.refuses(401, "AUTH_ERROR");
    for body in [json!({}), json!({"code": 1}), json!({"code": code, "name": "x"})] {
        server.ask(Method::POST, "/v1/sign-ins", &[], &body.to_string()).await.refuses(400, "VALIDATION_ERROR");
    }
}

#[tokio::test]
async fn a_key_of_a_link_ends_with_its_maker() {
    let server = Server::start().await;
    let end = NodeClock::system().now().plus(Duration::from_secs(3_600));
    let (short, _) = add_key(&server, |row| KeyRow { expires_at: Some(end), ..row }).await;
    let signed_in = use_code(&server, &code(&server, &short).await).await.is(201);
    assert_eq!(time(&signed_in["expiresAt"]).millis(), end.millis());

    let (key, row) = add_key(&server, |row| row).await;
    let unused = code(&server, &key).await;
    server.delete(&format!("/v1/keys/{}", row.id)).await.is(200);
    use_code(&server, &unused).await.refuses(401, "AUTH_ERROR");
}

#[tokio::test]
async fn signing_out_revokes_the_key_of_a_link_alone() {
    let server = Server::start().await;
    let (key, _) = add_key(&server, |row| row).await;
    let signed_in = use_code(&server, &code(&server, &key).await).await.is(201);
    let own = signed_in["key"].as_str().unwrap();
    server.ask_as(&key, Method::DELETE, "/v1/sign-ins/current", &Value::Null).await.refuses(409, "NOT_A_SIGN_IN");
    assert_eq!(server.ask_as(own, Method::DELETE, "/v1/sign-ins/current", &Value::Null).await.status, 204);
    server.ask_as(own, Method::GET, "/v1/me", &Value::Null).await.refuses(401, "AUTH_ERROR");
    server.ask_as(&key, Method::GET, "/v1/me", &Value::Null).await.is(200);
}

#[tokio::test]
async fn the_last_admin_key_is_not_replaced_by_that_of_a_link() {
    let server = Server::start().await;
    let keys = server.get("/v1/keys?limit=500").await.is(200);
    let admin = keys["keys"][0]["id"].as_str().unwrap().to_owned();
    let code = server.post("/v1/sign-in-codes", &Value::Null).await.is(201)["code"].as_str().unwrap().to_owned();
    let signed_in = use_code(&server, &code).await.is(201);
    let own = signed_in["key"].as_str().unwrap();
    let answer = server.ask_as(own, Method::DELETE, &format!("/v1/keys/{admin}"), &Value::Null).await;
    answer.refuses(409, "LAST_ADMIN_KEY");
}

#[tokio::test]
async fn a_person_makes_no_code() {
    let server = people::start().await;
    let bearer = format!("Bearer {}", people::token(&server, "ann", &["workflow:view"]));
    let headers = [("authorization", &*bearer)];
    let problem = server.ask(Method::POST, "/v1/sign-in-codes", &headers, "").await.refuses(403, "PERMISSION_DENIED");
    assert!(problem["hint"].as_str().unwrap().contains("token"), "{problem}");
}

#[tokio::test]
async fn a_code_in_a_query_string_is_refused() {
    let server = Server::start().await;
    let (key, _) = add_key(&server, |row| row).await;
    let code = code(&server, &key).await;
    let problem = server.get(&format!("/v1/runs?input.x={code}")).await.refuses(401, "AUTH_ERROR");
    assert!(problem["detail"].as_str().unwrap().contains("query string"), "{problem}");
}

#[tokio::test]
async fn the_caller_learns_what_the_server_can_do() {
    let server = Server::start().await;
    let me = server.get("/v1/me").await.is(200);
    assert_eq!(me["features"], json!(["graph", "code", "machine", "store", "topics", "deadLetters"]));
    assert_eq!(me["server"], json!({"version": env!("CARGO_PKG_VERSION"), "store": "sqlite", "nodes": 1}));
}

#[tokio::test]
async fn tickets_leave_no_rows_in_the_audit() {
    let server = Server::start().await;
    for _ in 0..3 {
        server.post("/v1/tickets", &Value::Null).await.is(201);
    }
    // Rows are written in their order.
    server.post("/v1/sign-in-codes", &Value::Null).await.is(201);
    audited(&server, "POST /v1/sign-in-codes").await;
    assert_eq!(server.get("/v1/audit").await.is(200)["entries"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn large_json_is_compressed_for_clients_that_accept_it() {
    let server = Server::start().await;
    let plain = server.get("/v1/openapi.json").await;
    assert!(!plain.headers.contains_key("content-encoding"));
    let gzip = [("accept-encoding", "gzip, br")];
    let response = server.send(Method::GET, "/v1/openapi.json", &gzip, "").await;
    assert_eq!(response.headers()["content-encoding"], "gzip");
    assert_eq!(response.headers()["vary"], "accept-encoding");
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let mut text = String::new();
    GzDecoder::new(&*bytes).read_to_string(&mut text).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), plain.body);
    // A small body is not worth it.
    let response = server.send(Method::GET, "/livez", &gzip, "").await;
    assert!(!response.headers().contains_key("content-encoding"));
}
