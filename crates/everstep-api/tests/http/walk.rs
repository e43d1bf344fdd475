//! Tests every route of the table: without an API key, with wrong ones, without the permission, and with a key of
//! another workspace.
//!
//! A new route is tested too. If it writes, [`written`] must contain its body; if its path has a new kind of parameter,
//! [`Ours::path`] must have a value for it.

use axum::http::Method;
use everstep_api::auth::{Access, ApiKey, Permission};
use everstep_api::{Route, routes};
use everstep_core::dead_letter::DeadLetter;
use everstep_core::ids::{RunId, WorkspaceId};
use everstep_core::payload::Payload;
use everstep_core::time::Timestamp;
use everstep_store::KeyRow;
use everstep_testkit::contract::fixtures::{dead_letter, write_letter};
use serde_json::{Value, json};

use crate::people;
use crate::support::{Server, chain, wait_for_go};
use crate::workers::hello;

/// Part of all data of the first workspace. Other workspaces must never see it.
const HIDDEN: &str = "seen-by-its-own-alone";
/// The name of resources in the first workspace. Other workspaces may know the name, and find nothing.
const NAME: &str = "ours";
/// The name of a state machine in the first workspace.
const MACHINE: &str = "our-machine";

/// One of each resource, in the default workspace.
struct Ours {
    run: String,
    test_run: String,
    /// A run of a state machine in which only one person may act.
    machine_run: String,
    key: String,
    /// The session of a worker.
    session: String,
    /// A link in the namespace `ours`.
    link: String,
    /// An event of the topic `ours`.
    event: String,
    /// A subscription that was created after it.
    subscription: String,
    dead_letter: String,
    /// A file that no run has.
    file: String,
}

/// The route that names runs in its query.
const MANY_RUNS: &str = "/v1/runs/wait";

impl Ours {
    async fn make(server: &Server) -> Self {
        let wait = json!({"id": "wait", "type": "wait", "config": {"event": "go", "match": {"note": HIDDEN}}});
        let definition = chain(&[wait]);
        server.put(&format!("/v1/workflows/{NAME}"), &definition).await.is(201);
        let start = json!({"input": {"note": HIDDEN}});
        let started = server.post(&format!("/v1/workflows/{NAME}/runs"), &start).await.is(201);
        let run = started["run"]["id"].as_str().unwrap().to_owned();
        server.wait_for(&format!("/v1/runs/{run}"), "waiting").await;
        server.put(&format!("/v1/workflows/{MACHINE}"), &machine()).await.is(201);
        let started = server.post(&format!("/v1/workflows/{MACHINE}/runs"), &start).await.is(201);
        let machine_run = started["run"]["id"].as_str().unwrap().to_owned();
        let test = json!({"definition": definition, "input": {"note": HIDDEN}});
        let started = server.post("/v1/test-runs", &test).await.is(201);
        let test_run = started["run"]["id"].as_str().unwrap().to_owned();
        server.wait_for(&format!("/v1/runs/{test_run}"), "waiting").await;
        let made = server.post("/v1/keys", &json!({"name": HIDDEN, "role": "viewer"})).await.is(201);
        let key = made["key"]["id"].as_str().unwrap().to_owned();
        server.put(&format!("/v1/secrets/{NAME}"), &json!({"value": HIDDEN})).await.is(201);
        let source = json!({"type": "sqlite", "file": format!("{HIDDEN}.db")});
        server.put(&format!("/v1/data-sources/{NAME}"), &source).await.is(201);
        let query = json!({"source": NAME, "sql": format!("select '{HIDDEN}'")});
        server.put(&format!("/v1/queries/{NAME}"), &query).await.is(201);
        let mut hello = hello(&[("code", 1)]);
        hello["worker"] = json!(HIDDEN);
        let opened = server.post("/v1/worker/sessions", &hello).await.is(201);
        let session = opened["session"].as_str().unwrap().to_owned();
        server.put(&format!("/v1/store/{NAME}/{NAME}"), &json!({"value": HIDDEN})).await.is(201);
        let mut link = our_link();
        link["attributes"] = json!({"note": HIDDEN});
        let made = server.post(&format!("/v1/links/{NAME}"), &link).await.is(201);
        let link = made["linkId"].as_str().unwrap().to_owned();
        let published =
            server.post(&format!("/v1/topics/{NAME}?waitSeconds=30"), &json!({"note": HIDDEN})).await.is(200);
        let event = published["id"].as_str().unwrap().to_owned();
        let subscribe = json!({"type": "workflow", "name": NAME, "filter": {"note": HIDDEN}});
        let made = server.post(&format!("/v1/topics/{NAME}/subscriptions"), &subscribe).await.is(201);
        let subscription = made["id"].as_str().unwrap().to_owned();
        let dead_letter = make_dead_letter(server).await;
        let uploaded = server.post("/v1/files?name=ours.txt", &json!(HIDDEN)).await.is(201);
        let file = uploaded["id"].as_str().unwrap().to_owned();
        Self { run, test_run, machine_run, key, session, link, event, subscription, dead_letter, file }
    }

