//! Bounds of what a workspace and its keys can use.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::Method;
use everstep_api::auth::{ApiKey, Permission};
use everstep_api::{BodyOptions, Streams};
use everstep_core::ids::WorkspaceId;
use everstep_core::limits;
use everstep_core::payload::Payload;
use everstep_engine::NodeClock;
use everstep_store::{NewWorkflow, WorkflowStore};
use everstep_vault::{Keyring, SealKey};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};
use uuid::Uuid;

use crate::support::{Server, Setup, add_key, chain, until, wait_for_go};

/// The quota of this name, as `GET /v1/me` shows it: used, and allowed.
async fn quota(server: &Server, name: &str) -> (u64, u64) {
    let me = server.get("/v1/me").await.is(200);
    let quota = me["quotas"].as_array().unwrap().iter().find(|quota| quota["name"] == name).unwrap().clone();
    (quota["used"].as_u64().unwrap(), quota["max"].as_u64().unwrap())
}

/// Names code workflows, as starts and workers do.
async fn name_workflows(server: &Server, count: usize) {
    let name = |number: usize| NewWorkflow {
        workspace: WorkspaceId::DEFAULT,
        name: format!("code-{number}"),
        style: "code".to_owned(),
        definition: Payload::from(json!({})),
        digest: String::new(),
        retention_days: 7,
        created_at: NodeClock::system().now(),
        publisher: None,
        key: None,
    };
    server.database.register_workflows((0..count).map(|number| (name(number), 1)).collect()).await.unwrap();
}

#[tokio::test]
async fn a_workspace_has_a_bounded_number_of_workflows() {
    let server = Server::start().await;
    server.put("/v1/workflows/known", &chain(&[])).await.is(201);
    name_workflows(&server, limits::WORKFLOWS - 1).await;
    let problem = server.put("/v1/workflows/new", &chain(&[])).await.refuses(409, "QUOTA_REACHED");
    assert!(problem["detail"].as_str().unwrap().contains("10000"), "{problem}");
    assert_eq!(problem["quota"], limits::WORKFLOWS);
    let new = json!({"name": "new", "definition": chain(&[])});
    server.post("/v1/workflows", &new).await.refuses(409, "QUOTA_REACHED");
    let unserved = json!({"allowUnserved": true});
    server.post("/v1/workflows/new/runs", &unserved).await.refuses(409, "QUOTA_REACHED");
    let worker = server.key_with(&[Permission::Serve]).await;
    let hello = |name: &str| json!({"protocol": 1, "worker": "w", "capacity": 1, "workflows": [{"name": name, "version": 1}], "holds": []});
    let open = async |name: &str| server.ask_as(&worker, Method::POST, "/v1/worker/sessions", &hello(name)).await;
    open("new").await.refuses(409, "QUOTA_REACHED");
    assert_eq!(quota(&server, "workflows").await, (limits::WORKFLOWS as u64, limits::WORKFLOWS as u64));
    // Known names are not affected, and a deleted one makes room.
    open("code-1").await.is(201);
    server.put("/v1/workflows/known", &chain(&[json!({"id": "a", "type": "noop"})])).await.is(200);
    server.post("/v1/workflows/known/runs", &json!({})).await.is(201);
    server.delete("/v1/workflows/code-7").await.is(204);
    server.put("/v1/workflows/new", &chain(&[])).await.is(201);
}

#[tokio::test]
async fn a_workspace_has_a_bounded_number_of_keys() {
    let server = Server::start().await;
    // The server has one of its own.
    let mut first = None;
    for _ in 1..limits::KEYS {
        let row = ApiKey::generate().row(WorkspaceId::DEFAULT, "one", &[Permission::View], NodeClock::system().now());
        server.access.add_key(&row).await.unwrap();
        first.get_or_insert(row.id);
    }
    let new = json!({"name": "one more", "role": "viewer"});
    let problem = server.post("/v1/keys", &new).await.refuses(409, "QUOTA_REACHED");
    assert_eq!((&problem["count"], &problem["quota"]), (&json!(1_000), &json!(1_000)), "{problem}");
    assert_eq!(quota(&server, "keys").await, (1_000, 1_000));
    let code = server.post("/v1/sign-in-codes", &Value::Null).await.is(201);
    let sign_in = json!({"code": code["code"]}).to_string();
    server.ask(Method::POST, "/v1/sign-ins", &[], &sign_in).await.refuses(409, "QUOTA_REACHED");
    server.delete(&format!("/v1/keys/{}", first.unwrap())).await.is(200);
    let keyed = [("idempotency-key", "once")];
    let made = server.post_with("/v1/keys", &keyed, &new).await.is(201);
    // A repeated request creates no key.
    let again = server.post_with("/v1/keys", &keyed, &new).await.is(200);
    assert_eq!(again["key"]["id"], made["key"]["id"]);
    server.ask(Method::POST, "/v1/sign-ins", &[], &sign_in).await.refuses(409, "QUOTA_REACHED");
}

