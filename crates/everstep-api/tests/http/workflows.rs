//! Definitions: saved, shown, activated, exported and imported, and rejected with all their problems.

use std::sync::Arc;
use std::time::Duration;

use axum::http::Method;
use everstep_api::auth::Permission;
use everstep_engine::{NodeClock, Start};
use everstep_testkit::held::HeldClock;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::support::{Server, answer_after, chain, until, wait_for_go};

#[tokio::test]
async fn a_definition_is_saved_as_a_version_and_shown() {
    let server = Server::start().await;
    let answer = server.put("/v1/workflows/order", &chain(&[])).await;
    assert_eq!(
        (&answer.headers["location"], &answer.headers["etag"]),
        (&"/v1/workflows/order".parse().unwrap(), &"\"1\"".parse().unwrap())
    );
    let first = answer.is(201);
    assert_eq!((&first["name"], &first["version"], &first["style"]), (&json!("order"), &json!(1), &json!("graph")));
    assert_eq!((&first["retentionDays"], &first["activeVersion"]), (&json!(30), &json!(1)));
    assert_eq!(first["definition"]["nodes"].as_array().unwrap().len(), 2);
    let again = server.put("/v1/workflows/order", &chain(&[])).await.is(200);
    assert_eq!(again, first);
    let second = chain(&[json!({"id": "a", "type": "noop"})]);
    assert_eq!(server.put("/v1/workflows/order", &second).await.is(200)["version"], 2);
    assert_eq!(server.get("/v1/workflows/order").await.is(200)["version"], 2);
    let old = server.get("/v1/workflows/order?version=1").await.is(200);
    assert_eq!((&old["digest"], &old["version"], &old["activeVersion"]), (&first["digest"], &json!(1), &json!(2)));
    let problem = server.get("/v1/workflows/order?version=3").await.refuses(404, "NOT_FOUND");
    assert_eq!(problem["hint"], "its newest version is 2");
    server.get("/v1/workflows/order?version=0").await.refuses(400, "VALIDATION_ERROR");
    server.get("/v1/workflows/missing").await.refuses(404, "NOT_FOUND");
}

#[tokio::test]
async fn a_wrong_definition_is_refused_with_every_problem() {
    let server = Server::start().await;
    let wrong = json!({
        "nodes": [{"id": "start", "type": "start"}, {"id": "a", "type": "nooop"}, {"id": "end", "type": "end"}],
        "edges": [{"source": "start", "target": "a"}, {"source": "a", "target": "nowhere"}],
    });
    let problem = server.put("/v1/workflows/wrong", &wrong).await.refuses(422, "VALIDATION_ERROR");
    let problems = problem["problems"].as_array().unwrap();
    assert!(problems.len() >= 2, "{problem}");
    let kind = problems.iter().find(|problem| problem["node"] == "a").unwrap();
    assert_eq!(kind["path"], "/nodes/1/type");
    assert!(kind["message"].is_string() && kind["hint"].as_str().unwrap().contains("noop"), "{kind}");
    // The same problems are reported without saving.
    let received = server.post("/v1/workflows/validate", &wrong).await.is(200);
    assert_eq!((&received["valid"], &received["problems"]), (&json!(false), &problem["problems"]));
    let unknown = chain(&[json!({"id": "a", "type": "transform", "config": {"value": "{{ctx.totl}}"}})]);
    let received = server.post("/v1/workflows/validate", &unknown).await.is(200);
    assert_eq!(received["problems"][0]["code"], "UNKNOWN_VARIABLE");
    let refused = server.put("/v1/workflows/unknown", &unknown).await.refuses(422, "VALIDATION_ERROR");
    assert_eq!(refused["problems"], received["problems"]);
    let received = server.post("/v1/workflows/validate", &chain(&[])).await.is(200);
    assert_eq!(received, json!({"valid": true, "problems": [], "warnings": []}));
    assert_eq!(server.get("/v1/workflows").await.is(200), json!([]));
    server.put("/v1/workflows/Not-A-Name", &chain(&[])).await.refuses(400, "VALIDATION_ERROR");
}

