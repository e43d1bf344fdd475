//! A time limit of a state holds through kill -9, in a copy of the database, and in a fork.

use std::path::Path;
use std::time::Duration;

use everstep_core::time::Timestamp;
use serde_json::{Value, json};

use crate::alone;
use crate::office::{entries, levels, site};
use crate::support::{Client, Folder, Server};

/// Checks that the time limit of a run was kept once, within a second of its time.
#[track_caller]
fn is_kept(client: &Client, run: &str) {
    let ended = client.wait(run);
    assert_eq!((&ended["status"], &ended["machine"]["state"]), (&json!("completed"), &json!("late")), "{ended}");
    let [fired] = &entries(client, run, "TimerFired")[..] else { panic!("the timer has fired once") };
    let set = entries(client, run, "TimerSet");
    let time = |value: &Value| value.as_str().unwrap().parse::<Timestamp>().unwrap();
    let (due, at) = (time(&set[0]["data"]["due"]), time(&fired["at"]));
    assert!(at >= due && at.since(due) < Duration::from_secs(1), "due at {due}, fired at {at}");
    let history = client.get(&format!("{run}/history")).is(200);
    let last = history["entries"].as_array().unwrap().last().unwrap();
    assert_eq!(last["by"], json!({"kind": "system", "id": "@timer"}), "{history}");
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for file in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        if file.file_type().unwrap().is_file() {
            std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
        }
    }
}

#[test]
fn a_deadline_survives_kill_9() {
    let _turn = alone();
    let folder = Folder::new();
    let server = Server::start(&folder.at("data"));
    let client = server.client();
    client.publish("limited", &levels(&["review"], Some("5s")));
    let run = client.start("limited", &json!({}));
    let forked = client.post(&format!("{run}/fork"), &json!({})).is(201);
    let fork = format!("/v1/runs/{}", forked["run"]["id"].as_str().unwrap());
    server.kill();
    copy(&folder.path().join("data"), &folder.path().join("copy"));
    let servers = ["data", "copy"].map(|data| Server::start(&folder.at(data)));
    for server in &servers {
        for run in [&run, &fork] {
            is_kept(&server.client(), run);
        }
    }
}

#[test]
fn a_deadline_survives_the_kill_of_its_node() {
    let _turn = alone();
    let site = site();
    let ((one, a), (_two, b)) = site.start_two();
    a.publish("limited", &levels(&["review"], Some("8s")));
    let runs: Vec<_> = (0..20).map(|_| a.start("limited", &json!({}))).collect();
    one.kill();
    // The other node takes the runs before their time.
    for run in &runs {
        is_kept(&b, run);
    }
}
