//! A server opens the database of an earlier release, and the runs in it continue.
//!
//! The database is written by this release, and then set back to the schema of the release before the data store.

use std::path::Path;

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::support::{Client, Folder, Server, chain, wait_for};
use crate::{alone, flows, site};

const RUNS: usize = 8;

/// Removes everything that later migrations have added. `versions` is the number of migrations before them.
fn set_back(versions: u32) -> String {
    format!(
        "drop table workflow_keys;
        drop index runs_by_origin;
        drop index runs_of_workflow_by_status;
        drop index runs_running;
        drop index runs_by_status;
        drop index runs_by_error;
        drop table run_terms;
        drop table search_attributes;
        delete from settings where name = 'tag_terms_since';
        drop table dead_letters;
        drop table file_chunks;
        drop table files;
        drop index runs_claimable_by_workspace;
        drop table events;
        drop table event_results;
        drop table subscriptions;
        create index waits_by_event on waits (workspace, event, run_id, step);
        drop index runs_by_trigger;
        alter table runs drop column trigger;
        alter table runs drop column start;
        drop index waits_by_shape;
        alter table waits drop column by_topic;
        alter table waits drop column shape;
        alter table waits drop column shape_hash;
        alter table waits drop column match_hash;
        drop table store_changes;
        drop table links;
        drop table records;
        drop table store_namespaces;
        drop table run_stats;
        drop index waits_by_kind;
        alter table waits drop column kind;
        alter table api_keys drop column maker;
        alter table workflows drop column publisher;
        alter table workflows drop column permissions;
        delete from everstep_migrations where version > {versions}"
    )
}

fn counts() -> Value {
    chain(&[json!({"id": "count", "type": "store.increment", "config": {"namespace": "n", "key": "k"}})])
}

/// Starts runs that wait for a signal, and one that sleeps.
fn start_all(client: &Client) -> Vec<String> {
    client.publish("waits", &flows::waits());
    client.publish("sleeps", &flows::sleeps(500));
    client.publish("counts", &counts());
    let mut runs: Vec<_> = (0..RUNS).map(|_| client.start("waits", &json!({}))).collect();
    for run in &runs {
        client.wait_for(run, "waiting");
    }
    runs.push(client.start("sleeps", &json!({})));
    runs
}

/// The runs continue. A version that was saved before, by an unknown publisher, may write records.
fn check(client: &Client, runs: &[String]) {
    for run in &runs[..RUNS] {
        client.post(&format!("{run}/signals/go"), &json!({})).is(200);
    }
    for run in runs {
        let ended =
            wait_for("the run to end", || Some(client.get(run).is(200)).filter(|run| !run["endedAt"].is_null()));
        assert_eq!(ended["status"], "completed", "{ended}");
    }
    for expected in 1..=2 {
        assert_eq!(client.wait(&client.start("counts", &json!({})))["status"], "completed");
        assert_eq!(client.get("/v1/store/n/k").is(200)["value"], expected);
        // The same definition by a known publisher.
        client.publish("counts", &counts());
    }
}

#[test]
fn the_runs_of_a_data_folder_of_an_earlier_release_continue() {
    let _turn = alone();
    let folder = Folder::new();
    let data = folder.at("data");
    let server = Server::start(&data);
    let runs = start_all(&server.client());
    server.kill();
    let database = Connection::open(Path::new(&data).join("everstep.db")).unwrap();
    database.execute_batch(&set_back(5)).unwrap();
    database.close().unwrap();
    let server = Server::start(&data);
    check(&server.client(), &runs);
}

#[test]
fn the_runs_of_a_database_of_an_earlier_release_continue() {
    let _turn = alone();
    let site = site();
    let server = site.start();
    let runs = start_all(&server.client());
    server.kill();
    site.database.sql(&set_back(4));
    let server = site.start();
    check(&server.client(), &runs);
}
