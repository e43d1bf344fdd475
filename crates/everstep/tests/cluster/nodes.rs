//! Nodes join, are listed, and leave.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::cluster::Site;
use crate::support::{call, chain, wait_for};

#[test]
fn nodes_are_listed_on_every_node_and_on_the_command_line() {
    let site = Site::new();
    let ((one, a), (two, b)) = site.start_two();
    let nodes = |listed: &Value| -> Vec<String> {
        let mut ids: Vec<_> =
            listed["nodes"].as_array().unwrap().iter().map(|node| node["id"].as_str().unwrap().to_owned()).collect();
        ids.sort();
        ids
    };
    let mut expected = vec![one.node(), two.node()];
    expected.sort();
    for client in [&a, &b] {
        let listed = client.get("/v1/nodes").is(200);
        assert_eq!(nodes(&listed), expected);
        for node in listed["nodes"].as_array().unwrap() {
            // A node knows the clock of its own machine only.
            assert_eq!(node["skewMs"].is_i64(), node["isSelf"] == json!(true), "{node}");
        }
    }
    let url = site.database.url();
    let output = call(&["nodes", "--json", "--database-url", &url]).json();
    assert_eq!(nodes(&output), expected);
    for node in output["nodes"].as_array().unwrap() {
        assert!(node["address"].as_str().unwrap().starts_with("http://127.0.0.1:"), "{node}");
        assert_eq!((&node["isExpired"], &node["isFenced"]), (&json!(false), &json!(false)));
    }
    let output = call(&["nodes", "--database-url", &url]);
    assert!(output.exits(0).stdout.contains("s left"), "{}", output.stdout);
    let said = one.said();
    assert!(said.contains("  others  reach it at http://127.0.0.1:") && said.contains("(PostgreSQL)"), "{said}");
    let ready = one.stranger().get("/readyz").is(200);
    assert_eq!((&ready["store"]["kind"], &ready["status"]), (&json!("postgresql"), &json!("ok")));
    assert!(ready.get("clockSkewSeconds").is_none(), "{ready}");
}

#[test]
fn a_node_that_stops_hands_its_runs_to_another_within_a_tick() {
    let site = Site::new();
    let ((one, a), (two, b)) = site.start_two();
    // Held in memory: a delay that is due before a run is parked.
    let pause = json!({"id": "pause", "type": "delay", "config": {"delaySeconds": 20}});
    a.publish("pause", &chain(&[pause]));
    let runs: Vec<_> = (0..20).map(|_| a.start("pause", &json!({}))).collect();
    for run in &runs {
        assert_eq!(b.get(run).is(200)["owner"], json!(one.node()));
    }
    // A node that has forwarded an input to another node knows it, even before the next tick.
    let theirs = b.start("pause", &json!({}));
    a.post(&format!("{theirs}/cancel"), &Value::Null).is(200);
    one.stop();
    let began = Instant::now();
    let heir = json!(two.node());
    let listed = wait_for("the runs to be taken", || {
        let listed = b.get("/v1/nodes").is(200);
        let holds = |node: &Value| node["id"] == heir && node["runs"] == runs.len();
        listed["nodes"].as_array().unwrap().iter().any(holds).then_some(listed)
    });
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    for run in &runs {
        assert_eq!(b.get(run).is(200)["owner"], heir);
    }
    let left: Vec<_> = listed["nodes"].as_array().unwrap().iter().filter(|node| node["id"] != heir).collect();
    assert_eq!((left.len(), &left[0]["isFenced"], &left[0]["runs"]), (1, &json!(true), &json!(0)));
    b.post(&format!("{}/cancel", runs[0]), &Value::Null).is(200);
}

#[test]
fn a_missing_node_is_reported_and_nothing_is_written() {
    let site = Site::new().set("EVERSTEP_NODE_LEASE", "30s");
    let ((one, a), (_two, b)) = site.start_two();
    let wait = json!({"id": "wait", "type": "wait", "config": {"event": "go", "timeoutSeconds": 25}});
    a.publish("held", &chain(&[wait]));
    let run = a.start("held", &json!({}));
    let version = a.wait_for(&run, "waiting")["version"].clone();
    one.kill();
    // Its lease has not expired, so no other node may take its runs.
    let answer = b.post(&format!("{run}/signals/go"), &json!({}));
    assert_eq!(answer.header("retry-after"), Some("1"));
    answer.refuses(503, "UNAVAILABLE");
    assert_eq!(b.get(&run).is(200)["version"], version);
}

#[test]
fn a_node_whose_cluster_key_is_another_is_not_listened_to() {
    let site = Site::new();
    let one = site.start();
    let two = site.start_with(&["--cluster-key", "another key of thirty-two or more characters"]);
    let wait = json!({"id": "wait", "type": "wait", "config": {"event": "go", "timeoutSeconds": 25}});
    one.client().publish("held", &chain(&[wait]));
    let run = one.client().start("held", &json!({}));
    let answer = two.client().post(&format!("{run}/signals/go"), &json!({}));
    answer.refuses(503, "UNAVAILABLE");
    assert_eq!(one.client().get(&run).is(200)["status"], "waiting");
    assert!(one.said().contains("EVERSTEP_CLUSTER_KEY"), "{}", one.said());
}
