//! Every node answers every request, whichever node owns the run.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use everstep_core::time::Timestamp;
use serde_json::{Value, json};

use crate::support::cluster::Site;
use crate::support::{Client, chain, wait_for};

/// Waits for `go` within a time, so that its node holds it in memory; without one it is parked at once.
fn waits(timeout: Option<u64>) -> Value {
    let mut config = json!({"event": "go"});
    if let Some(seconds) = timeout {
        config["timeoutSeconds"] = json!(seconds);
    }
    chain(&[json!({"id": "wait", "type": "wait", "config": config, "outputVariable": "answer"})])
}

#[test]
fn a_run_that_one_node_starts_is_waited_for_at_another() {
    let site = Site::new();
    let ((_one, a), (_two, b)) = site.start_two();
    let slow = json!({"id": "slow", "type": "noop", "config": {"delayMs": 1_000}});
    a.publish("slow", &chain(&[slow]));
    // The notification of the end arrives at once, not with the next poll; a busy machine may be late now and then.
    let late = (0..3).map(|_| {
        let run = a.start("slow", &json!({}));
        assert_eq!(b.get(&run).is(200)["status"], "running");
        let ended = b.wait(&run);
        let heard_at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        assert_eq!(ended["status"], "completed");
        assert_eq!(a.journal(&run), b.journal(&run));
        let ended_at: Timestamp = ended["endedAt"].as_str().unwrap().parse().unwrap();
        Timestamp::EPOCH.plus(heard_at).since(ended_at)
    });
    let late: Vec<_> = late.collect();
    assert!(late.iter().min().unwrap() < &Duration::from_millis(250), "{late:?}");
    let listed = b.get("/v1/runs?workflow=slow").is(200);
    assert_eq!(listed["runs"].as_array().unwrap().len(), 3);
}

#[test]
fn a_caller_that_waits_for_a_parked_run_is_notified_of_its_end() {
    let site = Site::new();
    let ((_one, a), (_two, b)) = site.start_two();
    a.publish("parked", &waits(None));
    let run = a.start("parked", &json!({}));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| b.wait(&run));
        wait_for("the run to be parked", || a.get(&run).is(200)["owner"].is_null().then_some(()));
        a.post(&format!("{run}/signals/go"), &json!({})).is(200);
        let signalled = Instant::now();
        assert_eq!(waiting.join().unwrap()["status"], "completed");
        assert!(signalled.elapsed() < Duration::from_secs(3), "{:?}", signalled.elapsed());
    });
}

#[test]
fn an_input_for_another_node_s_run_is_answered_and_acted_on_within_a_second() {
    let site = Site::new();
    let ((one, a), (two, b)) = site.start_two();
    a.publish("held", &waits(Some(20)));
    for (owner, here, other) in [(&one, &a, &b), (&two, &b, &a)] {
        let run = here.start("held", &json!({}));
        let shown = here.wait_for(&run, "waiting");
        assert_eq!(shown["owner"], json!(owner.node()), "the run is held by its starter");
        let began = Instant::now();
        let key = [("idempotency-key", "once")];
        let signal = format!("{run}/signals/go");
        assert_eq!(other.post_with(&signal, &key, &json!({"n": 7})).is(200)["outcome"], "accepted");
        assert_eq!(other.wait(&run)["status"], "completed");
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
        assert_eq!(here.post_with(&signal, &key, &json!({"n": 7})).is(200)["outcome"], "repeated");
        let journal = here.journal(&run);
        assert!(journal.iter().all(|entry| entry["writer"] == json!(owner.node())), "the owner decided");
        assert!(journal.iter().any(|entry| entry["data"]["output"] == json!({"n": 7})));
    }
}

/// The value of a metric of a node.
fn metric(client: &Client, name: &str) -> u64 {
    let page = client.get("/metrics").is(200);
    let line = page.as_str().unwrap().lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{name} is not in {page}")).parse().unwrap()
}

