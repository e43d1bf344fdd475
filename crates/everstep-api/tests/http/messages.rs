//! The problem documents of real requests, as a file: a review shows every change of a message.
//!
//! `BLESS=1 cargo test -p everstep-api --test http messages` writes the file again; read the difference.

use std::fmt::Write as _;
use std::path::Path;

use axum::http::Method;
use everstep_api::auth::Permission;
use everstep_testkit::snapshot;
use serde_json::{Value, json};

use crate::support::{Server, chain, wait_for_go};

const MISSING_RUN: &str = "/v1/runs/00000000-0000-7000-8000-000000000000";

/// Requests of an admin that are rejected. `RUN` is a run that waits for `go`, `MACHINE` one of a state machine.
fn requests() -> Vec<(&'static str, &'static str, Value)> {
    let none = Value::Null;
    vec![
        ("GET", "/v1/nothing", none.clone()),
        ("PUT", "/v1/runs", none.clone()),
        ("GET", "/v1/runs?colour=red", none.clone()),
        ("GET", "/v1/runs?limit=0", none.clone()),
        ("GET", "/v1/runs?limit=5&limit=6", none.clone()),
        ("GET", "/v1/runs?cursor=x", none.clone()),
        ("GET", "/v1/runs?status=lost", none.clone()),
        ("GET", "/v1/runs?since=yesterday", none.clone()),
        ("GET", "/v1/runs/x", none.clone()),
        ("GET", MISSING_RUN, none.clone()),
        ("GET", "RUN?waitSeconds=x", none.clone()),
        ("GET", "RUN/context?at=99", none.clone()),
        ("POST", "RUN/resume", none.clone()),
        ("POST", "RUN/retry", none.clone()),
        ("POST", "RUN/cancel", json!([])),
        ("POST", "RUN/cancel", json!({"why": "x"})),
        ("POST", "RUN/fork", json!({"at": 99})),
        ("POST", "/v1/runs/bulk", json!({"action": "cancel"})),
        ("POST", "/v1/runs/bulk", json!({"action": "pause", "all": true, "reason": "x"})),
        ("DELETE", "/v1/test-runs/00000000-0000-7000-8000-000000000000", none.clone()),
        ("GET", "/v1/workflows/missing", none.clone()),
        ("GET", "/v1/workflows/waits?version=9", none.clone()),
        ("PUT", "/v1/workflows/No%20Name", json!({"nodes": []})),
        ("PUT", "/v1/workflows/empty", json!({"nodes": []})),
        ("PUT", "/v1/workflows/waits", none.clone()),
        ("POST", "/v1/workflows", json!({"name": "waits", "definition": chain(&[])})),
        ("POST", "/v1/workflows/import", json!({"everstep": 99})),
        ("POST", "/v1/workflows/waits/activate", json!({"version": 9})),
        ("DELETE", "/v1/workflows/waits", none.clone()),
        ("POST", "/v1/workflows/waits/runs", json!({"version": 0})),
        ("POST", "/v1/workflows/waits/runs", json!({"idempotencyKey": ""})),
        ("POST", "/v1/workflows/waits/runs", json!({"tags": {"": "x"}})),
        ("POST", "/v1/workflows/waits/runs/batch", json!({"runs": []})),
        ("POST", "/v1/workflow-runs", json!({"definitionId": "missing-too"})),
        ("POST", "/v1/workflows/waits/runs", json!({"startAt": "soon"})),
        ("POST", "/v1/workflows/waits/runs", json!({"delaySeconds": 31_536_001})),
        ("POST", "LATER/signals/go", none.clone()),
        ("POST", "LATER/retry", none.clone()),
        ("POST", "RUN/signals/everstep.go", none.clone()),
        ("POST", "/v1/topics/a..b", none.clone()),
        ("POST", "/v1/topics/everstep.a", none.clone()),
        ("POST", "/v1/events", json!({"data": 1})),
        ("POST", "/v1/events", json!({"topic": "a", "source": "run:1"})),
        ("POST", "/v1/events", json!({"events": []})),
        ("GET", "/v1/events/x", none.clone()),
        ("GET", "/v1/events?topic=a..b", none.clone()),
        ("GET", "/v1/events?topic=", none.clone()),
        ("GET", "/v1/runs?trigger=x", none.clone()),
        ("POST", "/v1/topics/a/subscriptions", json!({"type": "queue", "name": "orders"})),
        ("POST", "/v1/topics/a/subscriptions", json!({"type": "workflow", "name": "waits", "filter": []})),
        ("POST", "/v1/topics/a/subscriptions", json!({"type": "workflow", "name": "waits", "input": "{{ctx.x}}"})),
        ("POST", "/v1/topics/a*/subscriptions", json!({"type": "workflow", "name": "waits"})),
        ("GET", "/v1/subscriptions/x", none.clone()),
        ("DELETE", "TRIGGER", none.clone()),
        ("GET", "/v1/catalog/missing", none.clone()),
        ("POST", "/v1/keys", json!({"name": "x"})),
        ("POST", "/v1/keys", json!({"name": "x", "role": "boss"})),
        ("POST", "/v1/keys", json!({"name": "", "role": "viewer"})),
        ("DELETE", "/v1/keys/x", none.clone()),
        ("POST", "/v1/workspaces", json!({"name": "a b"})),
        ("PATCH", "/v1/workspaces/missing", json!({"options": {}})),
        ("PUT", "/v1/secrets/a", json!({"value": ""})),
        ("DELETE", "/v1/secrets/missing", none.clone()),
        ("PUT", "/v1/data-sources/a", json!({"type": "oracle"})),
        ("GET", "/v1/data-sources/missing", none.clone()),
        ("GET", "/v1/queries/missing", none.clone()),
        ("PUT", "/v1/queries/a", json!({"source": "missing", "sql": "select 1"})),
        ("POST", "RUN/transitions", json!({"action": "GO"})),
        ("GET", "RUN/actions", none.clone()),
        ("POST", "MACHINE/transitions", json!({})),
        ("POST", "MACHINE/transitions", json!({"action": "GO", "version": 7})),
        ("POST", "MACHINE/transitions", json!({"action": "STOP"})),
        ("POST", "MACHINE/transitions", json!({"action": "BACK"})),
        ("POST", "MACHINE/transitions", json!({"action": "GO"})),
        ("POST", "MACHINE/transitions", json!({"action": "ASK"})),
        ("POST", "MACHINE/transitions", json!({"action": "LATER"})),
        ("POST", "MACHINE/assign", json!({})),
        ("POST", "MACHINE/assign", json!({"voter": {"from": "ann", "to": "bob"}})),
        ("POST", "MACHINE/signals/go", none.clone()),
        ("POST", "MACHINE/retry", none.clone()),
        ("POST", "/v1/workflows/evaluate", json!({"state": "a"})),
        ("POST", "/v1/workflows/evaluate", json!({"workflow": "machine", "state": "z"})),
        ("POST", "/workflow-engine/definitions", json!({"dsl": {}})),
        ("GET", "/workflow-engine/definitions/waits", none.clone()),
        ("GET", "/v1/store/missing", none.clone()),
        ("GET", "/v1/store/missing/a", none.clone()),
        ("GET", "/v1/store/books?match=%7B", none.clone()),
        ("GET", "/v1/store/books?cursor=zork", none.clone()),
        ("GET", "/v1/store/books/%00", none.clone()),
        ("GET", "/v1/store/books/%FF", none.clone()),
        ("PUT", "/v1/store/books/a", json!({"ttlSeconds": 1})),
        ("PUT", "/v1/store/books/a", json!({"value": 1, "ttl": 1})),
        ("PUT", "/v1/store/books/a", json!({"value": 1, "ttlSeconds": 0})),
        ("PUT", "/v1/store/books/a", json!({"value": 1, "valueType": "string"})),
        ("PUT", "/v1/store/books/count", json!({"value": 1, "ifRevision": 0})),
        ("PUT", "/v1/store/books/count", json!({"value": 1, "ifRevision": 7})),
        ("PUT", "/v1/store/books/a", json!({"value": 1, "ifRevision": 7})),
        ("DELETE", "/v1/store/books/a", none.clone()),
        ("DELETE", "/v1/store/books/count?ifRevision=7", none.clone()),
        ("POST", "/v1/store/books/title/increment", none.clone()),
        ("POST", "/v1/store/books/count/increment", json!({"by": i64::MAX})),
        ("POST", "/v1/store/books/count/increment", json!({"by": "1"})),
        ("GET", "/v1/namespaces/missing", none.clone()),
        ("GET", "/v1/namespaces/books/changes?action=set", none.clone()),
        ("POST", "/v1/namespaces/books/transact", json!({})),
        ("POST", "/v1/namespaces/books/transact", json!({"checks": [{"key": "count"}]})),
        ("POST", "/v1/namespaces/books/transact", json!({"checks": [{"key": "count", "exists": false}]})),
        ("POST", "/v1/namespaces/books/transact", json!({"checks": [{"key": "count", "equals": 7}]})),
        (
            "POST",
            "/v1/namespaces/books/transact",
            json!({"writes": [{"set": {"key": "a", "value": 1, "ttlSeconds": 0}}]}),
        ),
        ("POST", "/v1/namespaces/books/transact", json!({"writes": [{"delete": {"key": "count", "ifRevision": 7}}]})),
        ("GET", "/v1/links/books/x", none.clone()),
        ("GET", "/v1/links/books/00000000-0000-7000-8000-000000000000", none.clone()),
        ("GET", "/v1/links/books/lookup?type=a", none.clone()),
        ("GET", "/v1/links/books/lookup?type=a&id=%20", none.clone()),
        ("GET", "/v1/links/books/lookup?type=a&id=1&direction=back", none.clone()),
        ("GET", "/v1/links/books?cursor=x", none.clone()),
        ("POST", "/v1/links/books", json!({"from": {"type": "a", "id": ""}, "to": {"type": "b", "id": "2"}})),
        (
            "POST",
            "/v1/links/books",
            json!({"from": {"type": "a", "id": "1"}, "to": {"type": "b", "id": "2"}, "attributes": 1}),
        ),
        ("DELETE", "/v1/links/books", none.clone()),
        ("DELETE", "/v1/links/books?fromType=a", none.clone()),
        ("POST", "/v1/worker/sessions", json!({"protocol": 9, "worker": "a", "capacity": 1, "workflows": []})),
        ("POST", "/v1/worker/poll", json!({"session": "x", "seen": 0})),
    ]
}