    /// Resources that do not exist.
    fn missing() -> Self {
        let [run, test_run, machine_run, key, link, event, subscription, dead_letter, file] =
            [1, 2, 4, 3, 5, 6, 7, 8, 9].map(uuid_of);
        let session = "none".to_owned();
        Self { run, test_run, machine_run, key, session, link, event, subscription, dead_letter, file }
    }

    /// A route's path with a resource of ours in each parameter.
    fn path(&self, route: &Route) -> String {
        if route.path == MANY_RUNS {
            return format!("{MANY_RUNS}?ids={}&waitSeconds=0", self.run);
        }
        let mut words: Vec<&str> = route.path.split('/').collect();
        for place in 1..words.len() {
            words[place] = match (words[place - 1], words[place]) {
                ("workflows" | "secrets" | "data-sources", "{name}") | ("queries", "{id}") => NAME,
                ("catalog", "{kind}") => "noop",
                ("schemas", "{style}") => "graph",
                ("workspaces", "{name}") => "default",
                ("runs", "{id}") if is_of_machine(route.path) => &self.machine_run,
                ("instances", "{id}") => &self.machine_run,
                ("definitions", "{id}") => MACHINE,
                ("runs", "{id}") => &self.run,
                ("test-runs", "{id}") => &self.test_run,
                ("keys", "{id}") => &self.key,
                ("sessions", "{id}") => &self.session,
                ("signals", "{event}") => "go",
                ("steps", "{key}") => "wait",
                (_, "{namespace}" | "{key}") | ("topics", "{topic}" | "{pattern}") => NAME,
                // A POST to this path publishes to a topic.
                ("events", "{id}") if (&route.method, route.path) == (&Method::POST, "/v1/events/{id}") => NAME,
                ("events", "{id}") => &self.event,
                ("subscriptions", "{id}") => &self.subscription,
                ("dead-letters", "{id}") => &self.dead_letter,
                ("files", "{id}" | "{publicId}") => &self.file,
                (_, "{id}") if route.path.starts_with("/v1/links/") => &self.link,
                (before, word) if word.starts_with('{') => {
                    panic!("{} {}: make something for {before}/{word} in Ours", route.method, route.path)
                }
                (_, word) => word,
            };
        }
        let path = words.join("/");
        match (route.method.as_str(), route.path) {
            ("DELETE", "/v1/links/{namespace}") => format!("{path}?fromType=a&fromId=1"),
            ("POST", "/v1/files") => format!("{path}?name=a.txt"),
            ("GET", "/v1/links/{namespace}/lookup") => format!("{path}?type=a&id=1"),
            _ => path,
        }
    }

    /// The body of a request to a route, about our resources.
    fn body(&self, route: &Route) -> Value {
        let mut body = written(route).0;
        if let Some(session) = body.get_mut("session") {
            *session = json!(self.session);
        }
        if let Some(subscription) = body.get_mut("subscription") {
            *subscription = json!(self.subscription);
        }
        body
    }

