//! The audit.

use axum::http::Method;
use serde_json::{Value, json};

use crate::support::{Server, chain, wait_for_go};

async fn entries(server: &Server, query: &str) -> Vec<Value> {
    server.get(&format!("/v1/audit{query}")).await.is(200)["entries"].as_array().unwrap().clone()
}

/// Waits until the audit has this many rows.
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

/// The row of a request, read as soon as the request is answered.
async fn newest(server: &Server) -> (Value, Value, Value) {
    let mut rows = entries(server, "?limit=1").await;
    let row = rows.pop().expect("a row");
    (row["action"].clone(), row["target"].clone(), row["details"]["status"].clone())
}

#[tokio::test]
async fn starts_and_controls_are_audited_when_they_are_answered() {
    let server = Server::start().await;
    let run = server.start_chain("flow", &[wait_for_go()]).await;
    let start = "POST /v1/workflows/{name}/runs";
    assert_eq!(newest(&server).await, (json!(start), json!("/v1/workflows/flow/runs"), json!(201)));
    server.wait_for(&run, "waiting").await;
    for control in ["pause", "resume"] {
        let path = format!("{run}/{control}");
        server.post(&path, &Value::Null).await.is(200);
        assert_eq!(newest(&server).await, (json!(format!("POST /v1/runs/{{id}}/{control}")), json!(path), json!(200)));
    }
    let forked = server.post(&format!("{run}/fork"), &Value::Null).await.is(201);
    assert_eq!(newest(&server).await, (json!("POST /v1/runs/{id}/fork"), json!(format!("{run}/fork")), json!(201)));
    let fork = format!("/v1/runs/{}", forked["run"]["id"].as_str().unwrap());
    server.post(&format!("{fork}/cancel"), &Value::Null).await.is(200);
    assert_eq!(newest(&server).await.1, format!("{fork}/cancel"));
    server.post_with(&format!("{run}/signals/go"), &[("x-request-id", "r7")], &Value::Null).await.is(200);
    let [row, ..] = &entries(&server, "").await[..] else { panic!("a row") };
    assert_eq!(
        (&row["action"], &row["details"]["requestId"]),
        (&json!("POST /v1/runs/{id}/signals/{event}"), &json!("r7"))
    );
    let test = json!({"definition": chain(&[]), "input": {}});
    server.post("/v1/test-runs", &test).await.is(201);
    assert_eq!(newest(&server).await, (json!("POST /v1/test-runs"), json!("/v1/test-runs"), json!(201)));
    server.post("/v1/workflow-runs", &json!({"definitionId": "flow", "input": {}})).await.is(201);
    assert_eq!(newest(&server).await.0, "POST /v1/workflow-runs");
    // One row each, and one for the workflow that was saved.
    assert_eq!(entries(&server, "").await.len(), 9);
}

#[tokio::test]
async fn a_request_for_many_runs_has_one_audit_row() {
    let server = Server::start().await;
    server.put("/v1/workflows/flow", &chain(&[wait_for_go()])).await.is(201);
    let runs = json!({"runs": [{"idempotencyKey": "a"}, {"idempotencyKey": "b"}, {"input": {}}, {"version": 9}]});
    server.post("/v1/workflows/flow/runs/batch", &runs).await.is(207);
    let batch = "?action=POST%20/v1/workflows/%7Bname%7D/runs/batch";
    assert_eq!(entries(&server, batch).await.len(), 1);
    // Nothing new: the row is written as one of a request that changes no run.
    let again = json!({"runs": [{"idempotencyKey": "a"}, {"idempotencyKey": "b"}]});
    server.post("/v1/workflows/flow/runs/batch", &again).await.is(200);
    let rows = wait_for(&server, batch, 2).await;
    assert_eq!((&rows[0]["details"]["status"], &rows[1]["details"]["status"]), (&json!(200), &Value::Null));

    let cancel = json!({"action": "cancel", "filter": {"workflow": "flow"}});
    assert_eq!(server.post("/v1/runs/bulk", &cancel).await.is(200)["accepted"], 3);
    let bulk = "?action=POST%20/v1/runs/bulk";
    assert_eq!(entries(&server, bulk).await.len(), 1);
    assert_eq!(server.post("/v1/runs/bulk", &cancel).await.is(200)["ignored"], 3);
    wait_for(&server, bulk, 2).await;
}

#[tokio::test]
async fn a_request_that_changes_no_run_is_audited_soon() {
    let server = Server::start().await;
    server.put("/v1/workflows/flow", &chain(&[wait_for_go()])).await.is(201);
    let keyed = [("idempotency-key", "once")];
    let started = server.post_with("/v1/workflows/flow/runs", &keyed, &json!({})).await.is(201);
    server.post_with("/v1/workflows/flow/runs", &keyed, &json!({})).await.is(200);
    let starts = wait_for(&server, "?action=POST%20/v1/workflows/%7Bname%7D/runs", 2).await;
    assert_eq!((&starts[0]["details"]["status"], &starts[1]["details"]["status"]), (&json!(200), &json!(201)));
    let run = format!("/v1/runs/{}", started["run"]["id"].as_str().unwrap());
    assert_eq!(server.post(&format!("{run}/signals/other"), &Value::Null).await.is(200)["outcome"], "ignored");
    wait_for(&server, "?action=POST%20/v1/runs/%7Bid%7D/signals/%7Bevent%7D", 1).await;
    // A refused control changes nothing and has no row.
    server.post(&format!("{run}/resume"), &Value::Null).await.refuses(409, "INVALID_TRANSITION");
    server.put("/v1/workflows/flow", &chain(&[])).await.is(200);
    assert_eq!(entries(&server, "").await.len(), 5);
}

#[tokio::test]
async fn what_changes_nothing_leaves_no_row() {
    let server = Server::start().await;
    server.get("/v1/runs").await.is(200);
    server.post("/v1/keys", &json!({"name": "x"})).await.refuses(400, "VALIDATION_ERROR");
    server.post("/v1/workflow-runs", &json!({"definitionId": "none"})).await.refuses(404, "WORKFLOW_NOT_FOUND");
    server.ask(Method::POST, "/v1/keys", &[], "").await.refuses(401, "AUTH_ERROR");
    server.post("/v1/nothing", &Value::Null).await.refuses(404, "NOT_FOUND");
    // A read may have a body.
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
        // The client disconnects at once, a moment later, and so on: the key is created somewhere in between. The last
        // client disconnects while the response arrives.
        for _ in 0..number {
            tokio::task::yield_now().await;
        }
        if number == 29 {
            tokio::io::AsyncReadExt::read_u8(&mut connection).await.unwrap();
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
