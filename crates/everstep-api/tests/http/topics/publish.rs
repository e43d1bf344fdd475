//! Publishing events.

use axum::http::Method;
use everstep_api::auth::Permission;
use serde_json::{Value, json};

use super::{only_run, publish, runs_of, save_echo, subscribe};
use crate::people;
use crate::support::Server;

#[tokio::test]
async fn an_event_starts_one_run_per_subscription() {
    let server = Server::start().await;
    for name in ["onboard-user", "count-user", "other"] {
        save_echo(&server, name).await;
    }
    let onboard = subscribe(&server, "user.signup", &json!({"name": "onboard-user"})).await;
    let count = subscribe(&server, "user.#", &json!({"name": "count-user"})).await;
    subscribe(&server, "user", &json!({"name": "other"})).await;
    let data = json!({"user": 7, "name": "Ada"});
    let event = publish(&server, "user.signup", &[("event-source", "accounts")], &data).await.is(200);
    assert_eq!((&event["topic"], &event["created"]), (&json!("user.signup"), &json!(true)));
    assert_eq!(event["matched"], json!({"workflows": 2, "queues": 0, "http": 0, "waits": 0, "failed": 0}));

    let runs = runs_of(&server, &event).await;
    let workflows: Vec<_> = runs.iter().map(|run| run["workflow"].as_str().unwrap()).collect();
    assert_eq!(workflows, ["count-user", "onboard-user"]);
    for (run, subscription) in runs.iter().zip([&count, &onboard]) {
        let shown = server.get(&format!("/v1/runs/{}?waitSeconds=30", run["id"].as_str().unwrap())).await.is(200);
        assert_eq!((&shown["status"], &shown["output"]["input"]), (&json!("completed"), &data));
        let trigger = json!({"type": "event", "id": event["id"], "topic": "user.signup", "subscription": subscription,
            "source": "accounts", "depth": 0, "scheduledFor": null});
        assert_eq!((&shown["trigger"], &run["trigger"]), (&trigger, &trigger));
        let journal = server.get(&format!("/v1/runs/{}/journal", run["id"].as_str().unwrap())).await.is(200);
        let started = &journal["entries"][0];
        assert_eq!((&started["seq"], &started["data"]["trigger"]), (&json!(1), &trigger), "{started}");
    }
    // The runs of callers have no trigger.
    let started = server.post("/v1/workflows/other/runs", &json!({})).await.is(201);
    assert_eq!(started["run"]["trigger"], Value::Null);
}

#[tokio::test]
async fn an_event_is_stored_before_it_is_answered() {
    let server = Server::start().await;
    let answer = server.post("/v1/topics/order.paid", &json!({"order": 17})).await;
    let event = answer.is(202);
    assert_eq!(event.as_object().unwrap().len(), 3, "{event}");
    let shown = server.get(&format!("/v1/events/{}", event["id"].as_str().unwrap())).await.is(200);
    assert_eq!((&shown["topic"], &shown["data"]), (&json!("order.paid"), &json!({"order": 17})));
    assert_eq!((&shown["source"], &shown["eventId"]), (&json!("api"), &event["id"]));
    assert_eq!((&shown["depth"], &shown["subject"], &shown["extensions"]), (&json!(0), &Value::Null, &json!({})));
    // An event without a body has the data null, and an event without an id is new.
    let first = server.ask_as_admin(Method::POST, "/v1/topics/order.paid", &[], &Value::Null).await.is(202);
    let second = server.ask_as_admin(Method::POST, "/v1/topics/order.paid", &[], &Value::Null).await.is(202);
    assert_ne!(first["id"], second["id"]);
    let shown = server.get(&format!("/v1/events/{}", first["id"].as_str().unwrap())).await.is(200);
    assert_eq!(shown["data"], Value::Null);
}