    /// Checks that our resources did not change.
    async fn are_untouched(&self, server: &Server) {
        for run in [&self.run, &self.test_run] {
            let run = server.get(&format!("/v1/runs/{run}")).await.is(200);
            assert_eq!((&run["status"], &run["version"]), (&json!("waiting"), &json!(4)));
        }
        let run = server.get(&format!("/v1/runs/{}", self.machine_run)).await.is(200);
        assert_eq!((&run["status"], &run["machine"]["versionNo"]), (&json!("waiting"), &json!(1)));
        assert_eq!(run["machine"]["assigned"], json!(["ann"]));
        for name in [NAME, MACHINE] {
            let workflow = server.get(&format!("/v1/workflows/{name}")).await.is(200);
            assert_eq!((&workflow["version"], &workflow["activeVersion"]), (&json!(1), &json!(1)));
        }
        let poll = json!({"session": self.session, "seen": 0, "waitMs": 0});
        server.post("/v1/worker/poll", &poll).await.is(200);
        for path in ["data-sources", "queries"] {
            let shown = server.get(&format!("/v1/{path}/{NAME}")).await.is(200);
            assert!(shown.to_string().contains(HIDDEN), "{shown}");
        }
        let record = server.get(&format!("/v1/store/{NAME}/{NAME}")).await.is(200);
        assert_eq!((&record["value"], &record["revision"]), (&json!(HIDDEN), &json!(1)));
        let link = server.get(&format!("/v1/links/{NAME}/{}", self.link)).await.is(200);
        assert_eq!((&link["attributes"]["note"], &link["change"]), (&json!(HIDDEN), &json!(2)));
        assert_eq!(server.get(&format!("/v1/namespaces/{NAME}")).await.is(200)["changes"], 2);
        let event = server.get(&format!("/v1/events/{}", self.event)).await.is(200);
        assert_eq!((&event["data"]["note"], &event["matched"]["workflows"]), (&json!(HIDDEN), &json!(0)));
        let events = server.get(&format!("/v1/events?topic={NAME}")).await.is(200);
        assert_eq!(events["events"].as_array().unwrap().len(), 1, "{events}");
        let subscription = server.get(&format!("/v1/subscriptions/{}", self.subscription)).await.is(200);
        assert_eq!((&subscription["filter"]["note"], &subscription["pausedAt"]), (&json!(HIDDEN), &Value::Null));
        let letter = server.get(&format!("/v1/dead-letters/{}", self.dead_letter)).await.is(200);
        assert_eq!((&letter["status"], &letter["config"]["note"]), (&json!("dead"), &json!(HIDDEN)));
        assert_eq!(server.get(&format!("/v1/files/{}", self.file)).await.is(200), HIDDEN);
        assert_eq!(*server.vault.open(WorkspaceId::DEFAULT, NAME).await.unwrap(), HIDDEN);
        let keys = server.get("/v1/keys?limit=500").await.is(200);
        let key = keys["keys"].as_array().unwrap().iter().find(|key| key["id"] == self.key.as_str());
        assert_eq!(key.unwrap()["revokedAt"], Value::Null);
    }
}

/// A dead letter with hidden data in all texts of a caller. Its config names a secret with hidden data.
async fn make_dead_letter(server: &Server) -> String {
    let run = RunId::new(Timestamp::from_millis(1_790_000_000_000), 77);
    let letter = DeadLetter {
        workflow: Some(NAME.to_owned()),
        target: HIDDEN.to_owned(),
        config: Payload::from(json!({"note": HIDDEN, "secret": {"$secret": NAME}})),
        secrets: vec!["/secret".to_owned()],
        written: None,
        ..dead_letter(run, 1)
    };
    write_letter(&*server.database, server.engine.node(), &letter).await;
    letter.id.to_string()
}

/// A state machine in which one person may act.
fn machine() -> Value {
    json!({"states": [
        {"name": "review", "initial": true, "assign": ["ann"], "title": HIDDEN, "on": {
            "APPROVE": {"to": "done", "require": {"assigned": true}},
        }},
        {"name": "done", "terminal": true},
    ]})
}

/// Whether a route is about a run of a state machine.
fn is_of_machine(path: &str) -> bool {
    ["transitions", "actions", "history", "assign", "evaluate"].iter().any(|word| path.ends_with(word))
}

/// Another state machine, without hidden data.
fn other() -> Value {
    json!({"states": [{"name": "a", "initial": true, "on": {"GO": {"to": "b"}}}, {"name": "b", "terminal": true}]})
}

/// The link of ours, without its attributes.
fn our_link() -> Value {
    json!({"from": {"type": "a", "id": "1"}, "to": {"type": "b", "id": "2"}})
}

/// The headers of a request to a route.
fn headers<'a>(route: &Route, credential: (&'a str, &'a str)) -> Vec<(&'a str, &'a str)> {
    // The aliases refuse requests without a key.
    let key = route.path.starts_with("/workflow-engine").then_some(("idempotency-key", "walked"));
    [credential].into_iter().chain(key).collect()
}