/// More of them: rarer mistakes, by resource.
fn rarer_requests() -> Vec<(&'static str, &'static str, Value)> {
    let none = Value::Null;
    vec![
        ("GET", "/v1/me?x=1", none.clone()),
        ("GET", "/v1/runs?input.order..id=7", none.clone()),
        ("GET", "/v1/runs?workflow=%00", none.clone()),
        ("GET", "/v1/workflows/machine/runs/ID", none.clone()),
        ("GET", "RUN/steps/none", none.clone()),
        ("GET", "RUN/steps/start?attempt=9", none.clone()),
        ("GET", "RUN/journal?view=half", none.clone()),
        ("GET", "RUN/events?after=99", none.clone()),
        ("POST", "/v1/runs/bulk", json!({"action": "pause", "filter": {"input": {"a": [1]}}})),
        ("POST", "/v1/runs/bulk", json!({"action": "pause", "filter": {"version": 0}})),
        ("POST", "/v1/runs/bulk", json!({"action": "pause", "all": true, "limit": 0})),
        ("DELETE", "/v1/test-runs/ID", none.clone()),
        ("POST", "/v1/test-runs", json!({"definition": 5})),
        ("POST", "/v1/workflows/waits/runs", json!({"version": 9})),
        ("POST", "/v1/workflow-runs", json!({})),
        ("POST", "/v1/workflow-runs", json!({"definitionId": "No Name"})),
        ("POST", "/v1/workflow-runs", json!({"definitionId": "waits", "input": []})),
        ("PUT", "/v1/workflows/evaluate", chain(&[])),
        ("PUT", "/v1/workflows/everstep-x", chain(&[])),
        ("PUT", "/v1/workflows/machine", chain(&[])),
        ("PUT", "/v1/workflows/waits", machine()),
        ("POST", "/v1/workflows/import", json!({})),
        ("POST", "/v1/workflows/import", json!({"everstep": "x"})),
        ("POST", "/v1/workflows/import", json!({"everstep": 1, "kind": "thing"})),
        (
            "POST",
            "/v1/workflows/import",
            json!({"everstep": 1, "kind": "workflow", "name": "No Name", "definition": {}}),
        ),
        ("POST", "/v1/workflows/evaluate", json!({"workflow": "waits", "state": "a"})),
        ("POST", "/v1/workflows/evaluate", json!({"definition": machine(), "version": 1, "state": "a"})),
        ("POST", "MACHINE/transitions", json!({"action": "GO", "withdraw": true})),
        ("POST", "MACHINE/transitions", json!({"action": "ASK", "comment": "x", "data": {"input": 1}})),
        ("POST", "MACHINE/transitions", json!({"action": "ASK", "comment": "x", "data": []})),
        ("POST", "MACHINE/assign", json!({"who": []})),
        ("POST", "MACHINE/assign", json!({"who": [""]})),
        ("POST", "/v1/keys", json!({"name": "x", "role": "viewer", "permissions": ["workflow:read"]})),
        ("POST", "/v1/keys", json!({"name": "x", "permissions": ["workflow:fly"]})),
        ("POST", "/v1/keys", json!({"name": "x", "role": "viewer", "expiresAt": "2001-01-01T00:00:00Z"})),
        ("POST", "/v1/keys", json!({"name": "x", "role": "viewer", "expiresAt": "soon"})),
        ("POST", "/v1/keys", json!({"name": "x", "role": "viewer", "rateLimit": 4_000_000_000_u32})),
        ("POST", "/v1/workspaces", json!({"name": "default"})),
        ("PATCH", "/v1/workspaces/default", json!({"options": 5})),
        ("PATCH", "/v1/workspaces/default", json!({"options": {"roles": {"": "x"}}})),
        ("PATCH", "/v1/workspaces/default", json!({"options": {"notifyUrl": "https://mail.example.com/"}})),
        ("PATCH", "/v1/workspaces/default", json!({"options": {"notifySecret": "mail-signing"}})),
        ("PATCH", "/v1/workspaces/default", json!({"options": {"notifyUrl": "mail", "notifySecret": "mail-signing"}})),
        ("PUT", "/v1/workflows/mail", mail_graph()),
        ("GET", "/v1/stats?since=2026-01-02&until=2026-01-01", none.clone()),
        ("DELETE", "/v1/sign-ins/current", none.clone()),
        ("PUT", "/v1/data-sources/test", json!({"type": "sqlite", "file": "a.db"})),
        ("PUT", "/v1/data-sources/a", json!({"type": "sqlite", "file": "../a.db"})),
        ("PUT", "/v1/data-sources/a", json!({"type": "http", "baseUrl": "example.com"})),
        ("PUT", "/v1/data-sources/a", json!({"type": "postgres"})),
        ("GET", "/v1/schemas/prose", none.clone()),
        ("PUT", "/v1/store/books/%2E", json!({"value": 1})),
        ("GET", "/v1/socket", none.clone()),
        ("GET", "/v1/worker/socket", none.clone()),
        ("POST", "/v1/worker/sessions", worker("", &json!([]))),
        ("POST", "/v1/worker/sessions", worker("w", &json!([]))),
        ("POST", "/v1/worker/sessions", worker("w", &json!([{"name": "No Name", "version": 1}]))),
        ("POST", "/v1/worker/sessions", worker("w", &json!([{"name": "code", "version": 0}]))),
        ("POST", "/v1/worker/sessions", worker("w", &json!([{"name": "code", "version": 1, "retentionDays": 0}]))),
        ("POST", "/v1/worker/sessions", worker("w", &json!([{"name": "code", "version": 1, "index": ["a..b"]}]))),
        (
            "POST",
            "/v1/worker/sessions",
            worker("w", &json!([{"name": "code", "version": 1}, {"name": "code", "version": 1}])),
        ),
        (
            "POST",
            "/v1/worker/sessions",
            worker("w", &json!([{"name": "code", "version": 1, "inputSchema": {"nullable": true}}])),
        ),
        ("POST", "/v1/worker/sessions", worker("w", &json!([{"name": "waits", "version": 1}]))),
    ]
}

