//! `everstep publish`, `events` and `subscriptions`, and starts that begin later.

use serde_json::{Value, json};

use crate::client::Session;
use crate::support::chain;

/// A server with a workflow that ends at once.
fn session() -> Session {
    let session = Session::new();
    session.import("echo", &chain(&[]));
    session
}

#[test]
fn an_event_is_published_listed_and_shown() {
    let session = session();
    let created = session.call(&["subscriptions", "create", "user.*", "echo", "--filter", r#"{"plan": "pro"}"#]);
    let subscription = created.exits(0).stdout.trim().to_owned();
    let file = session.folder.write("signup.json", r#"{"user": 7, "plan": "pro"}"#);
    let publish = ["publish", "user.signup", &file, "--id", "signup-7", "--source", "accounts", "--wait"];
    let published = session.call(&publish);
    let event = published.exits(0).stdout.trim().to_owned();
    published.says("started 1 run, resolved 0 waits");
    let again = session.call(&publish);
    assert_eq!(again.exits(0).stdout.trim(), event);
    again.says("the event was published before, with the same id");

    let shown = session.call(&["events", &event]).exits(0).stdout.clone();
    for part in
        ["topic      user.signup", "source     accounts", "id         signup-7", "started 1 run", &*subscription]
    {
        assert!(shown.contains(part), "{part} is not in\n{shown}");
    }
    let shown: Value = serde_json::from_str(&session.call(&["events", &event, "--json"]).exits(0).stdout).unwrap();
    assert_eq!((&shown["data"], &shown["results"][0]["type"]), (&json!({"user": 7, "plan": "pro"}), &json!("run")));
    session.call(&["publish", "user.signout"]).exits(0);
    let listed = session.call(&["events", "--topic", "user.signup", "--since", "1h"]).exits(0).stdout.clone();
    assert!(listed.contains(&event) && !listed.contains("user.signout"), "{listed}");
    let all: Value = serde_json::from_str(&session.call(&["events", "--json"]).exits(0).stdout).unwrap();
    assert_eq!(all["events"].as_array().unwrap().len(), 2);

    session.call(&["publish", "a..b"]).exits(2).says("VALIDATION_ERROR");
    session.call(&["publish", "a", "--data", "{"]).exits(2).says("--data is not JSON");
    session.call(&["publish", "a", "missing.json"]).exits(2).says("missing.json");
    session.call(&["publish", "a", &file, "--data", "1"]).exits(2);
    session.call(&["events", "x"]).exits(2).says("NOT_FOUND");
    session.call(&["events", &event, "--topic", "a"]).exits(2);
}

#[test]
fn a_subscription_that_failed_is_reported() {
    let session = session();
    let mut strict = chain(&[]);
    strict["inputSchema"] = json!({"properties": {"amount": {"type": "number"}}, "required": ["amount"]});
    session.import("strict", &strict);
    for workflow in ["echo", "strict"] {
        session.call(&["subscriptions", "create", "order.paid", workflow]).exits(0);
    }
    let published = session.call(&["publish", "order.paid", "--data", r#"{"order": 7}"#, "--wait"]);
    let event = published.exits(0).stdout.trim().to_owned();
    published.says("started 1 run, resolved 0 waits\n");
    published.says(&format!("1 subscription failed: everstep events {event}\n"));
    let shown = session.call(&["events", &event]).exits(0).stdout.clone();
    assert!(shown.contains("fan-out    started 1 run, resolved 0 waits, 1 subscription failed\n"), "{shown}");
}

#[test]
fn subscriptions_are_listed_paused_resumed_and_deleted() {
    let session = session();
    let create = |pattern: &str| {
        let created =
            session.call(&["subscriptions", "create", pattern, "echo", "--input", r#"{"a": "{{payload.b}}"}"#]);
        created.exits(0).stdout.trim().to_owned()
    };
    let (first, second) = (create("user.*"), create("#"));
    let listed = session.call(&["subscriptions", "list"]).exits(0).stdout.clone();
    assert!([&*first, &*second, "user.*", "echo", "api"].iter().all(|part| listed.contains(part)), "{listed}");
    let listed = session.call(&["subscriptions", "list", "--pattern", "#"]).exits(0).stdout.clone();
    assert!(listed.contains(&second) && !listed.contains(&first), "{listed}");
    session.call(&["subscriptions", "pause", &first]).exits(0).says(&format!("subscription {first} is paused"));
    let listed: Value =
        serde_json::from_str(&session.call(&["subscriptions", "list", "--json"]).exits(0).stdout).unwrap();
    assert!(listed["subscriptions"][0]["pausedAt"].is_string(), "{listed}");
    session.call(&["subscriptions", "resume", &first]).exits(0).says("is active");
    session.call(&["subscriptions", "delete", &first]).exits(0).says(&format!("deleted subscription {first}"));
    session.call(&["subscriptions", "delete", &first]).exits(2).says("NOT_FOUND");
    session.call(&["subscriptions", "create", "a..b", "echo"]).exits(2).says("VALIDATION_ERROR");
}

#[test]
fn a_run_begins_later() {
    let session = session();
    let run = session.start(&["echo", "--delay", "36h"]);
    let shown = session.call(&["show", &run]).exits(0).stdout.clone();
    assert!(shown.contains("pending") && shown.contains("begins at 20"), "{shown}");
    session.call(&["signal", &run, "go"]).exits(2).says("RUN_PENDING");
    session.call(&["cancel", &run]).exits(0).says("accepted");
    let past = session.call(&["start", "echo", "--at", "2020-01-01T00:00:00Z", "--wait"]);
    assert_eq!(past.exits(0).stdout.trim(), "{}");
    session.call(&["start", "echo", "--at", "noon"]).exits(2).says("startAt");
    session.call(&["start", "echo", "--at", "2030-01-01T00:00:00Z", "--delay", "1h"]).exits(2);
}