/// The resource that a caller of another workspace finds under our names.
#[derive(Debug, PartialEq)]
enum Found {
    /// Nothing with that name.
    Nothing,
    /// Their own: the resources that they create or change are in their workspace.
    Theirs,
    /// The route is not for other workspaces at all.
    Denied,
    /// Another rejection.
    Refused(u16),
}

/// A body that a route would accept, and the result for callers of another workspace. A read needs no body.
fn written(route: &Route) -> (Value, Found) {
    use Found::{Denied, Nothing, Refused, Theirs};
    let nothing = Value::Null;
    match (route.method.as_str(), route.path) {
        ("GET", "/v1/nodes" | "/v1/workspaces" | "/metrics") => (nothing, Denied),
        // The kinds of nodes are the same for all.
        ("GET", "/v1/catalog/{kind}" | "/v1/schemas/{style}") => (nothing, Theirs),
        // This request is not a WebSocket upgrade.
        ("GET", "/v1/worker/socket" | "/v1/socket") => (nothing, Refused(426)),
        ("POST", "/v1/worker/sessions") => (hello(&[("theirs-too", 1)]), Theirs),
        ("DELETE", "/v1/worker/sessions/{id}") => (nothing, Refused(410)),
        ("POST", "/v1/worker/poll") => (json!({"session": "", "seen": 0, "waitMs": 0}), Refused(410)),
        ("POST", "/v1/worker/reports") => (json!({"session": "", "seen": 0, "reports": []}), Refused(410)),
        ("POST", "/v1/runs/{id}/transitions" | "/workflow-engine/instances/{id}/transition") => {
            (json!({"action": "APPROVE"}), Nothing)
        }
        ("POST", "/v1/files") => (json!("theirs"), Theirs),
        ("POST", "/v1/runs/{id}/evaluate") => (json!({"action": "APPROVE"}), Nothing),
        ("POST", "/v1/runs/{id}/assign") => (json!({"who": ["eve"]}), Nothing),
        ("POST", "/v1/workflows/evaluate" | "/workflow-engine/evaluate") => {
            (json!({"definition": other(), "state": "a"}), Theirs)
        }
        ("POST", "/workflow-engine/definitions") => (json!({"workflowCode": "their-machine", "dsl": other()}), Theirs),
        ("POST", "/workflow-engine/definitions/validate") => (other(), Theirs),
        ("PATCH", "/workflow-engine/definitions/{id}") => (json!({"isActive": false}), Nothing),
        // No subscription of theirs has this pattern.
        ("GET", "/v1/topics/{pattern}/subscriptions") => (nothing, Theirs),
        ("POST", "/v1/topics/{topic}" | "/v1/events/{id}") => (json!({"note": "theirs"}), Theirs),
        ("POST", "/v1/events") => (json!({"topic": "theirs", "data": 1}), Theirs),
        ("POST", "/v1/events/{id}/replay") => (json!({"subscription": ""}), Nothing),
        ("POST", "/v1/topics/{pattern}/subscriptions") => (json!({"type": "workflow", "name": "theirs"}), Theirs),
        ("PATCH", "/v1/subscriptions/{id}") => (json!({"filter": {"theirs": 1}}), Nothing),
        ("DELETE", "/v1/subscriptions/{id}")
        | ("POST", "/v1/subscriptions/{id}/pause" | "/v1/subscriptions/{id}/resume") => (nothing, Nothing),
        ("POST", "/v1/dead-letters/{id}/requeue") => (nothing, Nothing),
        ("POST", "/v1/dead-letters/{id}/discard") => (json!({"reason": "theirs"}), Nothing),
        // All of theirs, which is none.
        ("POST", "/v1/dead-letters/requeue" | "/v1/dead-letters/discard") => {
            (json!({"filter": {"workflow": NAME}}), Theirs)
        }
        ("GET", path) if path.contains('{') => (nothing, Nothing),
        ("GET", _) => (nothing, Theirs),
        ("PUT", "/v1/workflows/{name}") => (chain(&[wait_for_go()]), Theirs),
        ("POST", "/v1/workflows") => (json!({"name": "theirs", "definition": chain(&[])}), Theirs),
        ("POST", "/v1/workflows/validate") => (chain(&[]), Theirs),
        ("POST", "/v1/workflows/import") => {
            (json!({"everstep": 1, "kind": "workflow", "name": "brought", "definition": chain(&[])}), Theirs)
        }
        ("DELETE", "/v1/workflows/{name}") => (nothing, Nothing),
        ("POST", "/v1/workflows/{name}/activate") => (json!({"version": 1}), Nothing),
        ("POST", "/v1/workflows/{name}/clone") => (json!({"name": "copy"}), Nothing),
        // A name without a workflow belongs to code, which a worker may register.
        ("POST", "/v1/workflows/{name}/runs") => (json!({}), Theirs),
        ("POST", "/v1/workflows/{name}/runs/batch") => (json!({"runs": [{}]}), Theirs),
        ("DELETE", "/v1/workflows/{name}/runs/{id}") => (nothing, Nothing),
        ("POST", "/v1/workflows/{name}/runs/{id}/signals/{event}") => (json!({"note": HIDDEN}), Nothing),
        ("POST", "/v1/workflow-runs" | "/api/v1/workflow-runs") => (json!({"definitionId": NAME}), Nothing),
        ("POST", "/v1/runs/{id}/signals/{event}") => (json!({"note": HIDDEN}), Nothing),
        ("POST", "/v1/runs/{id}/cancel" | "/v1/runs/{id}/pause" | "/v1/runs/{id}/resume" | "/v1/runs/{id}/retry") => {
            (json!({}), Nothing)
        }
        ("POST", "/v1/runs/{id}/fork" | "/v1/runs/{id}/view") => (json!({}), Nothing),
        // All of theirs, which is none.
        ("POST", "/v1/runs/bulk") => (json!({"action": "cancel", "filter": {"workflow": NAME}}), Theirs),
        ("POST", "/v1/test-runs") => (json!({"definition": chain(&[])}), Theirs),
        ("DELETE", "/v1/test-runs/{id}") => (nothing, Nothing),
        ("POST", "/v1/keys") => (json!({"name": "theirs", "role": "viewer"}), Theirs),
        ("DELETE", "/v1/keys/{id}") => (nothing, Nothing),
        ("POST", "/v1/tickets" | "/v1/sign-in-codes") => (nothing, Theirs),
        // Their key was not created by a one-time link.
        ("DELETE", "/v1/sign-ins/current") => (nothing, Refused(409)),
        ("POST", "/v1/workspaces") => (json!({"name": "third"}), Denied),
        ("PATCH", "/v1/workspaces/{name}") => (json!({"options": {"fetch": true}}), Nothing),
        ("PUT", "/v1/secrets/{name}") => (json!({"value": "theirs"}), Theirs),
        ("DELETE", "/v1/secrets/{name}") => (nothing, Nothing),
        ("POST", "/v1/data-sources/{name}/test") => (nothing, Nothing),
        ("PUT", "/v1/data-sources/{name}") | ("POST", "/v1/data-sources/test") => {
            (json!({"type": "sqlite", "file": "theirs.db"}), Theirs)
        }
        ("DELETE", "/v1/data-sources/{name}" | "/v1/queries/{id}") => (nothing, Nothing),
        ("PUT", "/v1/queries/{id}") => (json!({"source": NAME, "sql": "select 1"}), Theirs),
        ("POST", "/v1/queries/{id}/run") => (json!({}), Nothing),
        ("PUT", "/v1/store/{namespace}/{key}") => (json!({"value": 1}), Theirs),
        ("POST", "/v1/store/{namespace}/{key}/increment") => (json!({}), Theirs),
        ("POST", "/v1/links/{namespace}") => (our_link(), Theirs),
        ("POST", "/v1/namespaces/{namespace}/transact") => {
            (json!({"writes": [{"set": {"key": "theirs", "value": 1}}]}), Theirs)
        }
        (
            "DELETE",
            "/v1/store/{namespace}/{key}"
            | "/v1/links/{namespace}"
            | "/v1/links/{namespace}/{id}"
            | "/v1/namespaces/{namespace}",
        ) => (nothing, Nothing),
        (method, path) => {
            panic!("{method} {path} is missing in this test: add its body, and what other workspaces find")
        }
    }
}

