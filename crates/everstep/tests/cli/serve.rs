//! `everstep serve`: health, signals and errors at the start.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::journal::wait_for_entries;
use crate::support::server::send;
use crate::support::{CommandOutput, Folder, Server, call, chain, everstep};

#[test]
fn a_server_reports_its_health_and_stops_in_order() {
    let folder = Folder::new();
    let server = Server::start(&folder.at("data"));
    let stranger = server.stranger();
    assert_eq!(stranger.get("/livez").is(200), json!({"status": "ok"}));
    let mut body = stranger.get("/readyz").is(200);
    let node = body["node"].take();
    assert_eq!(node.as_str().unwrap().len(), 36);
    let store = json!({"kind": "sqlite", "status": "ok", "error": null});
    let expected = json!({
        "status": "ok", "node": null, "store": store, "activeRuns": 0, "fenced": false, "inTouch": true,
    });
    assert_eq!(body, expected);
    let said = server.stop();
    assert!(said.contains("SIGTERM: stopping") && said.contains("stopped"), "{said}");
    assert!(said.contains(node.as_str().unwrap()), "{said}");
    assert!(said.contains(&folder.path().canonicalize().unwrap().join("data").display().to_string()), "{said}");
}

#[test]
fn a_server_goes_on_with_the_runs_of_its_folder() {
    let folder = Folder::new();
    let data = folder.at("data");
    let pause = json!({"id": "pause", "type": "delay", "config": {"delaySeconds": 1}});
    let file = folder.write("slow.json", chain(&[pause]).to_string());
    let mut command = everstep();
    command.args(["run", &file, "--data", &data, "--key", "k"]).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    wait_for_entries(&folder.path().join("data"), 4);
    send(&child, "KILL");
    child.wait_with_output().unwrap();
    let server = Server::start(&data);
    wait_for_entries(&folder.path().join("data"), 8);
    server.stop();
    let output = call(&["run", &file, "--data", &data, "--key", "k"]);
    assert_eq!(output.exits(0).says("has that idempotency key").json(), json!({}));
}

#[test]
fn a_server_waits_for_tasks_under_way_but_not_for_ever() {
    let folder = Folder::new();
    let data = folder.at("data");
    let slow = json!({"id": "slow", "type": "noop", "config": {"delayMs": 60_000}, "timeoutSeconds": 120});
    let file = folder.write("slow.json", chain(&[slow]).to_string());
    let mut command = everstep();
    command.args(["run", &file, "--data", &data]).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    wait_for_entries(&folder.path().join("data"), 4);
    send(&child, "KILL");
    child.wait_with_output().unwrap();
    let mut command = everstep();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data", &data, "--shutdown-grace", "500ms"]);
    let child = command.stderr(Stdio::piped()).spawn().unwrap();
    // The lost task is dispatched again.
    wait_for_entries(&folder.path().join("data"), 5);
    let began = Instant::now();
    send(&child, "TERM");
    let output = CommandOutput::from(child.wait_with_output().unwrap());
    output.exits(0).says("tasks were still running");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[test]
fn a_port_in_use_is_reported() {
    let folder = Folder::new();
    let server = Server::start(&folder.at("data"));
    let port = server.address().rsplit_once(':').unwrap().1.to_owned();
    let output = call(&["serve", "--listen", server.address(), "--data", &folder.at("other")]);
    output.exits(3).says(&format!("port {port} is already in use")).says("--listen");
    server.stop();
    call(&["serve", "--listen", "nonsense", "--data", &folder.at("other")]).exits(2).says("--listen");
}

#[test]
fn logs_are_json_when_asked_for() {
    let folder = Folder::new();
    let mut command = everstep();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data", &folder.at("data"), "--log-format", "json"]);
    let mut child = command.env("EVERSTEP_LOG", "info").stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    send(&child, "TERM");
    child.wait().unwrap();
    let line: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(line["level"], "INFO", "{line}");
}
