//! Two servers on one PostgreSQL: a run is followed at the node that does not own it.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::follower::{Curl, Socket, compare_entries, compare_steps};
use crate::support::cluster::Site;
use crate::support::{chain, wait_for};

/// Waits for `go` in the memory of its node, then performs many steps.
fn long(steps: u32, delay: u32) -> Value {
    let wait = json!({"id": "wait", "type": "wait", "config": {"event": "go", "timeoutSeconds": 25}});
    let step = |n: u32| json!({"id": format!("s{n}"), "type": "noop", "config": {"delayMs": delay}});
    let steps: Vec<_> = std::iter::once(wait).chain((0..steps).map(step)).collect();
    chain(&steps)
}

#[test]
fn a_run_is_followed_at_the_node_that_does_not_own_it() {
    let site = Site::new();
    let ((one, a), (_two, b)) = site.start_two();
    let refused = b.get("/socket.io/?EIO=4&transport=polling").refuses(400, "TRANSPORT_REFUSED");
    assert!(refused["hint"].as_str().unwrap().contains("websocket"), "{refused}");
    a.publish("long", &long(20, 25));
    let run = a.start("long", &json!({}));
    let shown = a.wait_for(&run, "waiting");
    assert_eq!(shown["owner"], json!(one.node()), "the run is held by its starter");
    let mut before = Socket::connect(&b);
    assert_eq!(before.join(&run)["ok"], true);
    let mut heard = before.until_status("WAITING");
    let curl = Curl::follow(&b, &format!("{run}/events?after=0"));
    a.post(&format!("{run}/signals/go"), &json!({})).is(200);
    heard.extend(before.until(|heard| heard["data"]["nodeID"] == "s5"));
    let mut during = Socket::connect(&b);
    assert_eq!(during.join(&run)["ok"], true);
    let curl_during = Curl::follow(&b, &format!("{run}/events"));
    heard.extend(before.until_status("COMPLETED"));
    let heard_during = during.until_status("COMPLETED");

    let journal = b.journal(&run);
    assert!(journal.iter().all(|entry| entry["writer"] == json!(one.node())), "the other node wrote it all");
    compare_steps(&heard, &journal);
    compare_steps(&heard_during, &journal);
    compare_entries(&curl.rest(), &journal);
    let events = curl_during.rest();
    let known = events[0].1["run"]["version"].as_u64().unwrap();
    assert_eq!(events[0].0, "snapshot");
    let rest: Vec<_> = events.iter().filter(|(name, _)| name == "entry").map(|(_, data)| data).collect();
    assert_eq!(rest, journal[usize::try_from(known).unwrap()..].iter().collect::<Vec<_>>());
}

#[test]
fn a_transition_wakes_a_follower_at_another_node() {
    let site = Site::new();
    let ((_one, a), (_two, b)) = site.start_two();
    // A time limit keeps a run in the memory of its node; without one it is parked after each transition.
    for limit in [Some("20s"), None] {
        let state = |name: &str, to: &str| {
            let mut state =
                json!({"name": name, "initial": name == "odd", "on": {"GO": {"to": to}, "END": {"to": "end"}}});
            if let Some(limit) = limit {
                state["after"] = json!([{"in": limit, "to": "end"}]);
            }
            state
        };
        let states = json!([state("odd", "even"), state("even", "odd"), {"name": "end", "terminal": true}]);
        a.publish("moves", &json!({ "states": states }));
        let run = a.start("moves", &json!({}));
        let curl = Curl::follow(&b, &format!("{run}/events?after=0"));
        let mut events = Vec::new();
        let mut until_version = |version: u64| loop {
            events.push(curl.next().expect("the run has not ended"));
            let (name, data) = events.last().unwrap();
            if name == "entry" && data["event"] == "TransitionApplied" && data["data"]["versionNo"] == version {
                return;
            }
        };
        until_version(1);
        // A busy machine may be late now and then; the follower's own poll is much later.
        let late = (2..7).map(|version| {
            a.post(&format!("{run}/transitions"), &json!({"action": "GO", "version": version - 1})).is(200);
            let moved = Instant::now();
            until_version(version);
            moved.elapsed()
        });
        let late: Vec<_> = late.collect();
        assert!(late.iter().min().unwrap() < &Duration::from_millis(250), "{late:?}");
        a.post(&format!("{run}/transitions"), &json!({"action": "END"})).is(200);
        events.extend(curl.rest());
        compare_entries(&events, &b.journal(&run));
    }
}

#[test]
fn a_run_is_followed_while_its_owner_is_killed_and_it_moves() {
    let site = Site::new().set("EVERSTEP_NODE_LEASE", "1s");
    let ((one, a), (two, b)) = site.start_two();
    a.publish("long", &long(30, 100));
    let run = a.start("long", &json!({}));
    a.wait_for(&run, "waiting");
    let owner = one.node();
    let mut socket = Socket::connect(&b);
    assert_eq!(socket.join(&run)["ok"], true);
    let curl = Curl::follow(&b, &format!("{run}/events?after=0"));
    a.post(&format!("{run}/signals/go"), &json!({})).is(200);
    let mut heard = socket.until(|heard| heard["data"]["nodeID"] == "s8");
    one.kill();
    heard.extend(socket.until_status("COMPLETED"));

    let journal = b.journal(&run);
    let writers: Vec<_> = [owner, two.node()].map(Value::from).to_vec();
    for writer in &writers {
        assert!(journal.iter().any(|entry| entry["writer"] == *writer), "both have written: {writers:?}");
    }
    compare_steps(&heard, &journal);
    compare_entries(&curl.rest(), &journal);
}

#[test]
fn a_sleeping_run_that_any_node_wakes_is_followed_at_both() {
    let site = Site::new();
    let ((_one, a), (_two, b)) = site.start_two();
    let wait = |id: &str| json!({"id": id, "type": "wait", "config": {"event": id}});
    a.publish("sleeps", &chain(&[wait("first"), wait("second")]));
    let run = a.start("sleeps", &json!({}));
    wait_for("the run to sleep", || a.get(&run).is(200)["owner"].is_null().then_some(()));
    let mut sockets = [Socket::connect(&a), Socket::connect(&b)];
    let curls = [&a, &b].map(|client| Curl::follow(client, &format!("{run}/events?after=0")));
    for socket in &mut sockets {
        assert_eq!(socket.join(&run)["ok"], true);
    }
    a.post(&format!("{run}/signals/first"), &json!({"n": 1})).is(200);
    b.post(&format!("{run}/pause"), &Value::Null).is(200);
    a.post(&format!("{run}/resume"), &Value::Null).is(200);
    b.post(&format!("{run}/signals/second"), &json!({"n": 2})).is(200);
    let heard = sockets.map(|socket| socket.until_status("COMPLETED"));
    let journal = a.journal(&run);
    for heard in &heard {
        compare_steps(heard, &journal);
    }
    for curl in &curls {
        compare_entries(&curl.rest(), &journal);
    }
}