fn guarded() -> impl Iterator<Item = Route> {
    routes().into_iter().filter(|route| route.access != Access::Public)
}

fn text(body: &Value) -> String {
    if body.is_null() { String::new() } else { body.to_string() }
}

#[tokio::test]
async fn no_request_is_accepted_without_a_valid_key() {
    let server = Server::start().await;
    let ours = Ours::make(&server).await;
    let now = Timestamp::from_millis(1_000);
    let add = async |change: fn(KeyRow) -> KeyRow| {
        let secret = ApiKey::generate();
        let row = change(secret.row(WorkspaceId::DEFAULT, "bad", &[Permission::Admin], now));
        server.access.add_key(&row).await.unwrap();
        (secret.reveal().to_owned(), row)
    };
    let (expired, _) = add(|row| KeyRow { expires_at: Some(Timestamp::from_millis(2_000)), ..row }).await;
    let (revoked, row) = add(|row| row).await;
    server.ask_as(&revoked, Method::GET, "/v1/me", &Value::Null).await.is(200);
    server.delete(&format!("/v1/keys/{}", row.id)).await.is(200);
    let stranger = ApiKey::generate();
    let (good, _) = add(|row| row).await;
    let forged = format!("est_{}", "a1".repeat(72));
    let bearer = format!("Bearer {}", stranger.reveal());
    let wrong: &[&[(&str, &str)]] = &[
        &[],
        &[("x-api-key", "")],
        &[("x-api-key", "es_short")],
        &[("x-api-key", &format!("{good}x"))],
        &[("x-api-key", stranger.reveal())],
        &[("authorization", &bearer)],
        &[("authorization", &good)],
        &[("authorization", "Basic ZXNfOng=")],
        &[("x-api-key", &revoked)],
        &[("x-api-key", &expired)],
        &[("x-api-key", &forged)],
        &[("x-api-key", &good), ("x-api-key", &good)],
    ];
    let mut open = Vec::new();
    for route in routes() {
        let path = ours.path(&route);
        if route.access == Access::Public {
            open.push(route.path);
            if route.method == Method::POST {
                // A code is the credential of this route.
                let forged = json!({"code": format!("esc_{}", "A".repeat(118))}).to_string();
                server.ask(route.method.clone(), &path, &[], &forged).await.refuses(401, "AUTH_ERROR");
                continue;
            }
            assert_eq!(server.knock(route.method.clone(), &path, &[], "").await, 200, "{path}");
            continue;
        }
        let body = text(&ours.body(&route));
        for headers in wrong {
            let answer = server.ask(route.method.clone(), &path, headers, &body).await;
            assert_eq!(answer.headers["www-authenticate"], "Bearer");
            let problem = answer.refuses(401, "AUTH_ERROR");
            assert!(problem["hint"].as_str().is_some(), "{problem}");
            assert!(!problem.to_string().contains(HIDDEN), "{path}: {problem}");
        }
    }
    assert_eq!(open, ["/livez", "/readyz", "/v1/openapi.json", "/docs", "/", "/v1/sign-ins"]);
    ours.are_untouched(&server).await;
    // A missing resource is not reported to unauthenticated callers.
    server.ask(Method::GET, "/v1/nothing", &[], "").await.refuses(401, "AUTH_ERROR");
    server.get("/v1/nothing").await.refuses(404, "NOT_FOUND");
    server.ask(Method::DELETE, "/v1/runs", &[], "").await.refuses(401, "AUTH_ERROR");
    let answer = server.put("/v1/runs", &Value::Null).await;
    assert_eq!(answer.headers["allow"], "GET,HEAD");
    answer.refuses(405, "METHOD_NOT_ALLOWED");
}