#[test]
fn a_transition_without_its_owner_is_unknown_or_refused() {
    let site = Site::new().set("EVERSTEP_NODE_LEASE", "60s");
    let ((one, a), (_two, b)) = site.start_two();
    // A time limit keeps the run in the memory of its node.
    let level = |name: &str, to: &str| {
        let late = json!([{"in": "30s", "to": "late"}]);
        json!({"name": name, "initial": name == "first", "on": {"APPROVE": {"to": to}}, "after": late})
    };
    let ends = [json!({"name": "approved", "terminal": true}), json!({"name": "late", "terminal": true})];
    let states: Vec<_> = [level("first", "second"), level("second", "approved")].into_iter().chain(ends).collect();
    a.publish("levels", &json!({ "states": states }));
    let run = a.start("levels", &json!({}));
    assert_eq!(a.wait_for(&run, "waiting")["owner"], json!(one.node()), "the run is held by its starter");
    let transitions = format!("{run}/transitions");
    let approve = |key: &str, version: u32| {
        b.post_with(&transitions, &[("idempotency-key", key)], &json!({"action": "APPROVE", "version": version}))
    };
    // The owner has received the request and does not reply.
    one.signal("STOP");
    approve("first", 1).refuses(504, "OUTCOME_UNKNOWN");
    one.signal("CONT");
    assert_eq!(approve("first", 1).is(200)["nextState"], "second");
    assert_eq!(metric(&b, "workflow_redlock_acquire_failures_total"), 0);
    // The owner cannot be reached, and its lease has not expired.
    one.kill();
    let refused = approve("second", 2);
    assert!(refused.header("retry-after").is_some(), "{:?}", refused.headers);
    refused.refuses(503, "UNAVAILABLE");
    assert_eq!(metric(&b, "workflow_redlock_acquire_failures_total"), 1);
    let failed = "workflow_transitions_total{workflow_code=\"levels\",action=\"APPROVE\",outcome=\"system_error\"}";
    assert_eq!(metric(&b, failed), 2);
    let approvals = b.journal(&run).into_iter().filter(|entry| entry["event"] == "TransitionApplied");
    assert_eq!(approvals.count(), 2, "the start and the first level");
}

#[test]
fn controls_reach_a_run_from_every_node() {
    let site = Site::new();
    let ((_one, a), (_two, b)) = site.start_two();
    a.publish("held", &waits(Some(20)));
    let run = a.start("held", &json!({}));
    a.wait_for(&run, "waiting");
    b.post(&format!("{run}/resume"), &Value::Null).refuses(409, "INVALID_TRANSITION");
    assert_eq!(b.post(&format!("{run}/pause"), &Value::Null).is(200)["outcome"], "accepted");
    assert_eq!(a.get(&run).is(200)["status"], "paused");
    assert_eq!(b.post(&format!("{run}/resume"), &Value::Null).is(200)["outcome"], "accepted");
    let version = a.get(&run).is(200)["version"].as_u64().unwrap();
    let cancel = format!("{run}/cancel");
    b.post(&cancel, &json!({"expectedVersion": version - 1})).refuses(409, "CONCURRENCY_ERROR");
    b.post(&cancel, &json!({"expectedVersion": version, "reason": "enough"})).is(200);
    assert_eq!(a.get(&run).is(200)["status"], "cancelled");
    let missing = "/v1/runs/019a0000-0000-7000-8000-000000000000";
    b.post(&format!("{missing}/cancel"), &Value::Null).refuses(404, "NOT_FOUND");
}

#[test]
fn a_signal_for_a_parked_run_is_acted_on_within_a_second_at_either_node() {
    let site = Site::new();
    let ((_one, a), (_two, b)) = site.start_two();
    a.publish("parked", &waits(None));
    for client in [&a, &b] {
        let run = a.start("parked", &json!({}));
        wait_for("the run to be parked", || {
            let shown = a.get(&run).is(200);
            (shown["status"] == "waiting" && shown["owner"].is_null()).then_some(())
        });
        let began = Instant::now();
        assert_eq!(client.post(&format!("{run}/signals/go"), &json!({})).is(200)["outcome"], "accepted");
        assert_eq!(b.wait(&run)["status"], "completed");
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    }
}

#[test]
fn fifty_starts_with_one_key_over_two_nodes_are_one_run() {
    let site = Site::new();
    let ((_one, a), (_two, b)) = site.start_two();
    a.publish("once", &waits(None));
    let answers: Vec<_> = std::thread::scope(|scope| {
        let starts: Vec<_> = (0..50)
            .map(|n| {
                let client = if n % 2 == 0 { &a } else { &b };
                let body = json!({"definitionId": "once", "idempotencyKey": "k"});
                scope.spawn(move || client.post("/v1/workflow-runs", &body))
            })
            .collect();
        starts.into_iter().map(|start| start.join().unwrap()).collect()
    });
    assert_eq!(answers.iter().filter(|answer| answer.status == 201).count(), 1);
    assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 49);
    let first = &answers[0].body["run"]["id"];
    assert!(answers.iter().all(|answer| answer.body["run"]["id"] == *first));
}

#[test]
fn a_wait_at_any_node_ends_when_the_run_is_paused() {
    let site = Site::new();
    let ((_one, a), (_two, b)) = site.start_two();
    a.publish("asks", &waits(None));
    let run = a.start("asks", &json!({}));
    a.wait_for(&run, "waiting");
    let requests = [&a, &b].map(|client| {
        let (client, path, began) = (client.clone(), format!("{run}?waitSeconds=30"), Instant::now());
        std::thread::spawn(move || (client.get(&path).is(200), began.elapsed()))
    });
    a.post(&format!("{run}/pause"), &Value::Null).is(200);
    for request in requests {
        let (shown, elapsed) = request.join().unwrap();
        assert_eq!(shown["status"], "paused", "{shown}");
        assert!(elapsed < Duration::from_secs(15), "the node answered after {elapsed:?}");
    }
}