#[tokio::test]
async fn texts_of_clients_are_cut_in_the_audit() {
    let server = Server::start().await;
    let long = "r".repeat(5_000);
    let headers = [("x-request-id", long.as_str())];
    server.post_with("/v1/keys", &headers, &json!({"name": "ci", "role": "viewer"})).await.is(201);
    let name = "n".repeat(128);
    server.put(&format!("/v1/secrets/{name}"), &json!({"value": "open"})).await.is(201);
    let rows = server.get("/v1/audit").await.is(200)["entries"].as_array().unwrap().clone();
    let request = rows[1]["details"]["requestId"].as_str().unwrap();
    assert_eq!((request.chars().count(), request.ends_with("r…")), (128, true));
    let target = rows[0]["target"].as_str().unwrap();
    assert_eq!((target.chars().count(), target.starts_with("/v1/secrets/nnn")), (128, true));
}

#[tokio::test]
async fn sign_in_codes_of_a_minute_share_an_audit_row() {
    let server = Server::start().await;
    let viewer = server.key_with(&[Permission::View]).await;
    for _ in 0..30 {
        server.ask_as(&viewer, Method::POST, "/v1/sign-in-codes", &Value::Null).await.is(201);
    }
    // Rows are written in their order.
    server.post("/v1/sign-in-codes", &Value::Null).await.is(201);
    let mut rows = Vec::new();
    until("both callers in the audit", async || {
        rows = server.get("/v1/audit").await.is(200)["entries"].as_array().unwrap().clone();
        let actors: std::collections::BTreeSet<_> = rows.iter().map(|row| row["actor"].to_string()).collect();
        (actors.len() == 2).then_some(())
    })
    .await;
    // The requests may have been sent in two minutes.
    assert!(rows.len() <= 4, "{}", rows.len());
}

#[tokio::test]
async fn many_keys_do_not_multiply_the_rate_of_a_workspace() {
    let server = Server::launch(Setup { rate_limit: 5, ..Setup::default() }).await;
    let (many, other) = (WorkspaceId::from_uuid(Uuid::from_u128(7)), WorkspaceId::from_uuid(Uuid::from_u128(8)));
    let look = async |key: &str| server.ask_as(key, Method::GET, "/v1/workers", &Value::Null).await;
    let mut refused = None;
    // Each key alone stays below its own limit.
    for _ in 0..60 {
        let key = add_key(&*server.access, many, &[Permission::Read]).await;
        for answer in [look(&key).await, look(&key).await, look(&key).await] {
            if answer.status != 200 {
                refused.get_or_insert(answer);
            }
        }
    }
    let refused = refused.expect("the workspace sends more than its rate");
    assert!(refused.headers.contains_key("retry-after"));
    let problem = refused.refuses(429, "RATE_LIMITED");
    assert!(problem["hint"].as_str().unwrap().contains("EVERSTEP_WORKSPACE_RATE_LIMIT"), "{problem}");
    let key = add_key(&*server.access, other, &[Permission::Read]).await;
    look(&key).await.is(200);
}