#[tokio::test]
async fn every_route_asks_for_its_permission() {
    let server = Server::start().await;
    let ours = Ours::make(&server).await;
    // Not ours: a permitted request affects no resource.
    let other = Ours::missing();
    let mut keys = Vec::new();
    for permission in Permission::ALL {
        keys.push((*permission, server.key_with(&[*permission]).await));
    }
    for route in guarded() {
        let Some(needed) = route.access.permission() else { continue };
        let body = text(&ours.body(&route));
        for (permission, key) in &keys {
            let headers = headers(&route, ("x-api-key", key));
            if permission.implies(needed) {
                let body = text(&other.body(&route));
                let [path, body] = [&other.path(&route), &body].map(|text| without_names(text));
                let status = server.knock(route.method.clone(), &path, &headers, &body).await;
                assert!(![401, 403].contains(&status), "{} {path} with {permission}: {status}", route.method);
            } else if may_act(&route, *permission) {
                // The handler decides; another test walks these routes.
            } else {
                let answer = server.ask(route.method.clone(), &ours.path(&route), &headers, &body).await;
                let problem = answer.refuses(403, "PERMISSION_DENIED");
                assert!(problem["detail"].as_str().unwrap().contains(needed.as_str()), "{problem}");
                assert!(problem["hint"].as_str().unwrap().contains("everstep keys create"), "{problem}");
                assert!(!problem.to_string().contains(HIDDEN), "{problem}");
            }
        }
    }
    ours.are_untouched(&server).await;
}

