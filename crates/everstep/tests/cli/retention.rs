//! Runs are deleted when their retention has passed, and not before.

use serde_json::json;

use crate::support::{Folder, Server, chain, wait_for};
use crate::telemetry;

const DAY: i64 = 86_400_000_000;

#[test]
fn ended_runs_go_when_their_retention_is_over_and_running_ones_never() {
    let folder = Folder::new();
    let data = folder.at("data");
    let settings = [("WORKFLOWS_MAX_RETENTION_DAYS", "10"), ("WORKFLOWS_SWEEPER_INTERVAL_MS", "50")];
    let serve = || Server::with(&["--data", &data], &settings);
    let server = serve();
    let client = server.client();
    let wait = json!({"id": "ask", "type": "wait", "config": {"event": "go"}});
    let node =
        json!({"id": "work", "type": "javascript", "config": {"code": "if (ctx.input.fails) throw new Error('no')"}});
    client.publish("orders", &chain(&[node]));
    client.publish("letters", &chain(&[wait]));
    let start = |days: u32, fails: bool| {
        let run = client.start("orders", &json!({"input": {"fails": fails}, "retentionDays": days}));
        client.wait(&run);
        run
    };
    // The maximum counts, whatever a start requests.
    let (short, long, failed) = (start(2, false), start(90, false), start(2, true));
    let kept = [&short, &long, &failed].map(|run| client.get(run).is(200)["retentionDays"].clone());
    assert_eq!(kept, [json!(2), json!(10), json!(2)]);
    let open = client.start("letters", &json!({"retentionDays": 1}));
    client.wait_for(&open, "waiting");
    server.stop();

    // All entries are five days old.
    let database = folder.path().join("data/everstep.db");
    let age = |days: i64| {
        let database = rusqlite::Connection::open(&database).unwrap();
        let sql = "update runs set created_at = created_at - ?1, ended_at = ended_at - ?1";
        assert_eq!(database.execute(sql, [days * DAY]).unwrap(), if days == 5 { 4 } else { 2 });
    };
    age(5);
    let server = serve();
    let client = server.client();
    for run in [&short, &failed] {
        wait_for("the run to be gone", || (client.get(run).status == 404).then_some(()));
    }
    wait_for("the figure", || swept(&server).filter(|swept| *swept == 2));
    client.get(&long).is(200);
    client.wait_for(&open, "waiting");
    server.stop();
    let left: Vec<String> = {
        let database = rusqlite::Connection::open(&database).unwrap();
        let mut entries = database.prepare("select distinct lower(hex(run_id)) from journal order by 1").unwrap();
        entries.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    let id = |run: &str| run.rsplit_once('/').unwrap().1.replace('-', "");
    let mut expected = [id(&long), id(&open)];
    expected.sort();
    assert_eq!(left, expected, "entries go with their runs, and only those");

    // Six days more.
    age(6);
    let server = serve();
    let client = server.client();
    wait_for("the run to be gone", || (client.get(&long).status == 404).then_some(()));
    // A run that has not ended is older than a day, and continues.
    client.post(&format!("{open}/signals/go"), &json!({})).is(200);
    assert_eq!(client.wait(&open)["status"], "completed");
}

/// The number of runs that the server reports as swept.
fn swept(server: &Server) -> Option<u32> {
    let page = telemetry::fetch(server.address(), &format!("x-api-key: {}\r\n", server.client().key()));
    page.lines().find_map(|line| line.strip_prefix("workflow_retention_swept_total "))?.parse().ok()
}