#[tokio::test]
async fn invalid_json_is_reported_with_its_position() {
    let server = Server::start().await;
    let key = server.key_with(&[Permission::Publish]).await;
    let put = async |body: &str| server.ask(Method::PUT, "/v1/workflows/any", &[("x-api-key", &key)], body).await;
    let problem = put("{\n  \"nodes\": [}").await.refuses(400, "VALIDATION_ERROR");
    assert!(problem["detail"].as_str().unwrap().contains("line 2 column 13"), "{problem}");
    let problem = put(r#"{"nodes": [], "nodes": []}"#).await.refuses(400, "VALIDATION_ERROR");
    assert!(problem["detail"].as_str().unwrap().contains("twice"), "{problem}");
    put("").await.refuses(400, "VALIDATION_ERROR");
    let problem = put(" [[], []]").await.refuses(400, "VALIDATION_ERROR");
    assert!(problem["detail"].as_str().unwrap().contains("must be an object"), "{problem}");
    let long = format!("[{}1]", "1,".repeat(9 * 1024 * 1024));
    put(&long).await.refuses(413, "PAYLOAD_TOO_LARGE");
}

#[tokio::test]
async fn a_workflow_is_created_once() {
    let server = Server::start().await;
    let new = json!({"name": "order", "definition": chain(&[]), "description": "its purpose"});
    let answer = server.post("/v1/workflows", &new).await;
    assert_eq!(answer.headers["location"], "/v1/workflows/order");
    let made = answer.is(201);
    assert_eq!((&made["version"], &made["description"]), (&json!(1), &json!("its purpose")));
    let problem = server.post("/v1/workflows", &new).await.refuses(409, "WORKFLOW_EXISTS");
    assert!(problem["hint"].as_str().unwrap().contains("PUT /v1/workflows/order"), "{problem}");
    // Repeated with an idempotency key it is the same; with another definition it is not.
    let key = [("idempotency-key", "one")];
    assert_eq!(server.post_with("/v1/workflows", &key, &new).await.is(200), made);
    let other = json!({"name": "order", "definition": chain(&[wait_for_go()])});
    server.post_with("/v1/workflows", &key, &other).await.refuses(409, "WORKFLOW_EXISTS");
    assert_eq!(server.get("/v1/workflows/order").await.is(200), made);
}

#[tokio::test]
async fn of_many_requests_that_create_one_workflow_one_succeeds() {
    let server = Server::start().await;
    let created = async |n: usize| {
        let node = json!({"id": "a", "type": "noop", "config": {"output": n}});
        server.post("/v1/workflows", &json!({"name": "order", "definition": chain(&[node])})).await.status
    };
    let statuses = futures_util::future::join_all((0..20).map(created)).await;
    assert_eq!(statuses.iter().filter(|status| **status == 201).count(), 1, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 409).count(), 19, "{statuses:?}");
    let versions = server.get("/v1/workflows/order/versions").await.is(200);
    assert_eq!(versions["versions"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_rejected_workflow_is_reported_with_the_reason() {
    let server = Server::start().await;
    let create = async |new: Value| server.post("/v1/workflows", &new).await;
    for name in ["", "Order", "a b", "validate", "import", "evaluate", "rename", "everstep-approval", &"a".repeat(129)]
    {
        let problem = create(json!({"name": name, "definition": chain(&[])})).await.refuses(400, "VALIDATION_ERROR");
        assert!(problem["detail"].as_str().unwrap().contains("is not a valid name of a workflow"), "{problem}");
    }
    create(json!({"name": "order"})).await.refuses(400, "VALIDATION_ERROR");
    create(json!({"name": "order", "definition": 7})).await.refuses(422, "VALIDATION_ERROR");
    create(json!({"name": "order", "definition": chain(&[]), "size": 1})).await.refuses(400, "VALIDATION_ERROR");
    let mut described = chain(&[]);
    described["description"] = json!("one thing");
    let two = json!({"name": "order", "definition": described, "description": "another"});
    create(two).await.refuses(400, "VALIDATION_ERROR");
    let long = json!({"name": "order", "definition": chain(&[]), "description": "x".repeat(1_001)});
    let problem = create(long).await.refuses(422, "VALIDATION_ERROR");
    assert_eq!(problem["problems"][0]["path"], "/description");
    assert_eq!(server.get("/v1/workflows").await.is(200), json!([]));
}

#[tokio::test]
async fn a_version_is_made_active_and_new_runs_take_it_at_once() {
    let server = Server::start().await;
    let version = |n: u32| chain(&[json!({"id": "a", "type": "noop", "config": {"output": n}})]);
    server.publish("order", &version(1)).await;
    let saved = server.put("/v1/workflows/order?activate=false", &version(2)).await.is(200);
    assert_eq!((&saved["version"], &saved["activeVersion"]), (&json!(2), &json!(1)));
    let start =
        async || server.post("/v1/workflows/order/runs", &Value::Null).await.is(201)["run"]["workflowVersion"].clone();
    assert_eq!(start().await, 1);
    for n in [2, 1, 2, 1] {
        let active = server.post("/v1/workflows/order/activate", &json!({"version": n})).await.is(200);
        assert_eq!((&active["version"], &active["activeVersion"]), (&json!(n), &json!(n)));
        assert_eq!(start().await, n);
    }
    server.post("/v1/workflows/order/activate", &json!({"version": 3})).await.refuses(404, "NOT_FOUND");
    server.post("/v1/workflows/missing/activate", &json!({"version": 1})).await.refuses(404, "NOT_FOUND");
    server.post("/v1/workflows/order/activate", &json!({"version": "1"})).await.refuses(400, "VALIDATION_ERROR");
    server.put("/v1/workflows/order?activate=maybe", &version(1)).await.refuses(400, "VALIDATION_ERROR");
}

#[tokio::test]
async fn a_workflow_without_an_active_version_is_shown_by_its_number() {
    let server = Server::start().await;
    let saved = server.put("/v1/workflows/draft?activate=false", &chain(&[])).await.is(201);
    assert_eq!((&saved["version"], &saved["activeVersion"]), (&json!(1), &Value::Null));
    let problem = server.get("/v1/workflows/draft").await.refuses(404, "NOT_FOUND");
    assert!(problem["hint"].as_str().unwrap().contains("?version=1"), "{problem}");
    server.get("/v1/workflows/draft?version=1").await.is(200);
    server.post("/v1/workflows/draft/runs", &Value::Null).await.refuses(404, "WORKFLOW_NOT_FOUND");
    let listed = server.get("/v1/workflows").await.is(200);
    assert_eq!((&listed[0]["activeVersion"], &listed[0]["latestVersion"]), (&Value::Null, &json!(1)));
    server.post("/v1/workflows/draft/activate", &json!({"version": 1})).await.is(200);
    server.post("/v1/workflows/draft/runs", &Value::Null).await.is(201);
}

#[tokio::test]
async fn a_change_to_another_version_than_was_seen_is_refused() {
    let server = Server::start().await;
    server.publish("order", &chain(&[])).await;
    let (two, three) = (chain(&[json!({"id": "a", "type": "noop"})]), chain(&[json!({"id": "b", "type": "noop"})]));
    let put = async |seen: &str, definition: &Value| {
        server.ask_as_admin(Method::PUT, "/v1/workflows/order", &[("if-match", seen)], definition).await
    };
    let answer = put("\"1\"", &two).await;
    assert_eq!(answer.headers["etag"], "\"2\"");
    answer.is(200);
    let problem = put("\"1\"", &three).await.refuses(409, "CONCURRENCY_ERROR");
    assert!(problem["detail"].as_str().unwrap().contains("is 2"), "{problem}");
    put("\"x\"", &three).await.refuses(400, "VALIDATION_ERROR");
    let activate = async |seen: &str| {
        server.post_with("/v1/workflows/order/activate", &[("if-match", seen)], &json!({"version": 1})).await
    };
    activate("\"1\"").await.refuses(409, "CONCURRENCY_ERROR");
    activate("\"2\"").await.is(200);
    assert_eq!(server.get("/v1/workflows/order/versions").await.is(200)["versions"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn workflows_are_listed_by_name_with_their_counts() {
    let server = Server::start().await;
    for name in ["c", "a", "b"] {
        server.publish(name, &chain(&[wait_for_go()])).await;
    }
    let waiting = server.post("/v1/workflows/a/runs", &Value::Null).await.is(201)["run"]["id"].clone();
    let cancelled = server.post("/v1/workflows/a/runs", &Value::Null).await.is(201)["run"]["id"].clone();
    server.post(&format!("/v1/runs/{}/cancel", cancelled.as_str().unwrap()), &Value::Null).await.is(200);
    let fails = json!({"id": "a", "type": "noop", "config": {"fail": "no"}, "retry": {"maxAttempts": 1}});
    server.publish("c", &chain(&[fails])).await;
    server.post("/v1/workflows/c/runs", &Value::Null).await.is(201);
    let counts = |row: &Value| {
        ["pending", "running", "waiting", "paused", "completed", "failed", "cancelled"]
            .map(|s| row[s].as_u64().unwrap())
    };
    // Counts are written once a second.
    let listed = until("the runs to be counted", async || {
        let listed = server.get("/v1/workflows").await.is(200);
        (counts(&listed[0]) == [0, 0, 1, 0, 0, 0, 1] && counts(&listed[2]) == [0, 0, 0, 0, 0, 1, 0]).then_some(listed)
    });
    let listed = listed.await;
    let names: Vec<_> = listed.as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert_eq!(
        (&listed[2]["activeVersion"], &listed[2]["latestVersion"], &listed[2]["style"]),
        (&json!(2), &json!(2), &json!("graph"))
    );
    assert_eq!(counts(&listed[1]), [0; 7]);
    server.post(&format!("/v1/runs/{}/signals/go", waiting.as_str().unwrap()), &Value::Null).await.is(200);
    let ended = until("the end to be counted", async || {
        let listed = server.get("/v1/workflows").await.is(200);
        (counts(&listed[0]) == [0, 0, 0, 0, 1, 0, 1]).then_some(())
    });
    ended.await;
    // Page by page.
    let first = server.get("/v1/workflows?limit=2").await;
    assert_eq!(first.headers["link"], "</v1/workflows?cursor=b&limit=2>; rel=\"next\"");
    assert_eq!(first.is(200).as_array().unwrap().len(), 2);
    let last = server.get("/v1/workflows?cursor=b&limit=2").await;
    assert!(!last.headers.contains_key("link"));
    assert_eq!(last.is(200)[0]["name"], "c");
}

#[tokio::test]
async fn versions_are_listed_newest_first() {
    let server = Server::start().await;
    for n in 1..=5 {
        server.publish("order", &chain(&[json!({"id": "a", "type": "noop", "config": {"output": n}})])).await;
    }
    server.post("/v1/workflows/order/activate", &json!({"version": 4})).await.is(200);
    let page = server.get("/v1/workflows/order/versions?limit=2").await.is(200);
    let numbers = |page: &Value| -> Vec<u64> {
        page["versions"].as_array().unwrap().iter().map(|row| row["version"].as_u64().unwrap()).collect()
    };
    assert_eq!(numbers(&page), [5, 4]);
    assert_eq!((&page["versions"][0]["isActive"], &page["versions"][1]["isActive"]), (&json!(false), &json!(true)));
    let cursor = page["nextCursor"].as_str().unwrap();
    let page = server.get(&format!("/v1/workflows/order/versions?limit=3&cursor={cursor}")).await.is(200);
    assert_eq!((numbers(&page), &page["nextCursor"]), (vec![3, 2, 1], &Value::Null));
    assert_eq!(server.get("/v1/workflows/order/versions?cursor=1").await.is(200)["versions"], json!([]));
    server.get("/v1/workflows/missing/versions").await.refuses(404, "NOT_FOUND");
    server.get("/v1/workflows/missing/versions?cursor=9").await.refuses(404, "NOT_FOUND");
}

#[tokio::test]
async fn a_workflow_is_deleted_once_its_runs_have_ended() {
    let server = Server::start().await;
    let run = server.start_chain("order", &[wait_for_go()]).await;
    let delete = async |name: &str| {
        server.ask_as_admin(Method::DELETE, &format!("/v1/workflows/{name}"), &[], &Value::Null).await
    };
    let problem = delete("order").await.refuses(409, "WORKFLOW_IN_USE");
    assert_eq!(problem["runs"], 1);
    server.post(&format!("{run}/signals/go"), &Value::Null).await.is(200);
    server.wait_for(&run, "completed").await;
    assert_eq!(delete("order").await.is(204), Value::Null);
    delete("order").await.refuses(404, "NOT_FOUND");
    delete("missing").await.refuses(404, "NOT_FOUND");
    for path in ["", "?version=1", "/versions", "/export"] {
        server.get(&format!("/v1/workflows/order{path}")).await.refuses(404, "NOT_FOUND");
    }
    server.post("/v1/workflows/order/activate", &json!({"version": 1})).await.refuses(404, "NOT_FOUND");
    server.post("/v1/workflows/order/runs", &Value::Null).await.refuses(404, "WORKFLOW_NOT_FOUND");
    server.post("/v1/workflows/order/runs", &json!({"version": 1})).await.refuses(404, "WORKFLOW_NOT_FOUND");
    assert_eq!(server.get("/v1/workflows").await.is(200), json!([]));
    // Its runs still exist, and its version numbers are not used again.
    assert_eq!(server.get(&run).await.is(200)["workflowVersion"], 1);
    let new = json!({"name": "order", "definition": chain(&[wait_for_go()])});
    assert_eq!(server.post("/v1/workflows", &new).await.is(201)["version"], 2);
}

#[tokio::test]
async fn a_workflow_is_exported_imported_and_cloned() {
    let server = Server::start().await;
    let mut definition = chain(&[wait_for_go()]);
    definition["description"] = json!("its purpose");
    server.publish("order", &chain(&[])).await;
    server.publish("order", &definition).await;
    let answer = server.get("/v1/workflows/order/export").await;
    assert_eq!(answer.headers["content-disposition"], "attachment; filename=\"order.v2.json\"");
    let document = answer.is(200);
    assert_eq!(
        (&document["everstep"], &document["kind"], &document["version"]),
        (&json!(1), &json!("workflow"), &json!(2))
    );
    assert_eq!(server.get("/v1/workflows/order/export?version=1").await.is(200)["version"], 1);
    // To another server, under its own name.
    let other = Server::start().await;
    let imported = other.post("/v1/workflows/import", &document).await.is(201);
    assert_eq!(
        (&imported["name"], &imported["version"], &imported["digest"]),
        (&json!("order"), &json!(1), &document["digest"])
    );
    assert_eq!(other.post("/v1/workflows/import", &document).await.is(200), imported);
    let mut wrong = document.clone();
    for version in [0_u32, 2_147_483_648] {
        wrong["version"] = version.into();
        other.post("/v1/workflows/import", &wrong).await.refuses(400, "VALIDATION_ERROR");
    }
    // Under another name.
    let renamed = server.post("/v1/workflows/import?name=copy&activate=false", &document).await.is(201);
    assert_eq!((&renamed["name"], &renamed["activeVersion"]), (&json!("copy"), &Value::Null));
    // Within the same server.
    let cloned = server.post("/v1/workflows/order/clone", &json!({"name": "twin"})).await.is(201);
    assert_eq!((&cloned["digest"], &cloned["version"]), (&document["digest"], &json!(1)));
    server.post("/v1/workflows/order/clone", &json!({"name": "twin"})).await.refuses(409, "WORKFLOW_EXISTS");
    let key = [("idempotency-key", "twin")];
    assert_eq!(server.post_with("/v1/workflows/order/clone", &key, &json!({"name": "twin"})).await.is(200), cloned);
    let first = server.post("/v1/workflows/order/clone", &json!({"name": "older", "version": 1})).await.is(201);
    assert_ne!(first["digest"], document["digest"]);
    server.post("/v1/workflows/missing/clone", &json!({"name": "x"})).await.refuses(404, "NOT_FOUND");
    server.post("/v1/workflows/order/clone", &json!({"name": "x", "version": 9})).await.refuses(404, "NOT_FOUND");
}

#[tokio::test]
async fn a_document_of_a_later_format_is_distinguished_from_an_invalid_one() {
    let server = Server::start().await;
    let document = json!({"everstep": 1, "kind": "workflow", "name": "order", "definition": chain(&[])});
    let import = async |field: &str, value: Value| {
        let mut document = document.clone();
        document[field] = value;
        server.post("/v1/workflows/import", &document).await
    };
    let problem = import("everstep", json!(2)).await.refuses(422, "VALIDATION_ERROR");
    assert!(problem["detail"].as_str().unwrap().contains("format 2"), "{problem}");
    assert!(problem["hint"].as_str().unwrap().contains("upgrade"), "{problem}");
    import("everstep", json!("one")).await.refuses(422, "VALIDATION_ERROR");
    import("kind", json!("machine")).await.refuses(422, "VALIDATION_ERROR");
    import("name", json!("Not a name")).await.refuses(400, "VALIDATION_ERROR");
    let mut renamed = document.clone();
    renamed["name"] = json!("Not a name");
    server.post("/v1/workflows/import?name=good", &renamed).await.refuses(400, "VALIDATION_ERROR");
    import("size", json!(1)).await.refuses(400, "VALIDATION_ERROR");
    import("definition", json!({})).await.refuses(422, "VALIDATION_ERROR");
    server.post("/v1/workflows/import", &chain(&[])).await.refuses(422, "VALIDATION_ERROR");
    assert_eq!(server.get("/v1/workflows").await.is(200), json!([]));
}

#[tokio::test]
async fn a_publisher_needs_the_permissions_of_the_nodes() {
    let server = Server::start().await;
    let write = chain(&[json!({"id": "count", "type": "store.increment", "config": {"namespace": "n", "key": "k"}})]);
    let publisher = server.key_with(&[Permission::Publish, Permission::Read]).await;
    let put = async |key: &str| server.ask_as(key, Method::PUT, "/v1/workflows/count", &write).await;
    let refused = put(&publisher).await.refuses(422, "VALIDATION_ERROR");
    let problem = &refused["problems"][0];
    assert_eq!((&problem["code"], &problem["node"]), (&json!("PERMISSION_DENIED"), &json!("count")));
    assert_eq!(problem["path"], "/nodes/1");
    assert!(problem["message"].as_str().unwrap().contains("workflow:manage"), "{problem}");
    // The same without saving.
    let validated = server.ask_as(&publisher, Method::POST, "/v1/workflows/validate", &write).await.is(200);
    assert_eq!((&validated["valid"], &validated["problems"]), (&json!(false), &refused["problems"]));
    server.get("/v1/workflows/count").await.refuses(404, "NOT_FOUND");
    // A definition that is saved again with other permissions is a new version.
    let manager = server.key_with(&[Permission::Publish, Permission::Read, Permission::Manage]).await;
    assert_eq!(put(&manager).await.is(201)["version"], 1);
    let same = server.key_with(&[Permission::Publish, Permission::Read, Permission::Manage, Permission::Act]).await;
    assert_eq!(put(&same).await.is(200)["version"], 1);
    assert_eq!(server.put("/v1/workflows/count", &write).await.is(200)["version"], 2);
    let read = chain(&[json!({"id": "get", "type": "store.get", "config": {"namespace": "n", "key": "k"}})]);
    server.ask_as(&publisher, Method::PUT, "/v1/workflows/get", &read).await.is(201);
}

#[tokio::test]
async fn a_test_run_writes_only_with_the_permissions_of_its_caller() {
    let server = Server::start().await;
    let write = chain(&[json!({"id": "count", "type": "store.increment", "config": {"namespace": "n", "key": "k"}})]);
    let body = json!({"definition": write, "input": {}});
    let publisher = server.key_with(&[Permission::Publish, Permission::Read]).await;
    let refused =
        server.ask_as(&publisher, Method::POST, "/v1/test-runs", &body).await.refuses(422, "VALIDATION_ERROR");
    assert_eq!(refused["problems"][0]["code"], "PERMISSION_DENIED");
    let started = server.post("/v1/test-runs", &body).await.is(201);
    let run = format!("/v1/runs/{}", started["run"]["id"].as_str().unwrap());
    server.wait_for(&run, "completed").await;
    let shown = server.get(&format!("{run}/steps")).await.is(200);
    let count = shown["steps"].as_array().unwrap().iter().find(|step| step["node"] == "count").unwrap().clone();
    assert_eq!(count["status"], "completed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_save_without_a_reply_names_the_database_if_it_is_slow() {
    // How long a request waits for its write.
    let held = HeldClock::new(Duration::from_secs(30));
    let server = Server::start_on(NodeClock::new(Arc::clone(&held) as _)).await;
    server.publish("first", &chain(&[])).await;
    // Writes wait for this lock; reads do not.
    let lock = Connection::open(server.folder.path().join("everstep.db")).unwrap();
    lock.execute_batch("begin immediate").unwrap();
    let definition = chain(&[]);
    let save = async || answer_after(&held, server.put("/v1/workflows/second", &definition)).await;
    let detail = |subject: &str| format!("{subject} has not replied within 30 s; the request may still be written");
    // The database answers a query, and no batch of the committer waits for it.
    let problem = save().await.refuses(504, "OUTCOME_UNKNOWN");
    assert_eq!(problem["detail"], detail("this node"));
    let engine = server.engine.clone();
    let started = tokio::spawn(async move { engine.start_run(Start::new("first", json!({}))).await });
    let slow = detail("the database");
    until("a batch that waits for a second", async || (save().await.body["detail"] == *slow).then_some(())).await;
    drop(lock);
    started.await.unwrap().unwrap();
}
