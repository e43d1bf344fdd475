//! Who did what.

use axum::http::Method;
use serde_json::{Value, json};

use crate::support::{Server, chain, wait_for_go};

async fn entries(server: &Server, query: &str) -> Vec<Value> {
    server.get(&format!("/v1/audit{query}")).await.is(200)["entries"].as_array().unwrap().clone()
}

/// Waits until the audit has so many rows.
async fn wait_for(server: &Server, query: &str, count: usize) -> Vec<Value> {
    for _ in 0..1_000 {
        let found = entries(server, query).await;
        if found.len() >= count {
            assert_eq!(found.len(), count, "{found:?}");
            return found;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("the audit has not {count} rows: {:?}", entries(server, query).await);
}

#[tokio::test]
async fn what_an_admin_does_is_written_before_it_is_answered() {
    let server = Server::start().await;
    let me = server.get("/v1/me").await.is(200);
    let headers = [("x-request-id", "req-7"), ("idempotency-key", "once")];
    let made = server.post_with("/v1/keys", &headers, &json!({"name": "ci", "role": "viewer"})).await.is(201);
    let [entry] = &entries(&server, "").await[..] else { panic!("one row") };
    assert_eq!(entry["actor"], format!("key:{}", me["key"]["id"].as_str().unwrap()));
    assert_eq!((&entry["action"], &entry["target"]), (&json!("POST /v1/keys"), &json!("/v1/keys")));
    assert_eq!(
        entry["details"],
        json!({"status": 201, "keyName": "test", "idempotencyKey": "once", "requestId": "req-7"})
    );
    let id = made["key"]["id"].as_str().unwrap();
    server.delete(&format!("/v1/keys/{id}")).await.is(200);
    server.put("/v1/workflows/flow", &chain(&[])).await.is(201);
    server.put("/v1/secrets/sesame", &json!({"value": "open"})).await.is(201);
    let all = entries(&server, "").await;
    let actions: Vec<_> = all.iter().map(|entry| entry["action"].as_str().unwrap()).collect();
    let newest_first = ["PUT /v1/secrets/{name}", "PUT /v1/workflows/{name}", "DELETE /v1/keys/{id}", "POST /v1/keys"];
    assert_eq!(actions, newest_first);
    assert_eq!(all[2]["target"], format!("/v1/keys/{id}"));
    assert!(!all[0].to_string().contains("\"open\""), "{}", all[0]);
}

#[tokio::test]
async fn what_is_done_to_runs_is_written_soon() {
    let server = Server::start().await;
    let run = server.start_chain("flow", &[wait_for_go()]).await;
    server.wait_for(&run, "waiting").await;
    server.post(&format!("{run}/signals/go"), &Value::Null).await.is(200);
    let all = wait_for(&server, "", 3).await;
    assert_eq!(all[0]["action"], "POST /v1/runs/{id}/signals/{event}");
    assert_eq!(all[0]["target"], format!("{run}/signals/go"));
    assert_eq!(
        (&all[1]["action"], &all[1]["details"]["status"]),
        (&json!("POST /v1/workflows/{name}/runs"), &json!(201))
    );
}

#[tokio::test]
async fn what_changes_nothing_leaves_no_row() {
    let server = Server::start().await;
    server.get("/v1/runs").await.is(200);
    server.post("/v1/keys", &json!({"name": "x"})).await.refuses(400, "VALIDATION_ERROR");
    server.post("/v1/workflow-runs", &json!({"definitionId": "none"})).await.refuses(404, "NOT_FOUND");
    server.ask(Method::POST, "/v1/keys", &[], "").await.refuses(401, "AUTH_ERROR");
    server.post("/v1/nothing", &Value::Null).await.refuses(404, "NOT_FOUND");
    // A look may need a body too.
    server.post("/v1/workflows/validate", &chain(&[])).await.is(200);
    server.put("/v1/workflows/flow", &chain(&[])).await.is(201);
    assert_eq!(entries(&server, "").await.len(), 1);
}

#[tokio::test]
async fn the_audit_is_filtered_and_paged() {
    let server = Server::start().await;
    for number in 0..5 {
        server.put(&format!("/v1/workflows/flow-{number}"), &chain(&[])).await.is(201);
    }
    let made = server.post("/v1/keys", &json!({"name": "ops", "role": "admin"})).await.is(201);
    let other = made["secret"].as_str().unwrap();
    server.ask_as(other, Method::PUT, "/v1/workflows/flow-9", &chain(&[])).await.is(201);

    let actor = format!("?actor=key:{}", made["key"]["id"].as_str().unwrap());
    let [entry] = &entries(&server, &actor).await[..] else { panic!("one row") };
    assert_eq!((&entry["target"], &entry["details"]["keyName"]), (&json!("/v1/workflows/flow-9"), &json!("ops")));
    assert_eq!(entries(&server, "?action=POST%20/v1/keys").await.len(), 1);
    assert_eq!(entries(&server, "?since=2126-01-01T00:00:00Z").await.len(), 0);
    assert_eq!(entries(&server, "?until=2126-01-01T00:00:00Z").await.len(), 7);

    let (mut targets, mut path) = (Vec::new(), "/v1/audit?limit=3".to_owned());
    loop {
        let page = server.get(&path).await.is(200);
        targets.extend(page["entries"].as_array().unwrap().iter().map(|entry| entry["target"].clone()));
        let Some(cursor) = page["nextCursor"].as_str() else { break };
        path = format!("/v1/audit?limit=3&cursor={cursor}");
    }
    assert_eq!(targets.len(), 7);
    assert_eq!(targets.iter().collect::<std::collections::HashSet<_>>().len(), 7, "{targets:?}");
    for wrong in ["?cursor=x", "?since=yesterday", "?limit=0", "?target=x"] {
        server.get(&format!("/v1/audit{wrong}")).await.refuses(400, "VALIDATION_ERROR");
    }
}

#[tokio::test]
async fn what_was_done_has_its_row_also_when_the_client_has_gone() {
    let server = Server::start().await;
    for number in 0..30 {
        let mut connection = tokio::net::TcpStream::connect(server.address()).await.unwrap();
        let body = format!("{{\"name\": \"key {number}\", \"role\": \"viewer\"}}");
        let request = format!(
            "POST /v1/keys HTTP/1.1\r\nhost: x\r\nx-api-key: {}\r\ncontent-length: {}\r\n\r\n{body}",
            server.key(),
            body.len()
        );
        tokio::io::AsyncWriteExt::write_all(&mut connection, request.as_bytes()).await.unwrap();
        // Gone at once, a moment later, and so on: somewhere in between the key is made.
        for _ in 0..number {
            tokio::task::yield_now().await;
        }
    }
    let (mut before, mut quiet) = ((0, 0), 0);
    for _ in 0..2_000 {
        let made = server.get("/v1/keys?limit=500").await.is(200)["keys"].as_array().unwrap().len() - 1;
        let now = (made, entries(&server, "?limit=500&action=POST%20/v1/keys").await.len());
        quiet = if now == before && now.0 == now.1 && made > 0 { quiet + 1 } else { 0 };
        before = now;
        if quiet == 50 {
            return;
        }
    }
    panic!("{before:?} keys and rows");
}
