//! Runs increment one record while their servers are killed: each step counts once.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Client, Folder, Server, wait_for};
use crate::{alone, site};

/// Steps that increment the record.
const INCREMENTS: usize = 1_000;
const RUNS: usize = 64;
/// A server is killed this long after it was ready, and not before it has counted some increments: on PostgreSQL, runs of
/// a killed node continue after the end of its lease, which is longer.
const KILL_AFTER: Duration = Duration::from_millis(300);
const PROGRESS_MIN: u64 = 60;
/// How often the increments are counted, and how long they may take.
const COUNT_EVERY: Duration = Duration::from_millis(20);
const COUNT_TIMEOUT: Duration = Duration::from_secs(180);

/// Increments a record once for each item, with a pause after each.
fn count() -> Value {
    json!({
        "nodes": [
            {"id": "start", "type": "start"},
            {"id": "each", "type": "loop", "config": {
                "sourceVariable": "{{ctx.input.items}}", "delayBetweenItems": 250,
            }},
            {"id": "count", "type": "store.increment", "config": {"namespace": "counters", "key": "all"}},
            {"id": "end", "type": "end"},
        ],
        "edges": [
            {"source": "start", "target": "each"},
            {"source": "each", "target": "count", "sourceHandle": "loop"},
            {"source": "each", "target": "end", "sourceHandle": "done"},
        ],
    })
}

/// Starts all runs. Some have one item more than others.
fn start_all(client: &Client) -> Vec<String> {
    client.publish("count", &count());
    let items = |n: usize| INCREMENTS / RUNS + usize::from(n < INCREMENTS % RUNS);
    (0..RUNS).map(|n| client.start("count", &json!({"input": {"items": vec![n; items(n)]}}))).collect()
}

/// The value of the record now.
fn counted(client: &Client) -> u64 {
    let answer = client.get("/v1/store/counters/all");
    if answer.status == 404 { 0 } else { answer.is(200)["value"].as_u64().expect("the record is a number") }
}

/// Kills servers until all increments are done: `replace` kills one, and returns a client of one that is ready. Returns a
/// client, and the number of kills.
fn kill_until_counted(client: Client, mut replace: impl FnMut() -> Client) -> (Client, usize) {
    let began = Instant::now();
    let mut client = client;
    let mut kills = 0;
    let (mut ready, mut at_ready) = (Instant::now(), counted(&client));
    loop {
        let now = counted(&client);
        if now >= INCREMENTS as u64 {
            break;
        }
        assert!(began.elapsed() < COUNT_TIMEOUT, "{now} of {INCREMENTS} after {kills} kills");
        if ready.elapsed() >= KILL_AFTER && now >= at_ready + PROGRESS_MIN {
            client = replace();
            kills += 1;
            (ready, at_ready) = (Instant::now(), counted(&client));
        }
        std::thread::sleep(COUNT_EVERY);
    }
    assert!(kills >= 3, "only {kills} kills");
    (client, kills)
}

/// Each step has the output of an increment of its own, and nothing else has counted. Returns the number of attempts.
fn check(client: &Client, runs: &[String]) -> usize {
    let mut outputs = BTreeSet::new();
    let mut attempts = 0;
    for run in runs {
        let ended =
            wait_for("the run to end", || Some(client.get(run).is(200)).filter(|run| run["endedAt"].is_string()));
        assert_eq!(ended["status"], "completed", "{ended}");
        for entry in client.journal(run) {
            let is_count = entry["step"].as_str().is_some_and(|step| step.contains("count"));
            match entry["event"].as_str() {
                Some("StepCompleted") if is_count => {
                    let output = entry["data"]["output"]["value"].as_u64().expect("an increment returns its value");
                    assert!(outputs.insert(output), "{output} is the output of two steps");
                }
                Some("StepDispatched") if is_count => attempts += 1,
                _ => {}
            }
        }
    }
    assert_eq!(outputs, (1..=INCREMENTS as u64).collect());
    assert_eq!(counted(client), INCREMENTS as u64);
    attempts
}

#[test]
fn a_thousand_increments_count_once_each_while_the_server_is_killed() {
    let _turn = alone();
    let folder = Folder::new();
    let data = folder.at("data");
    let mut server = Some(Server::start(&data));
    let client = server.as_ref().unwrap().client();
    let runs = start_all(&client);
    let (client, kills) = kill_until_counted(client, || {
        server.take().unwrap().kill();
        server.insert(Server::start(&data)).client()
    });
    let attempts = check(&client, &runs);
    println!("SQLite: {kills} kills, {attempts} attempts of {INCREMENTS} increments");
}

#[test]
fn a_thousand_increments_count_once_each_while_the_only_node_is_killed() {
    let _turn = alone();
    let site = site();
    let mut server = Some(site.start());
    let client = server.as_ref().unwrap().client();
    let runs = start_all(&client);
    let (client, kills) = kill_until_counted(client, || {
        server.take().unwrap().kill();
        server.insert(site.start()).client()
    });
    let attempts = check(&client, &runs);
    println!("PostgreSQL: {kills} kills, {attempts} attempts of {INCREMENTS} increments");
}

#[test]
fn a_thousand_increments_count_once_each_while_two_nodes_are_killed_in_turn() {
    let _turn = alone();
    let site = site();
    let mut servers = vec![site.start(), site.start()];
    let client = servers[0].client();
    let runs = start_all(&client);
    let (client, kills) = kill_until_counted(client, || {
        servers.remove(0).kill();
        servers.push(site.start());
        servers[0].client()
    });
    let attempts = check(&client, &runs);
    println!("PostgreSQL, two nodes: {kills} kills, {attempts} attempts of {INCREMENTS} increments");
}
