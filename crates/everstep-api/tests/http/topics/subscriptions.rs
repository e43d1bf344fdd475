//! Subscriptions.

use serde_json::{Value, json};

use super::{only_run, publish, runs_of, save_echo, subscribe, subscriptions_of};
use crate::support::{Server, chain};

#[tokio::test]
async fn a_subscription_is_created_read_changed_and_deleted() {
    let server = Server::start().await;
    let body = json!({"type": "workflow", "name": "later", "version": 3, "filter": {"a": {"b": 1}, "$expr": "payload.n > 1"},
        "input": {"n": "{{payload.n}}"}, "key": "order-{{payload.order}}", "retentionDays": 9});
    let answer = server.post(&subscriptions_of("order.*.#"), &body).await;
    let location = answer.headers["location"].to_str().unwrap().to_owned();
    let made = answer.is(201);
    assert_eq!(location, format!("/v1/subscriptions/{}", made["id"].as_str().unwrap()));
    for (name, value) in body.as_object().unwrap() {
        assert_eq!(made[name], *value, "{name}");
    }
    assert_eq!(
        (&made["pattern"], &made["origin"], &made["pausedAt"]),
        (&json!("order.*.#"), &json!("api"), &Value::Null)
    );
    assert_eq!(server.get(&location).await.is(200), made);

    let change = json!({"pattern": "order.#", "name": "sooner", "version": null, "filter": {"a": 2}, "input": null,
        "key": null, "retentionDays": null});
    let changed = async |change: &Value| server.ask_as_admin(axum::http::Method::PATCH, &location, &[], change).await;
    let shown = changed(&change).await.is(200);
    assert_eq!(
        (&shown["pattern"], &shown["name"], &shown["filter"]),
        (&json!("order.#"), &json!("sooner"), &json!({"a": 2}))
    );
    assert_eq!((&shown["version"], &shown["key"], &shown["retentionDays"]), (&Value::Null, &Value::Null, &Value::Null));
    assert!(shown.get("input").is_none());
    assert_eq!(shown["createdAt"], made["createdAt"]);
    // Fields that are not sent do not change.
    assert_eq!(changed(&json!({"version": 2})).await.is(200)["filter"], json!({"a": 2}));
    assert_eq!(changed(&json!({"filter": null})).await.is(200)["filter"], Value::Null);
    for wrong in [json!({"pattern": "a..b"}), json!({"name": "No Name"}), json!({"version": 0}), json!({"colour": 1})] {
        changed(&wrong).await.refuses(400, "VALIDATION_ERROR");
    }
    assert_eq!(server.get(&location).await.is(200)["version"], 2);

    assert_eq!(server.delete(&location).await.status, 204);
    for path in [&*location, "/v1/subscriptions/x", "/v1/subscriptions/019a0000-0000-7000-8000-000000000000"] {
        server.get(path).await.refuses(404, "NOT_FOUND");
        server.delete(path).await.refuses(404, "NOT_FOUND");
        server.post(&format!("{path}/pause"), &Value::Null).await.refuses(404, "NOT_FOUND");
        server.ask_as_admin(axum::http::Method::PATCH, path, &[], &json!({})).await.refuses(404, "NOT_FOUND");
    }
}

#[tokio::test]
async fn subscriptions_are_listed_by_id_and_by_pattern() {
    let server = Server::start().await;
    let mut ids = Vec::new();
    for pattern in ["user.*", "user.#", "user.*", "#"] {
        ids.push(subscribe(&server, pattern, &json!({"name": "echo"})).await);
    }
    let listed = |page: &Value| -> Vec<String> {
        let subscriptions = page["subscriptions"].as_array().unwrap().iter();
        subscriptions.map(|subscription| subscription["id"].as_str().unwrap().to_owned()).collect()
    };
    let first = server.get("/v1/subscriptions?limit=3").await.is(200);
    assert_eq!(listed(&first), ids[..3]);
    let cursor = first["nextCursor"].as_str().unwrap();
    let second = server.get(&format!("/v1/subscriptions?limit=3&cursor={cursor}")).await.is(200);
    assert_eq!((listed(&second), &second["nextCursor"]), (vec![ids[3].clone()], &Value::Null));
    assert_eq!(listed(&server.get(&subscriptions_of("user.*")).await.is(200)), [ids[0].clone(), ids[2].clone()]);
    assert_eq!(listed(&server.get(&subscriptions_of("#")).await.is(200)), [ids[3].clone()]);
    assert!(listed(&server.get(&subscriptions_of("nothing")).await.is(200)).is_empty());
    server.get(&subscriptions_of("a..b")).await.refuses(400, "VALIDATION_ERROR");
    server.get("/v1/subscriptions?cursor=x").await.refuses(400, "VALIDATION_ERROR");
}

