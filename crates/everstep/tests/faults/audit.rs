//! A killed server leaves every start and every signal with its audit row, and no audit row without them.

use std::sync::atomic::{AtomicUsize, Ordering};

use everstep_core::journal::Event;
use serde_json::json;

use crate::books::Books;
use crate::support::{Folder, Server, wait_for};
use crate::{alone, flows, site};

/// Clients at once.
const CLIENTS: usize = 8;
/// Starts that are answered before the kill.
const STARTS_MIN: usize = 300;

#[test]
fn a_killed_server_on_sqlite_has_one_audit_row_for_each_start_and_signal() {
    let _turn = alone();
    let folder = Folder::new();
    kill_under_load(Server::start(&folder.at("data")));
    println!("SQLite, kill -9: {}", check(&Books::from_folder(&folder.path().join("data"))));
}

#[test]
fn a_killed_server_on_postgresql_has_one_audit_row_for_each_start_and_signal() {
    let _turn = alone();
    let site = site();
    kill_under_load(site.start());
    println!("PostgreSQL, kill -9: {}", check(&Books::from_database(&site.database)));
}

/// Starts runs and signals each of them, once, until the server is killed.
fn kill_under_load(server: Server) {
    let client = server.client();
    client.publish("waits", &flows::waits());
    let answered = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for number in 0..CLIENTS {
            let (client, answered) = (&client, &answered);
            scope.spawn(move || {
                for n in 0.. {
                    let (key, body) = (format!("{number}-{n}"), json!({"definitionId": "waits"}));
                    let started = client.try_ask("POST", "/v1/workflow-runs", &[("idempotency-key", &key)], &body);
                    let Ok(started) = started else { return };
                    let run = started.is(201)["run"]["id"].as_str().unwrap().to_owned();
                    answered.fetch_add(1, Ordering::Relaxed);
                    let signal = format!("/v1/runs/{run}/signals/go");
                    let Ok(signalled) = client.try_ask("POST", &signal, &[], &json!({})) else { return };
                    assert_eq!(signalled.is(200)["outcome"], "accepted");
                }
            });
        }
        wait_for("enough starts", || (answered.load(Ordering::Relaxed) >= STARTS_MIN).then_some(()));
        server.kill();
    });
}

/// Compares the audit with the runs. Returns the numbers.
#[track_caller]
fn check(books: &Books) -> String {
    let rows = |action: &'static str| books.audit.iter().filter(move |row| row.action == action);
    let mut audited: Vec<_> =
        rows("POST /v1/workflow-runs").map(|row| row.details.value()["idempotencyKey"].as_str().unwrap()).collect();
    audited.sort_unstable();
    let keys = books.accounts.iter().map(|account| account.row.key.as_ref().unwrap().1.as_str());
    let mut keys: Vec<_> = keys.collect();
    keys.sort_unstable();
    assert!(keys.len() >= STARTS_MIN, "only {} runs were started", keys.len());
    assert_eq!(audited, keys, "each run has one audit row, and each audit row a run");

    let mut signals: Vec<_> = rows("POST /v1/runs/{id}/signals/{event}").map(|row| row.target.clone()).collect();
    signals.sort_unstable();
    let is_signalled = |event: &Event| matches!(event, Event::StepCompleted { step, .. } if step.as_str() == "wait");
    let signalled = books.accounts.iter().filter(|run| run.journal.iter().any(|(_, entry)| is_signalled(&entry.event)));
    let mut signalled: Vec<_> = signalled.map(|run| format!("/v1/runs/{}/signals/go", run.row.id)).collect();
    signalled.sort_unstable();
    assert_eq!(signals, signalled, "each signal in a journal has one audit row, and each audit row its signal");
    format!("{} starts and {} signals, each with its audit row", keys.len(), signals.len())
}
