//! The commands report why runs stopped, which signals and times they wait for, and which steps they performed.

use std::process::Stdio;

use serde_json::{Value, json};

use crate::client::Session;
use crate::support::journal::wait_for_entries;
use crate::support::{CommandOutput, Folder, Server, call, chain, wait_for};

/// A wait for the approval of one order.
fn approval() -> Value {
    let config = json!({"event": "approve", "match": {"order": 7}});
    chain(&[json!({"id": "ask", "type": "wait", "config": config})])
}

#[test]
fn a_wait_for_a_run_ends_with_4_when_the_run_is_paused() {
    let session = Session::new();
    session.import("order", &approval());
    let mut command = session.command(&["start", "order", "--wait"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let run = wait_for("the run", || {
        let runs = session.call(&["runs", "--status", "waiting,running", "--json"]).json();
        runs["runs"][0]["id"].as_str().map(str::to_owned)
    });
    session.call(&["pause", &run]).exits(0);
    let output = CommandOutput::from(child.wait_with_output().unwrap());
    output.exits(4).says(&format!("run {run}: paused: a request paused it")).says("everstep resume");
    assert_eq!(output.stdout, "");
}

#[test]
fn a_run_of_a_file_ends_with_4_when_it_is_paused() {
    let folder = Folder::new();
    let data = folder.at("data");
    let file = folder.write("order.json", approval().to_string());
    let server = Server::start(&data);
    let client = server.client();
    client.publish("order", &approval());
    let run = client.start("order", &json!({"idempotencyKey": "k"}));
    client.post(&format!("{run}/pause"), &Value::Null).is(200);
    server.stop();
    let output = call(&["run", &file, "--data", &data, "--key", "k"]);
    output.exits(4).says("paused: a request paused it").says("everstep resume");
}

#[test]
fn an_ignored_signal_says_what_is_awaited() {
    let session = Session::new();
    session.import("order", &approval());
    let run = session.start(&["order"]);
    session.server.client().wait_for(&format!("/v1/runs/{run}"), "waiting");
    let other = session.call(&["signal", &run, "approve", "--payload", r#"{"order": 8}"#]);
    other.exits(1).says("a wait for this signal exists, but its match differs").says(r#"expects {"order":7}"#);
    session.call(&["signal", &run, "aprove"]).exits(1).says(r#"the run waits for "approve""#);
    session.call(&["signal", &run, "approve", "--payload", "{order"]).exits(2).says("--payload is not JSON");
    session.call(&["signal", &run, "approve", "--payload", "@none"]).exits(2).says("--payload (none)");
    let shown = session.call(&["show", &run]).exits(0).stdout.clone();
    assert!(shown.contains(r#"waits for the signal "approve" with {"order":7} at step ask"#), "{shown}");
}

#[test]
fn workflows_and_workers_are_listed_and_a_workflow_is_deleted() {
    let session = Session::new();
    session.import("order", &approval());
    session.import("copy", &chain(&[]));
    let run = session.start(&["order"]);
    let client = session.server.client();
    client.wait_for(&format!("/v1/runs/{run}"), "waiting");
    wait_for("the count of the run", || {
        let listed = session.call(&["workflows"]).exits(0).stdout.clone();
        listed.lines().find(|line| line.starts_with(" order") && line.contains("1 waiting")).map(|_| ())
    });
    let listed = session.call(&["workflows", "--json"]).exits(0).json();
    let names: Vec<_> = listed["workflows"].as_array().unwrap().iter().map(|row| row["name"].clone()).collect();
    assert_eq!(names, ["copy", "order"]);
    session.call(&["delete", "copy"]).exits(0).says("deleted copy");
    session.call(&["delete", "copy"]).exits(2).says("NOT_FOUND");
    session.call(&["delete", "order"]).exits(2).says("WORKFLOW_IN_USE");

    assert_eq!(session.call(&["workers", "--json"]).exits(0).json()["workers"], json!([]));
    let hello = json!({
        "protocol": 1, "worker": "host:1", "capacity": 5, "workflows": [{"name": "greet", "version": 2}],
    });
    client.post("/v1/worker/sessions", &hello).is(201);
    let listed = session.call(&["workers"]).exits(0).stdout.clone();
    for text in ["host:1", "greet v2", "0 of 5"] {
        assert!(listed.contains(text), "no {text} in\n{listed}");
    }
}

#[test]
fn a_journal_is_printed_and_followed_to_its_end() {
    let session = Session::new();
    session.import("order", &approval());
    let run = session.start(&["order"]);
    session.server.client().wait_for(&format!("/v1/runs/{run}"), "waiting");
    let journal = session.call(&["journal", &run]).exits(0).stdout.clone();
    let lines: Vec<_> = journal.lines().collect();
    assert!(lines[0].contains("    1  20") && lines[0].contains("RunStarted"), "{journal}");
    assert!(lines[3].contains(r#"ask  kind wait, event approve, match {"order":7}"#), "{journal}");
    let entries = session.call(&["journal", &run, "--after", "3", "--json"]).exits(0).json();
    assert_eq!(entries["entries"][0]["seq"], 4);

    let child = session.command(&["follow", &run]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    session.call(&["signal", &run, "approve", "--payload", r#"{"order": 7}"#]).exits(0);
    let followed = CommandOutput::from(child.wait_with_output().unwrap());
    followed.exits(0).says(&format!("run {run} completed"));
    assert!(followed.stdout.starts_with(&journal), "{}", followed.stdout);
    assert!(followed.stdout.trim_end().lines().last().unwrap().contains("RunCompleted"), "{}", followed.stdout);
    // A run that has ended is printed completely.
    let again = session.call(&["follow", &run]);
    assert_eq!(again.exits(0).stdout, followed.stdout);
    let other = session.start(&["order"]);
    session.call(&["cancel", &other]).exits(0);
    session.call(&["follow", &other]).exits(1).says("cancelled");
    session.call(&["follow", "01990000-0000-7000-8000-000000000000"]).exits(2).says("NOT_FOUND");
}

#[test]
fn a_run_is_named_by_the_beginning_of_its_id() {
    let session = Session::new();
    session.import("order", &approval());
    let first = session.start(&["order"]);
    let short = &first[..first.len() - 1];
    assert!(session.call(&["show", short]).exits(0).stdout.contains(&first));
    session.call(&["logs", &first[..20]]).exits(0);
    session.call(&["journal", &first.replace('-', "")[..30]]).exits(0);
    let second = session.start(&["order"]);
    let shared: String = first.chars().zip(second.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a).collect();
    session.call(&["show", &shared]).exits(2).says(&first).says(&second).says("give more of the id");
    session.call(&["cancel", &second[..second.len() - 2]]).exits(0).says("accepted");
    session.call(&["show", "0199aaaa"]).exits(2).says("no run has an id that begins with 0199aaaa");
    session.call(&["show", "first"]).exits(2).says("NOT_FOUND");
    let recent = session.call(&["runs", "--since", "1h", "--json"]).exits(0).json();
    assert_eq!(recent["runs"].as_array().unwrap().len(), 2);
    assert_eq!(session.call(&["runs", "--until", "1h", "--json"]).exits(0).json()["runs"], json!([]));
    session.call(&["runs", "--since", "yesterday"]).exits(2).says("since");
}

#[test]
fn a_run_is_shown_with_what_a_person_needs_next() {
    let session = Session::new();
    let client = session.server.client();
    let stack = r"throw new Error('first line\n    at charge (pay.ts:3)')";
    let work =
        |code: &str| json!({"id": "work", "type": "javascript", "config": {"code": code}, "retry": {"maxAttempts": 1}});
    let ask = json!({"id": "ask", "type": "wait", "config": {"event": "go"}});
    session.import("order", &chain(&[work("return 1"), ask]));
    session.import("bad", &chain(&[work(stack)]));

    // The seq in a line is what `fork --at` takes.
    let run = session.start(&["order"]);
    client.wait_for(&format!("/v1/runs/{run}"), "waiting");
    let shown = session.call(&["show", &run]).exits(0).stdout.clone();
    let line = shown.lines().find(|line| line.starts_with("work ")).unwrap();
    let seq = line.split_whitespace().nth(3).unwrap();
    let forked = session.call(&["fork", &run, "--at", seq]);
    // The fork takes over the whole item of the entry.
    forked.exits(0).says("the fork continues after entry ");
    client.wait_for(&format!("/v1/runs/{}", forked.stdout.trim()), "waiting");
    // Times have milliseconds, and no more.
    let created = shown.lines().find_map(|line| line.strip_prefix("created")).unwrap().trim();
    assert_eq!((created.len(), &created[19..20]), ("2026-01-01T00:00:00.000Z".len(), "."), "{shown}");

    session.call(&["cancel", &run, "--reason", "out of stock"]).exits(0);
    let shown = session.call(&["show", &run]).exits(0).stdout.clone();
    assert!(shown.contains("reason    out of stock"), "{shown}");

    let failed =
        session.call(&["start", "bad", "--wait"]).exits(1).says("first line\n    at charge (pay.ts:3)").stderr.clone();
    let run = failed.split_whitespace().nth(1).unwrap().trim_end_matches(':');
    let shown = session.call(&["show", run]).exits(0).stdout.clone();
    assert!(shown.lines().any(|line| line.ends_with("first line")), "{shown}");
    assert!(shown.lines().any(|line| line.trim_start().starts_with("at charge (pay.ts:3)")), "{shown}");
}

#[test]
fn an_attempt_that_was_lost_and_restarted_is_shown() {
    let folder = Folder::new();
    let data = folder.at("data");
    let server = Server::start(&data);
    let slow = json!({"id": "slow", "type": "noop", "config": {"delayMs": 60_000}, "timeoutSeconds": 120});
    server.client().publish("slow", &chain(&[slow]));
    let run = server.client().start("slow", &json!({}));
    wait_for_entries(&folder.path().join("data"), 4);
    server.kill();
    let server = Server::start(&data);
    wait_for_entries(&folder.path().join("data"), 5);
    let session = Session { folder, server };
    let shown = session.call(&["show", run.rsplit_once('/').unwrap().1]).exits(0).stdout.clone();
    assert!(
        shown.contains("attempt 1 of 20") && shown.contains("was lost; the step was started again at 20"),
        "{shown}"
    );
}