#[tokio::test]
async fn a_request_with_the_same_key_creates_one_subscription() {
    let server = Server::start().await;
    let (path, body) = (subscriptions_of("user.*"), json!({"type": "workflow", "name": "echo"}));
    let first = server.post_with(&path, &[("idempotency-key", "k")], &body).await.is(201);
    let again = server.post_with(&path, &[("idempotency-key", "k")], &body).await.is(200);
    assert_eq!(first, again);
    let other = json!({"type": "workflow", "name": "other"});
    let problem = server.post_with(&path, &[("idempotency-key", "k")], &other).await;
    problem.refuses(409, "IDEMPOTENCY_KEY_REUSED");
    server.post(&path, &body).await.is(201);
    assert_eq!(server.get("/v1/subscriptions").await.is(200)["subscriptions"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_subscription_that_is_not_valid_is_refused_with_its_field() {
    let server = Server::start().await;
    for (pattern, body, field) in [
        ("a..b", json!({"name": "x"}), "pattern"),
        ("a*", json!({"name": "x"}), "pattern"),
        ("everstep.*", json!({"name": "x"}), "pattern"),
        ("a", json!({"name": "No Name"}), "name"),
        ("a", json!({"name": "x", "version": 0}), "version"),
        ("a", json!({"name": "x", "key": ""}), "key"),
    ] {
        let mut body = body;
        body["type"] = json!("workflow");
        let problem = server.post(&subscriptions_of(pattern), &body).await.refuses(400, "VALIDATION_ERROR");
        assert_eq!(problem["path"], field, "{problem}");
    }
    for (body, path) in [
        (json!({"filter": []}), "/filter"),
        (json!({"filter": {"$expr": 1}}), "/filter/$expr"),
        (json!({"filter": {"$expr": "payload."}}), "/filter/$expr"),
        (json!({"filter": {"$expr": "ctx.input"}}), "/filter/$expr"),
        (json!({"input": {"a": "{{payload.}}"}}), "/input/a"),
        (json!({"input": {"a": ["{{ctx.b}}"]}}), "/input/a/0"),
        (json!({"key": "{{vars.x}}"}), "/key"),
    ] {
        let mut body = body;
        (body["type"], body["name"]) = (json!("workflow"), json!("x"));
        let problem = server.post(&subscriptions_of("a"), &body).await.refuses(422, "VALIDATION_ERROR");
        assert_eq!(problem["problems"][0]["path"], path, "{problem}");
        assert!(problem["hint"].as_str().unwrap().contains("payload"), "{problem}");
    }
    for (body, status, code) in [
        (json!({"type": "workflow"}), 400, "VALIDATION_ERROR"),
        (json!({"name": "x"}), 400, "VALIDATION_ERROR"),
        (json!({"type": "pigeon", "name": "x"}), 400, "VALIDATION_ERROR"),
        (json!({"type": "workflow", "name": "x", "colour": 1}), 400, "VALIDATION_ERROR"),
        (json!({"type": "queue", "name": "orders"}), 422, "TARGET_NOT_AVAILABLE"),
        (json!({"type": "http", "url": "http://a.example"}), 422, "TARGET_NOT_AVAILABLE"),
        (json!({"type": "https", "url": "https://a.example"}), 422, "TARGET_NOT_AVAILABLE"),
    ] {
        server.post(&subscriptions_of("a"), &body).await.refuses(status, code);
    }
    assert_eq!(server.get("/v1/subscriptions").await.is(200)["subscriptions"], json!([]));
}

#[tokio::test]
async fn filters_select_events_and_templates_make_inputs() {
    let server = Server::start().await;
    save_echo(&server, "echo").await;
    let body = json!({"name": "echo", "filter": {"plan": {"name": "pro"}, "$expr": "payload.seats > 10"},
        "input": {"who": "{{payload.owner}}", "from": {"$expr": "event.topic"}, "id": "{{event.eventId}}"}});
    subscribe(&server, "team.#", &body).await;
    let team = |plan: &str, seats: u32| json!({"plan": {"name": plan, "since": 1}, "seats": seats, "owner": "Ada"});
    for (data, workflows) in [(team("pro", 20), 1), (team("pro", 5), 0), (team("free", 20), 0), (json!([]), 0)] {
        let event = publish(&server, "team.new", &[], &data).await.is(200);
        assert_eq!(
            (&event["matched"]["workflows"], &event["matched"]["failed"]),
            (&json!(workflows), &json!(0)),
            "{data}"
        );
    }
    let event = publish(&server, "team", &[("event-id", "t-1")], &team("pro", 11)).await.is(200);
    let input = json!({"who": "Ada", "from": "team", "id": "t-1"});
    assert_eq!(only_run(&server, &event).await["output"]["input"], input);
}

#[tokio::test]
async fn a_paused_subscription_receives_nothing() {
    let server = Server::start().await;
    save_echo(&server, "echo").await;
    let id = subscribe(&server, "a", &json!({"name": "echo"})).await;
    let control = async |verb: &str| server.post(&format!("/v1/subscriptions/{id}/{verb}"), &Value::Null).await.is(200);
    let paused = control("pause").await;
    assert!(paused["pausedAt"].is_string());
    assert_eq!(control("pause").await, paused, "a second pause keeps the time");
    let missed = publish(&server, "a", &[], &json!(1)).await.is(200);
    assert_eq!(missed["matched"]["workflows"], 0);
    assert_eq!(control("resume").await["pausedAt"], Value::Null);
    let event = publish(&server, "a", &[], &json!(2)).await.is(200);
    assert_eq!(event["matched"]["workflows"], 1);
    assert!(runs_of(&server, &missed).await.is_empty());
}

#[tokio::test]
async fn a_subscription_receives_the_events_after_its_creation() {
    let server = Server::start().await;
    save_echo(&server, "echo").await;
    let before = publish(&server, "a", &[], &json!(1)).await.is(200);
    let id = subscribe(&server, "a", &json!({"name": "echo"})).await;
    let after = publish(&server, "a", &[], &json!(2)).await.is(200);
    assert_eq!((&before["matched"]["workflows"], &after["matched"]["workflows"]), (&json!(0), &json!(1)));
    assert_eq!(server.delete(&format!("/v1/subscriptions/{id}")).await.status, 204);
    let last = publish(&server, "a", &[], &json!(3)).await.is(200);
    assert_eq!(last["matched"]["workflows"], 0);
}

#[tokio::test]
async fn a_workspace_has_ten_thousand_subscriptions_at_most() {
    let server = Server::start().await;
    let id = subscribe(&server, "a", &json!({"name": "echo"})).await;
    // Without a request for each of them.
    let copies = "with recursive numbers(n) as (select 1 union all select n + 1 from numbers where n < 9999)
        insert into subscriptions (workspace, id, pattern, head, target, created_at)
        select workspace, randomblob(16), pattern, head, target, created_at from subscriptions, numbers";
    let database = rusqlite::Connection::open(server.folder.path().join("everstep.db")).unwrap();
    assert_eq!(database.execute(copies, ()).unwrap(), 9_999);
    drop(database);
    let body = json!({"type": "workflow", "name": "echo"});
    let problem = server.post(&subscriptions_of("a"), &body).await.refuses(409, "QUOTA_REACHED");
    assert_eq!(problem["count"], 10_000, "{problem}");
    // The triggers of a workflow are subscriptions.
    let mut definition = chain(&[]);
    definition["trigger"] = json!({"type": "event", "topic": "a"});
    server.put("/v1/workflows/reactor", &definition).await.refuses(409, "QUOTA_REACHED");
    server.put("/v1/workflows/reactor?activate=false", &definition).await.is(201);
    server.post("/v1/workflows/reactor/activate", &json!({"version": 1})).await.refuses(409, "QUOTA_REACHED");
    assert_eq!(server.delete(&format!("/v1/subscriptions/{id}")).await.status, 204);
    server.post(&subscriptions_of("a"), &body).await.is(201);
}