#[tokio::test]
async fn a_workspace_has_half_of_the_streams_of_a_node() {
    let server = Server::start_with(Streams::shared(4, 4)).await;
    let run = server.start_chain("waits", &[wait_for_go()]).await;
    let path = format!("{run}/events");
    let mut held = Vec::new();
    for _ in 0..2 {
        let key = server.key_with(&[Permission::View]).await;
        held.push(server.send(Method::GET, &path, &[("x-api-key", &key)], "").await);
    }
    assert!(held.iter().all(|response| response.status() == 200));
    let problem = server.get(&path).await.refuses(429, "TOO_MANY_STREAMS");
    assert!(problem["detail"].as_str().unwrap().contains("this workspace has 2 open streams"), "{problem}");
    assert_eq!(quota(&server, "streams").await, (2, 2));
    let other = add_key(&*server.access, WorkspaceId::from_uuid(Uuid::from_u128(7)), &[Permission::View]).await;
    let mut request = format!("ws://{}/v1/socket", server.address()).into_client_request().unwrap();
    request.headers_mut().insert("x-api-key", other.parse().unwrap());
    tokio_tungstenite::connect_async(request).await.unwrap();
}

#[tokio::test]
async fn connections_without_a_key_take_no_place_of_those_with_one() {
    let server = Server::start_with(Streams { per_node: 8, ..Streams::default() }).await;
    let open = async |query: &str, key: Option<&str>| {
        let url = format!("ws://{}/socket.io/?EIO=4&transport=websocket{query}", server.address());
        let mut request = url.into_client_request().unwrap();
        if let Some(key) = key {
            request.headers_mut().insert("x-api-key", key.parse().unwrap());
        }
        tokio_tungstenite::connect_async(request).await.map(|(socket, _)| socket)
    };
    let mut held = Vec::new();
    let refused = loop {
        match open("", None).await {
            Ok(socket) => held.push(socket),
            Err(error) => break error,
        }
    };
    assert_eq!(held.len(), 1, "one address has half of a quarter");
    let Error::Http(response) = refused else { panic!("{refused:?}") };
    assert_eq!(response.status(), 503);
    let ticket = server.post("/v1/tickets", &Value::Null).await.is(201)["ticket"].as_str().unwrap().to_owned();
    for number in 0..4 {
        let with_key = open("", Some(server.key())).await;
        let with_ticket = open(&format!("&ticket={ticket}"), None).await;
        held.extend([with_key.unwrap_or_else(|error| panic!("{number}: {error}")), with_ticket.unwrap()]);
    }
    // The credential of the upgrade is that of the connection.
    let mut last = held.pop().unwrap();
    assert!(last.next().await.unwrap().unwrap().into_text().unwrap().starts_with('0'));
    last.send(Message::from("40")).await.unwrap();
    assert!(last.next().await.unwrap().unwrap().into_text().unwrap().starts_with("40{\"sid\":"));
}

/// Begins a request with a body of this length on a connection of its own, and sends only the first byte of the body.
async fn begin_body(server: &Server, key: &str, length: usize) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    let head =
        format!("PUT /v1/secrets/one HTTP/1.1\r\nhost: a\r\nx-api-key: {key}\r\ncontent-length: {length}\r\n\r\n{{");
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn bodies_of_a_key_use_a_quarter_of_the_memory() {
    let bodies = BodyOptions { bytes_max: 4_000, wait: Duration::from_millis(50), ..BodyOptions::default() };
    let keyring = Some(Keyring::new(SealKey::generate(), Vec::new()));
    let server = Server::launch(Setup { bodies, keyring, ..Setup::default() }).await;
    let held = begin_body(&server, server.key(), 900).await;
    let path = "/v1/secrets/other";
    let body = json!({"value": "x".repeat(500)});
    // The body that was begun is reserved as soon as the server reads it.
    let refused =
        until("a refusal", async || Some(server.put(path, &body).await).filter(|answer| answer.status == 503)).await;
    assert_eq!(refused.headers["retry-after"], "5");
    let problem = refused.refuses(503, "UNAVAILABLE");
    assert!(problem["hint"].as_str().unwrap().contains("EVERSTEP_BODY_MEMORY_MIB"), "{problem}");
    let admin = server.key_with(&[Permission::Admin]).await;
    assert!(server.ask_as(&admin, Method::PUT, path, &body).await.status < 300, "another key has its own share");
    drop(held);
    until("the memory", async || (server.put(path, &body).await.status < 300).then_some(())).await;
}

