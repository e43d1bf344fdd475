//! Workers, over several nodes.

use serde_json::{Value, json};

use crate::support::cluster::Site;
use crate::support::http::Client;
use crate::support::wait_for;

fn open(client: &Client) -> String {
    let hello = json!({
        "protocol": 1, "worker": "host:1", "capacity": 5, "workflows": [{"name": "greet", "version": 1}],
    });
    client.post("/v1/worker/sessions", &hello).is(201)["session"].as_str().unwrap().to_owned()
}

#[test]
fn a_worker_may_speak_with_any_node() {
    let site = Site::new();
    let ((_one, a), (_two, b)) = site.start_two();
    let session = open(&a);
    // Every node knows that a worker serves it.
    let started = b.post("/v1/workflows/greet/runs", &json!({"input": {"n": 1}})).is(201);
    assert_eq!(started["warning"], Value::Null, "{started}");
    let run = format!("/v1/runs/{}", started["run"]["id"].as_str().unwrap());
    let (mut seen, mut turn) = (0, Value::Null);
    // Each request goes to another node than the one before.
    for client in [&b, &a].into_iter().cycle().take(10) {
        let answer = client.post("/v1/worker/poll", &json!({"session": session, "seen": seen})).is(200);
        for message in answer["messages"].as_array().unwrap() {
            seen = message["m"].as_u64().unwrap();
            if !message["turns"].is_null() {
                turn = message["turns"][0].clone();
            }
        }
        if !turn.is_null() {
            break;
        }
    }
    assert_eq!(turn["run"], started["run"]["id"], "{turn}");
    let (mut n, mut acked) = (0, Vec::new());
    let mut send = |client: &Client, mut report: Value| {
        n += 1;
        (report["n"], report["run"], report["turn"]) = (json!(n), turn["run"].clone(), turn["turn"].clone());
        let body = json!({"session": session, "seen": seen, "reports": [report]});
        let answer = client.post("/v1/worker/reports", &body).is(200);
        for message in answer["messages"].as_array().unwrap() {
            seen = message["m"].as_u64().unwrap();
            acked.extend(message["acks"].as_array().cloned().unwrap_or_default());
        }
    };
    let large = "x".repeat(1024 * 1024 - 2);
    send(&b, json!({"kind": "completed", "step": "one", "attempt": 1, "output": large, "tookMs": 1}));
    send(&a, json!({"kind": "completed", "step": "two", "attempt": 1, "output": 2, "tookMs": 1}));
    send(&b, json!({"kind": "returned", "output": "done"}));
    assert_eq!(acked.iter().map(|ack| ack[0].clone()).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!((&a.wait(&run)["output"], &b.wait(&run)["output"]), (&json!("done"), &json!("done")));
    for client in [&a, &b] {
        let listed = client.get("/v1/workers").is(200);
        assert_eq!(
            (&listed["workers"][0]["worker"], &listed["silentNodes"]),
            (&json!("host:1"), &json!([])),
            "{listed}"
        );
    }
    assert_eq!(b.try_ask("DELETE", &format!("/v1/worker/sessions/{session}"), &[], &Value::Null).unwrap().status, 204);
    a.post("/v1/worker/poll", &json!({"session": session, "seen": 0})).refuses(410, "SESSION_GONE");
}

#[test]
fn a_session_is_gone_with_its_node() {
    let site = Site::new();
    let ((one, a), (_two, b)) = site.start_two();
    let session = open(&a);
    b.post("/v1/worker/poll", &json!({"session": session, "seen": 0, "waitMs": 0})).is(200);
    one.kill();
    wait_for("the session to be gone", || {
        let answer = b.post("/v1/worker/poll", &json!({"session": session, "seen": 0, "waitMs": 0}));
        assert!([410, 503].contains(&answer.status), "{}", answer.body);
        (answer.status == 410).then_some(())
    });
    let started = b.post("/v1/workflows/greet/runs", &Value::Null).is(201);
    assert!(started["warning"].as_str().is_some(), "{started}");
    let waiting = "waits for a worker that serves greet version 1: none is connected";
    let run = format!("/v1/runs/{}", started["run"]["id"].as_str().unwrap());
    assert_eq!(b.get(&run).is(200)["waitingFor"], waiting);
    let session = open(&b);
    let answer = b.post("/v1/worker/poll", &json!({"session": session, "seen": 0})).is(200);
    assert_eq!(answer["messages"][0]["turns"][0]["run"], started["run"]["id"], "{answer}");
}