#[tokio::test]
async fn an_id_is_published_once_per_source() {
    let server = Server::start().await;
    save_echo(&server, "onboard-user").await;
    subscribe(&server, "user.*", &json!({"name": "onboard-user"})).await;
    let data = json!({"user": 7});
    let first = publish(&server, "user.signup", &[("event-id", "signup-7")], &data).await.is(200);
    let again = publish(&server, "user.signup", &[("event-id", "signup-7")], &data).await.is(200);
    assert_eq!((&first["created"], &again["created"]), (&json!(true), &json!(false)));
    assert_eq!((&again["id"], &again["matched"]), (&first["id"], &first["matched"]));
    assert_eq!(only_run(&server, &first).await["output"]["input"], data);
    // White space is not data.
    let headers = [("x-api-key", server.key()), ("event-id", "signup-7")];
    let spaced = server.ask(Method::POST, "/v1/topics/user.signup", &headers, "{ \"user\" : 7 }").await;
    assert_eq!(spaced.is(200)["id"], first["id"]);
    for (topic, data) in [("user.signup", json!({"user": 8})), ("user.signin", json!({"user": 7}))] {
        let problem = publish(&server, topic, &[("event-id", "signup-7")], &data).await;
        let problem = problem.refuses(409, "IDEMPOTENCY_KEY_REUSED");
        assert_eq!(problem["event"], first["id"], "{problem}");
    }
    let other = publish(&server, "user.signup", &[("event-id", "signup-7"), ("event-source", "b")], &data).await;
    assert_eq!(other.is(200)["created"], true);
    // Without an id, the idempotency key is the id.
    let keyed = publish(&server, "user.signup", &[("idempotency-key", "signup-7")], &data).await.is(200);
    assert_eq!((&keyed["created"], &keyed["id"]), (&json!(false), &first["id"]));
    let both = [("idempotency-key", "x"), ("event-id", "signup-7")];
    assert_eq!(publish(&server, "user.signup", &both, &data).await.is(200)["id"], first["id"]);
    let runs = server.get("/v1/runs?workflow=onboard-user").await.is(200);
    assert_eq!(runs["runs"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_topic_has_two_names() {
    let server = Server::start().await;
    let first = server.post_with("/v1/events/user.signup", &[("event-id", "a")], &json!(1)).await.is(202);
    let again = server.post_with("/v1/topics/user.signup", &[("event-id", "a")], &json!(1)).await.is(200);
    let third = server.post("/v1/events", &json!({"topic": "user.signup", "id": "a", "data": 1})).await.is(200);
    assert_eq!((&again["id"], &third["id"]), (&first["id"], &first["id"]));
    assert_eq!((&again["created"], &third["created"]), (&json!(false), &json!(false)));
    // A GET reads the segment as the id of an event.
    server.get("/v1/events/user.signup").await.refuses(404, "NOT_FOUND");
    assert_eq!(
        server.get(&format!("/v1/events/{}", first["id"].as_str().unwrap())).await.is(200)["topic"],
        "user.signup"
    );
    // A slash of a topic is encoded.
    let event = server.post("/v1/topics/a%2Fb.c:d", &json!(1)).await.is(202);
    assert_eq!(event["topic"], "a/b.c:d");
}

#[tokio::test]
async fn each_event_of_a_batch_is_accepted_or_refused_by_itself() {
    let server = Server::start().await;
    save_echo(&server, "onboard-user").await;
    subscribe(&server, "user.*", &json!({"name": "onboard-user"})).await;
    let batch = json!({"events": [
        {"topic": "user.signup", "data": {"user": 1}, "id": "1", "source": "s", "subject": "one"},
        {"topic": "user..signup"},
        {"topic": "user.signup", "data": {"user": 2}, "colour": "red"},
        7,
        ["user.signup"],
        {"topic": "user.signup", "data": {"user": 1}, "id": "1", "source": "s", "subject": "one"},
        {"topic": "user.signup", "data": {"user": 3}, "id": "1", "source": "s"},
        {"data": 1},
    ]});
    let answer = server.post("/v1/events?waitSeconds=30", &batch).await.is(207);
    let events = answer["events"].as_array().unwrap();
    let codes: Vec<_> = events.iter().map(|event| event["error"]["code"].as_str().unwrap_or("-")).collect();
    let wrong = "VALIDATION_ERROR";
    assert_eq!(codes, ["-", wrong, wrong, wrong, wrong, "-", "IDEMPOTENCY_KEY_REUSED", wrong]);
    let created: Vec<_> = [&events[0], &events[5]].map(|event| event["created"].as_bool().unwrap()).into();
    assert!(created.contains(&true) && created.contains(&false), "{answer}");
    assert_eq!(events[0]["id"], events[5]["id"]);
    assert_eq!(runs_of(&server, &events[0]).await.len(), 1);
    let shown = server.get(&format!("/v1/events/{}", events[0]["id"].as_str().unwrap())).await.is(200);
    assert_eq!((&shown["source"], &shown["eventId"], &shown["subject"]), (&json!("s"), &json!("1"), &json!("one")));

    let many: Vec<_> = (0..1_000).map(|number| json!({"topic": "meter.read", "data": number})).collect();
    let answer = server.post("/v1/events", &json!({"events": many})).await.is(202);
    assert_eq!(answer["events"].as_array().unwrap().len(), 1_000);
    let more: Vec<_> = (0..1_001).map(|number| json!({"topic": "meter.read", "data": number})).collect();
    for wrong in [json!({"events": more}), json!({"events": []}), json!({"events": [], "topic": "a"}), json!({})] {
        server.post("/v1/events", &wrong).await.refuses(400, "VALIDATION_ERROR");
    }
    let keyed = server.post_with("/v1/events", &[("idempotency-key", "k")], &json!({"events": [{"topic": "a"}]})).await;
    keyed.refuses(400, "VALIDATION_ERROR");
}

#[tokio::test]
async fn an_event_that_is_not_valid_is_refused_with_the_reason() {
    let server = Server::start().await;
    for topic in ["a..b", "a.*", "%23", "a%20b", "everstep.runs", "@a", "%C3%A4", &"x".repeat(65)] {
        let problem = server.post(&format!("/v1/topics/{topic}"), &json!({})).await.refuses(400, "VALIDATION_ERROR");
        assert!(problem["path"] == "topic", "{problem}");
    }
    let long = "x".repeat(256);
    let key = server.key().to_owned();
    for (name, value) in [("event-id", ""), ("event-id", &*long), ("event-source", &*long), ("event-source", "run:7")] {
        let headers = [("x-api-key", &*key), (name, value)];
        let problem = server.ask(Method::POST, "/v1/topics/a", &headers, "1").await.refuses(400, "VALIDATION_ERROR");
        assert!(
            problem["detail"].as_str().unwrap().to_lowercase().contains(name.trim_start_matches("event-")),
            "{problem}"
        );
    }
    for (body, status, code) in [
        ("{", 400, "VALIDATION_ERROR"),
        ("\"\\u0000\"", 422, "VALIDATION_ERROR"),
        (&*format!("{}1{}", "[".repeat(101), "]".repeat(101)), 400, "VALIDATION_ERROR"),
        (&*format!("\"{}\"", "x".repeat(1024 * 1024)), 413, "PAYLOAD_TOO_LARGE"),
    ] {
        let answer = server.ask(Method::POST, "/v1/topics/a", &[("x-api-key", &*key)], body).await;
        answer.refuses(status, code);
    }
    for wrong in ["waitSeconds=31", "waitSeconds=x", "wait=1"] {
        server.post(&format!("/v1/topics/a?{wrong}"), &json!(1)).await.refuses(400, "VALIDATION_ERROR");
    }
    assert_eq!(server.get("/v1/events").await.is(200), json!({"events": [], "nextCursor": null}));
}

#[tokio::test]
async fn events_are_listed_newest_first() {
    let (server, clock) = people::start_on_clock().await;
    for number in 0..5 {
        clock.advance(1);
        let topic = if number % 2 == 0 { "even" } else { "odd" };
        server.post(&format!("/v1/topics/{topic}"), &json!(number)).await.is(202);
    }
    let topics = |page: &Value| -> Vec<String> {
        page["events"].as_array().unwrap().iter().map(|event| event["topic"].as_str().unwrap().to_owned()).collect()
    };
    let all = server.get("/v1/events").await.is(200);
    assert_eq!(topics(&all), ["even", "odd", "even", "odd", "even"]);
    assert!(all["events"][0].get("data").is_none());
    let first = server.get("/v1/events?topic=even&limit=2").await.is(200);
    assert_eq!(topics(&first), ["even", "even"]);
    let cursor = first["nextCursor"].as_str().unwrap();
    // An event that is published while the client pages does not shift the next page.
    server.post("/v1/topics/even", &json!(9)).await.is(202);
    let second = server.get(&format!("/v1/events?topic=even&limit=2&cursor={cursor}")).await.is(200);
    assert_eq!((topics(&second), &second["nextCursor"]), (vec!["even".to_owned()], &Value::Null));
    let at = all["events"][2]["at"].as_str().unwrap();
    let since = server.get(&format!("/v1/events?since={at}")).await.is(200);
    assert_eq!(topics(&since).len(), 4);
    let until = server.get(&format!("/v1/events?until={at}")).await.is(200);
    assert_eq!(topics(&until), ["odd", "even"]);
    for wrong in ["topic=a..b", "since=yesterday", "cursor=x", "limit=0", "colour=red"] {
        server.get(&format!("/v1/events?{wrong}")).await.refuses(400, "VALIDATION_ERROR");
    }
}

#[tokio::test]
async fn publishing_and_subscribing_need_their_permissions_and_are_audited() {
    let server = Server::start().await;
    save_echo(&server, "echo").await;
    let [view, manage, publisher] = [Permission::View, Permission::Manage, Permission::Publish];
    let body = json!({"type": "workflow", "name": "echo"});
    for (permission, publishes, subscribes, reads) in
        [(view, 403, 403, 200), (manage, 202, 403, 403), (publisher, 403, 201, 403)]
    {
        let key = server.key_with(&[permission]).await;
        let status =
            async |method: Method, path: &str, body: &Value| server.ask_as(&key, method, path, body).await.status;
        assert_eq!(status(Method::POST, "/v1/topics/a", &json!(1)).await, publishes, "{permission}");
        assert_eq!(status(Method::POST, "/v1/topics/a/subscriptions", &body).await, subscribes, "{permission}");
        assert_eq!(status(Method::GET, "/v1/events", &Value::Null).await, reads, "{permission}");
        assert_eq!(status(Method::GET, "/v1/subscriptions", &Value::Null).await, reads, "{permission}");
    }
    let actions = async |action: &str| -> usize {
        let page = server.get("/v1/audit?limit=500").await.is(200);
        page["entries"].as_array().unwrap().iter().filter(|entry| entry["action"] == action).count()
    };
    assert_eq!(actions("POST /v1/topics/{pattern}/subscriptions").await, 1);
    crate::support::until("the row of a publish", async || {
        (actions("POST /v1/topics/{topic}").await == 1).then_some(())
    })
    .await;
}