#[tokio::test]
async fn people_need_the_permissions_that_keys_need() {
    let server = people::start().await;
    let ours = Ours::make(&server).await;
    let other = Ours::missing();
    for route in guarded() {
        let Some(needed) = route.access.permission() else { continue };
        for permission in Permission::ALL {
            let bearer = format!("Bearer {}", people::token(&server, permission.as_str(), &[permission.as_str()]));
            let headers = headers(&route, ("authorization", &bearer));
            if permission.implies(needed) {
                let body = text(&other.body(&route));
                let [path, body] = [&other.path(&route), &body].map(|text| without_names(text));
                let status = server.knock(route.method.clone(), &path, &headers, &body).await;
                assert!(![401, 403].contains(&status), "{} {path} with {permission}: {status}", route.method);
            } else if may_act(&route, *permission) {
                // The handler decides; another test walks these routes.
            } else {
                let body = text(&ours.body(&route));
                let answer = server.ask(route.method.clone(), &ours.path(&route), &headers, &body).await;
                let problem = answer.refuses(403, "PERMISSION_DENIED");
                assert!(problem["detail"].as_str().unwrap().contains(needed.as_str()), "{problem}");
                assert!(!problem.to_string().contains(HIDDEN), "{problem}");
            }
        }
    }
    ours.are_untouched(&server).await;
}

#[tokio::test]
async fn a_caller_who_may_only_act_sees_nothing_of_other_runs() {
    let server = people::start().await;
    let ours = Ours::make(&server).await;
    let key = server.key_with(&[Permission::Act]).await;
    let bearer = format!("Bearer {}", people::token(&server, "eve", &["workflow:act"]));
    for route in guarded().filter(|route| route.access != Access::Key) {
        for credential in [("x-api-key", &*key), ("authorization", &*bearer)] {
            let (path, body) = (ours.path(&route), text(&ours.body(&route)));
            let answer = server.ask(route.method.clone(), &path, &headers(&route, credential), &body).await;
            let place = format!("{} {}: {} {}", route.method, route.path, answer.status, answer.body);
            let is_transition = route.path.ends_with("/transitions") || route.path.ends_with("/transition");
            let expected = match (route.access, route.method.as_str()) {
                // A transition says who may perform it; everything else does not exist.
                (Access::Permission(Permission::Act), "POST") if is_transition || route.path.ends_with("/assign") => {
                    403
                }
                (Access::Permission(Permission::Act), "POST") if route.path == "/v1/files" => 201,
                // The inbox contains what the caller can decide, which is nothing.
                (Access::Permission(Permission::Act), "GET") if route.path == "/v1/inbox" => 200,
                // The events of the response name the runs that cannot be read.
                (Access::OrAct(Permission::View), "GET") if route.path == MANY_RUNS => 200,
                (Access::Permission(Permission::Act), _) | (Access::OrAct(Permission::View), _) => 404,
                (Access::OrAct(_) | Access::Permission(_) | Access::Key | Access::Public, _) => 403,
            };
            assert_eq!(answer.status, expected, "{place}");
            assert!(!answer.body.to_string().contains(HIDDEN), "{place}");
            for name in ["state", "versionNo", "lastBy", "lastAt"] {
                assert_eq!(answer.body[name], Value::Null, "{place}");
            }
            if is_transition {
                assert_eq!(answer.body["required"], json!(["assigned"]), "{place}");
            }
        }
    }
    ours.are_untouched(&server).await;
}

/// Whether a caller with this permission alone passes the gate of a route.
fn may_act(route: &Route, permission: Permission) -> bool {
    matches!(route.access, Access::OrAct(_)) && permission.implies(Permission::Act)
}

/// A path with another query parameter.
fn with_query(path: &str, query: &str) -> String {
    format!("{path}{}{query}", if path.contains('?') { '&' } else { '?' })
}

