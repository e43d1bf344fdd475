//! Time limits of states, by a clock that the test moves.

use serde_json::{Value, json};

use super::{act, history};
use crate::people as tokens;
use crate::support::Server;

/// Within an hour, or it is too late.
const LIMIT_SECONDS: u64 = 3_600;

async fn start(server: &Server) -> String {
    let machine = json!({"states": [
        {"name": "review", "initial": true, "on": {"APPROVE": {"to": "approved"}}, "after": [{"in": "1h", "to": "late"}]},
        {"name": "approved", "on": {"CLOSE": {"to": "closed"}}},
        {"name": "late", "on": {"CLOSE": {"to": "closed"}}},
        {"name": "closed", "terminal": true},
    ]});
    server.publish("limited", &machine).await;
    let started = server.post("/v1/workflows/limited/runs", &json!({})).await.is(201);
    format!("/v1/runs/{}", started["run"]["id"].as_str().unwrap())
}

fn names(entries: &[Value]) -> Vec<(&str, &str)> {
    entries.iter().map(|entry| (entry["kind"].as_str().unwrap(), entry["by"]["id"].as_str().unwrap())).collect()
}

#[tokio::test]
async fn an_approval_in_time_beats_its_timer() {
    let (server, clock) = tokens::start_on_clock().await;
    let run = start(&server).await;
    clock.advance(LIMIT_SECONDS - 1);
    act(&server, "ann", &run, &json!({"action": "APPROVE"})).await.is(200);
    // The timer of a state that was left does not fire.
    clock.advance(2 * LIMIT_SECONDS);
    let shown = server.get(&run).await.is(200);
    assert_eq!((&shown["machine"]["state"], &shown["machine"]["due"]), (&json!("approved"), &Value::Null));
    act(&server, "ann", &run, &json!({"action": "CLOSE"})).await.is(200);
    let entries = history(&server, &run).await;
    assert_eq!(names(&entries).into_iter().filter(|(kind, _)| *kind == "timer").count(), 0, "{entries:?}");
}

#[tokio::test]
async fn a_timer_that_is_due_beats_an_approval() {
    let (server, clock) = tokens::start_on_clock().await;
    let run = start(&server).await;
    clock.advance(LIMIT_SECONDS);
    // The limit has passed, although no loop has noticed it yet: the request is decided after the timer.
    for request in [json!({"action": "APPROVE", "version": 1}), json!({"action": "APPROVE"})] {
        let refused = act(&server, "ann", &run, &request).await;
        let code = if request["version"] == 1 { "CONCURRENCY_ERROR" } else { "ACTION_CLOSED" };
        let refused = refused.refuses(409, code);
        assert_eq!((&refused["state"], &refused["versionNo"]), (&json!("late"), &json!(2)), "{refused}");
        assert_eq!(refused["lastBy"], json!({"kind": "system", "id": "@timer"}));
    }
    let entries = history(&server, &run).await;
    assert_eq!(names(&entries)[1..], [("timer", "@timer"), ("transition", "@timer")], "{entries:?}");
    assert_eq!(server.get(&run).await.is(200)["machine"]["state"], "late");
}