/// The first message of a worker.
fn worker(name: &str, workflows: &Value) -> Value {
    json!({"protocol": 1, "worker": name, "capacity": 1, "workflows": workflows})
}

/// Method, path, headers and body.
type RequestWithHeaders = (Method, &'static str, &'static [(&'static str, &'static str)], &'static str);

/// Requests of an admin with headers that are rejected.
const HEADERS: &[RequestWithHeaders] = &[
    (Method::POST, "RUN/cancel", &[("if-match", "x")], "{}"),
    (Method::POST, "RUN/cancel", &[("if-match", "\"99\"")], "{}"),
    (Method::POST, "RUN/cancel", &[("if-match", "\"4\"")], r#"{"expectedVersion": 5}"#),
    (Method::POST, "/v1/workflows/waits/runs", &[("idempotency-key", "a")], r#"{"idempotencyKey": "b"}"#),
    (Method::POST, "/v1/workflows/waits/runs", &[("idempotency-key", "")], "{}"),
    (Method::POST, "/v1/workflows/waits/runs/batch", &[("idempotency-key", "a")], r#"{"runs": [{}]}"#),
    (Method::PUT, "/v1/store/books/a", &[("if-none-match", "\"1\"")], r#"{"value": 1}"#),
    (Method::PUT, "/v1/store/books/a", &[("if-match", "\"1\""), ("if-none-match", "*")], r#"{"value": 1}"#),
    (Method::PUT, "/v1/workflows/waits", &[("if-match", "\"9\"")], r#"{"nodes": []}"#),
    (Method::GET, "RUN/events", &[("last-event-id", "x")], ""),
    (Method::POST, "/v1/workflows/waits/runs", &[], "{"),
    (Method::POST, "/v1/workflows/waits/runs", &[], "null"),
    (Method::POST, "/v1/workflows/waits/runs/batch", &[], r#"{"runs": [null]}"#),
    (Method::POST, "/v1/workflows/waits/runs", &[("content-encoding", "gzip")], "{}"),
];

/// A graph that sends a mail, which this server cannot do.
fn mail_graph() -> Value {
    let config = json!({"target": "ann@example.com", "template": {"subject": "Hello", "text": "there"}});
    chain(&[json!({"id": "tell", "type": "notify", "config": config})])
}

/// A state machine whose actions are refused for different reasons.
fn machine() -> Value {
    json!({"states": [
        {"name": "a", "initial": true, "on": {
            "GO": {"to": "b", "require": {"role": ["Superadmin"], "notBy": ["@start"]}},
            "ASK": {"to": "b", "needs": {"comment": true, "data": ["amount"]}},
            "LATER": {"to": "b", "condition": {"type": "json-logic", "rule": {">": [{"var": "amount"}, 5]}}},
        }},
        {"name": "b", "on": {"BACK": {"to": "a"}, "END": {"to": "c"}}},
        {"name": "c", "terminal": true},
    ]})
}

#[tokio::test]
async fn messages_of_problems_are_as_written() {
    let server = Server::start().await;
    let run = server.start_chain("waits", &[wait_for_go()]).await;
    server.publish("machine", &machine()).await;
    let started = server.post("/v1/workflows/machine/runs", &json!({})).await.is(201);
    let machine = format!("/v1/runs/{}", started["run"]["id"].as_str().unwrap());
    server.put("/v1/store/books/count", &json!({"value": 1})).await.is(201);
    server.put("/v1/store/books/title", &json!({"value": "a"})).await.is(201);
    let started = server.post("/v1/workflows/waits/runs", &json!({"delaySeconds": 86_400})).await.is(201);
    let later = format!("/v1/runs/{}", started["run"]["id"].as_str().unwrap());
    let mut triggered = chain(&[]);
    triggered["trigger"] = json!({"type": "event", "topic": "a"});
    server.publish("triggered", &triggered).await;
    let subscriptions = server.get("/v1/subscriptions").await.is(200);
    let trigger = format!("/v1/subscriptions/{}", subscriptions["subscriptions"][0]["id"].as_str().unwrap());
    let mut text = String::new();
    let id = run.trim_start_matches("/v1/runs/");
    let places = [("RUN", run.as_str()), ("MACHINE", &machine), ("LATER", &later), ("TRIGGER", &trigger), ("ID", id)];
    let filled = |path: &str| places.iter().fold(path.to_owned(), |path, (name, place)| path.replace(name, place));
    for (method, path, body) in requests().into_iter().chain(rarer_requests()) {
        let method: Method = method.parse().unwrap();
        let answer = server.ask_as(server.key(), method.clone(), &filled(path), &body).await;
        let shown = if body.is_null() { String::new() } else { format!(" {body}") };
        record(&mut text, &format!("{method} {path}{shown}"), answer.status, &answer.body, &run);
    }
    for (method, path, headers, body) in HEADERS {
        let all: Vec<_> = headers.iter().copied().chain([("x-api-key", server.key())]).collect();
        let answer = server.ask(method.clone(), &filled(path), &all, body).await;
        let shown: Vec<_> = headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        let title = format!("{method} {path} with {} {body}", shown.join(", "));
        record(&mut text, title.trim_end(), answer.status, &answer.body, &run);
    }
    let viewer = server.key_with(&[Permission::View]).await;
    for (title, headers) in [
        ("without an API key", vec![]),
        ("with something else", vec![("x-api-key", "x")]),
        ("with an unknown API key", vec![("authorization", "Bearer es_0000000000000000000000000000000000000000000")]),
        ("with two API keys", vec![("x-api-key", server.key()), ("authorization", "Bearer es_1")]),
        ("with a permission that does not suffice", vec![("x-api-key", &*viewer)]),
    ] {
        let answer = server.ask(Method::POST, "/v1/workflow-runs", &headers, "{}").await;
        record(&mut text, title, answer.status, &answer.body, &run);
    }
    let path = format!("/v1/me?key={}", server.key());
    let answer = server.ask(Method::GET, &path, &[("x-api-key", server.key())], "").await;
    record(&mut text, "with an API key in the query", answer.status, &answer.body, &run);
    let bare = Server::without_secrets_key().await;
    let answer = bare.put("/v1/secrets/a", &json!({"value": "x"})).await;
    record(&mut text, "a secret without a key to seal it", answer.status, &answer.body, &run);
    snapshot::check(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/http/messages.txt"), &text);
}

/// Adds a problem document. Ids and times differ in each execution.
fn record(text: &mut String, title: &str, status: u16, body: &Value, run: &str) {
    assert!(status >= 400, "{title} is answered {status}: {body}");
    let id = run.trim_start_matches("/v1/runs/");
    let shown = |name: &str| body[name].as_str().map(|text| mask(&text.replace(id, "RUN")));
    writeln!(text, "{title}").unwrap();
    writeln!(text, "  {status} {}: {}", shown("code").unwrap(), shown("detail").unwrap()).unwrap();
    if let Some(hint) = shown("hint") {
        writeln!(text, "      hint: {hint}").unwrap();
    }
}

/// A text without times and ids of keys.
fn mask(text: &str) -> String {
    let words = text.split(' ').map(|word| {
        let (core, rest) = word.split_at(word.trim_end_matches([',', ';', ':']).len());
        let is_key = core.strip_prefix("key:").is_some_and(|id| id.parse::<uuid::Uuid>().is_ok());
        match core.parse::<everstep_core::time::Timestamp>() {
            Ok(_) => format!("TIME{rest}"),
            Err(_) if is_key => format!("key:KEY{rest}"),
            // Requests name ids that do not exist by zeros.
            Err(_) if !core.starts_with("00000000") && core.parse::<uuid::Uuid>().is_ok() => format!("ID{rest}"),
            Err(_) => word.to_owned(),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}