fn without_names(text: &str) -> String {
    text.replace(MACHINE, "no-machine").replace(NAME, "nothing")
}

#[tokio::test]
async fn nothing_of_another_workspace_is_there() {
    let server = Server::start().await;
    let ours = Ours::make(&server).await;
    let made = server.post("/v1/workspaces", &json!({"name": "theirs"})).await.is(201);
    let stranger = made["secret"].as_str().unwrap();
    // Their own resources are created last: until then these names do not exist for them.
    let (theirs, not): (Vec<_>, Vec<_>) = guarded().partition(|route| written(route).1 == Found::Theirs);
    for route in not.into_iter().chain(theirs) {
        let (body, found) = (ours.body(&route), written(&route).1);
        let (path, place) = (ours.path(&route), format!("{} {}", route.method, route.path));
        if route.is_live() {
            let status = server.knock(route.method.clone(), &path, &[("x-api-key", stranger)], "").await;
            assert_eq!(status, if found == Found::Refused(426) { 426 } else { 404 }, "{place}");
            continue;
        }
        let headers = headers(&route, ("x-api-key", stranger));
        let answer = server.ask(route.method.clone(), &path, &headers, &text(&body)).await;
        let is_as_found = match found {
            Found::Nothing => answer.status == 404,
            Found::Theirs => (200..300).contains(&answer.status),
            Found::Denied => answer.status == 403,
            Found::Refused(status) => answer.status == status,
        };
        assert!(is_as_found, "{place} finds {found:?}: {} {}", answer.status, answer.body);
        assert!(!answer.body.to_string().contains(HIDDEN), "{place}: {}", answer.body);
        let tells_run =
            [&ours.run, &ours.test_run, &ours.machine_run].iter().any(|run| answer.body.to_string().contains(*run));
        // The events of that response name the runs that cannot be read.
        assert!(!tells_run || answer.status == 404 || route.path == MANY_RUNS, "{place}: {}", answer.body);
    }
    ours.are_untouched(&server).await;
}

#[tokio::test]
async fn no_route_takes_a_key_from_its_address() {
    let server = Server::start().await;
    let ours = Ours::make(&server).await;
    let key = server.key_with(&[Permission::Admin]).await;
    for route in guarded() {
        let body = text(&ours.body(&route));
        for query in [format!("x={key}"), "api_key=1".to_owned(), format!("x-api-key={key}"), format!("ticket={key}")] {
            // A valid key in the header does not change that.
            for headers in [&[][..], &[("x-api-key", &*key)]] {
                let path = with_query(&ours.path(&route), &query);
                let problem = server.ask(route.method.clone(), &path, headers, &body).await.refuses(401, "AUTH_ERROR");
                assert!(problem["detail"].as_str().unwrap().contains("query string"), "{path}: {problem}");
            }
        }
    }
    ours.are_untouched(&server).await;
}

#[tokio::test]
async fn a_ticket_opens_live_routes_alone() {
    let server = Server::start().await;
    let ours = Ours::make(&server).await;
    let made = server.post("/v1/tickets", &Value::Null).await.is(201);
    let ticket = made["ticket"].as_str().unwrap();
    for route in guarded() {
        let (path, body) = (ours.path(&route), text(&ours.body(&route)));
        let bearer = format!("Bearer {ticket}");
        let shown = with_query(&path, &format!("ticket={ticket}"));
        if route.is_live() {
            // A socket is opened by an upgrade, which this request is not.
            let opened = if written(&route).1 == Found::Refused(426) { 426 } else { 200 };
            assert_eq!(server.knock(route.method.clone(), &path, &[("authorization", &bearer)], "").await, opened);
            assert_eq!(server.knock(route.method.clone(), &shown, &[], "").await, opened);
            continue;
        }
        let of_header = server.ask(route.method.clone(), &path, &[("authorization", &bearer)], &body).await;
        for answer in [of_header, server.ask(route.method.clone(), &shown, &[], &body).await] {
            let problem = answer.refuses(401, "AUTH_ERROR");
            assert!(problem["detail"].as_str().unwrap().contains("only by live routes"), "{path}: {problem}");
        }
    }
    ours.are_untouched(&server).await;
}

fn uuid_of(number: u64) -> String {
    everstep_core::ids::RunId::new(Timestamp::from_millis(1), number.into()).to_string()
}