#[tokio::test]
async fn a_body_that_arrives_too_slowly_is_refused() {
    let bodies = BodyOptions { grace: Duration::from_millis(50), ..BodyOptions::default() };
    let server = Server::launch(Setup { bodies, ..Setup::default() }).await;
    let mut stream = begin_body(&server, server.key(), 900).await;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("BODY_TOO_SLOW"), "{answer}");
}

#[tokio::test]
async fn idle_connections_without_a_key_do_not_keep_others_out() {
    let server = Server::launch(Setup { connections_max: 8, ..Setup::default() }).await;
    let mut first = TcpStream::connect(server.address()).await.unwrap();
    first.write_all(b"GET /v1/me HTTP/1.1\r\nx-slow: ").await.unwrap();
    let mut held = Vec::new();
    for _ in 0..20 {
        held.push(TcpStream::connect(server.address()).await.unwrap());
    }
    server.get("/v1/me").await.is(200);
    assert_eq!(first.read_to_end(&mut Vec::new()).await.unwrap_or_default(), 0, "the oldest was closed");
}

#[tokio::test]
async fn callers_who_may_only_read_check_small_definitions() {
    let server = Server::start().await;
    let reader = server.key_with(&[Permission::Read]).await;
    let described = |bytes: usize| {
        let mut definition = chain(&[]);
        definition["description"] = json!("x".repeat(bytes));
        definition
    };
    let dry_run = |definition: Value| json!({"definition": definition, "state": "open"});
    let large = described(1024 * 1024);
    for (path, body) in [
        ("/v1/workflows/validate", large.clone()),
        ("/v1/workflows/evaluate", dry_run(large.clone())),
        ("/workflow-engine/definitions/validate", large.clone()),
    ] {
        let problem = server.ask_as(&reader, Method::POST, path, &body).await.refuses(413, "PAYLOAD_TOO_LARGE");
        assert!(problem["hint"].as_str().unwrap().contains("workflow:publish"), "{problem}");
    }
    server.ask_as(&reader, Method::POST, "/v1/workflows/validate", &described(1_000_000)).await.is(200);
    let publisher = server.key_with(&[Permission::Read, Permission::Publish]).await;
    server.ask_as(&publisher, Method::POST, "/v1/workflows/validate", &large).await.is(200);
}

#[tokio::test]
async fn requests_that_wait_leave_connections_for_others() {
    let server = Arc::new(Server::launch(Setup { connections_max: 64, ..Setup::default() }).await);
    let run = server.start_chain("waits", &[wait_for_go()]).await;
    let path = format!("{run}?waitSeconds=30");
    // Half of the connections wait.
    let mut waiting = JoinSet::new();
    for _ in 0..32 {
        let (server, path) = (Arc::clone(&server), path.clone());
        waiting.spawn(async move {
            // A request without a place is sent again: the request below may have taken it.
            loop {
                match server.get(&path).await.is(200)["status"].take() {
                    status if status == "waiting" => tokio::time::sleep(Duration::from_millis(10)).await,
                    status => return status,
                }
            }
        });
    }
    let began = Instant::now();
    // Before all of them wait, this request may have a place; it then ends with the wait of one of them.
    until("a request that does not wait", async || {
        let answer = tokio::time::timeout(Duration::from_secs(1), server.get(&path)).await.ok()?;
        (answer.is(200)["status"] == "waiting").then_some(())
    })
    .await;
    let begun = server.post("/v1/workflows/waits/runs?waitSeconds=30", &json!({})).await.is(201);
    assert_eq!(begun["run"]["status"], "waiting");
    assert!(began.elapsed() < Duration::from_secs(20), "the requests have waited");
    server.post(&format!("{run}/signals/go"), &json!({})).await.is(200);
    while let Some(status) = waiting.join_next().await {
        assert_eq!(status.unwrap(), "completed");
    }
}

#[tokio::test]
async fn a_worker_with_too_many_workflows_is_refused() {
    let server = Server::start().await;
    let workflows: Vec<_> = (0..1_001).map(|n| json!({"name": format!("w{n}"), "version": 1})).collect();
    let hello = json!({"protocol": 1, "worker": "w", "capacity": 1, "workflows": workflows});
    let problem = server.post("/v1/worker/sessions", &hello).await.refuses(409, "QUOTA_REACHED");
    assert_eq!(problem["quota"], 1_000, "{problem}");
}
