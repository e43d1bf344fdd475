//! The real process is killed during its work, repeatedly, and nothing is lost or done twice.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use everstep_core::graph;
use everstep_core::ids::{RunId, WorkspaceId};
use everstep_core::journal::Entry;
use everstep_core::journal::codec;
use everstep_core::journal::law;
use everstep_core::status::Status;
use everstep_core::workflow::{Style, Workflow};
use everstep_expressions::Expressions;
use everstep_handlers::{Ports, Registry};
use everstep_store::RunStore;
use everstep_store::sqlite::SqliteStore;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::lab;
use crate::support::{CommandOutput, Folder, journal};

const RUNS: usize = 120;

/// Everything that may be in progress at a crash: javascript, delays, retries, a fan-out with a join, a loop.
fn workflow() -> Value {
    let code = "return ctx.input.n + 1";
    let sum = "return ctx.a + ctx.b.n + ctx.visits.length";
    json!({
        "nodes": [
            {"id": "start", "type": "start"},
            {"id": "a", "type": "javascript", "config": {"code": code}, "outputVariable": "a"},
            {"id": "b", "type": "noop", "config": {"output": {"n": 10}, "failTimes": 1, "delayMs": 20},
             "retry": {"maxAttempts": 20, "baseMs": 100, "backoff": "fixed"}, "outputVariable": "b"},
            {"id": "pause", "type": "delay", "config": {"delayMs": 400}},
            {"id": "join", "type": "transform", "config": {"value": {"a": "{{ctx.a}}", "b": "{{ctx.b.n}}"}}},
            {"id": "each", "type": "loop", "outputVariable": "visits",
             "config": {"sourceVariable": "{{[1, 2, 3]}}", "delayBetweenItems": 100}},
            {"id": "visit", "type": "javascript", "config": {"code": "return ctx.item * 2"}},
            {"id": "rest", "type": "delay", "config": {"delayMs": 300}},
            {"id": "sum", "type": "javascript", "config": {"code": sum}, "outputVariable": "sum"},
            {"id": "end", "type": "end",
             "config": {"outputParameters": [{"name": "sum", "sourceVariable": "{{ctx.sum}}"}]}},
        ],
        "edges": [
            {"source": "start", "target": "a"},
            {"source": "start", "target": "b"},
            {"source": "start", "target": "pause"},
            {"source": "a", "target": "join"},
            {"source": "b", "target": "join"},
            {"source": "pause", "target": "join"},
            {"source": "join", "target": "each"},
            {"source": "each", "target": "visit", "sourceHandle": "loop"},
            {"source": "visit", "target": "each"},
            {"source": "each", "target": "rest", "sourceHandle": "done"},
            {"source": "rest", "target": "sum"},
            {"source": "sum", "target": "end"},
        ],
    })
}

/// A reader of the database of a process that is running or dead.
struct Look(Connection);

impl Look {
    fn into(data: &Path) -> Option<Self> {
        journal::open(data).map(Self)
    }

    fn number(&self, sql: &str) -> Option<i64> {
        self.0.query_row(sql, [], |row| row.get(0)).ok()
    }

    /// The last seq of every run that has not ended.
    fn live(&self) -> BTreeMap<Vec<u8>, i64> {
        let sql = "select run_id, max(seq) from journal join runs on runs.id = run_id \
                   where ended_at is null group by run_id";
        let mut statement = self.0.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        rows.map(Result::unwrap).collect()
    }

    /// When a run got its first entry after a seq, in microseconds since 1970.
    fn first_after(&self, run: &[u8], seq: i64) -> i64 {
        let sql = "select at from journal where run_id = ?1 and seq = ?2";
        self.0.query_row(sql, (run, seq + 1), |row| row.get(0)).unwrap()
    }
}

fn start(file: &str, data: &str) -> Child {
    let mut command = lab();
    command.args(["load", file, "--data", data, "--runs", &RUNS.to_string(), "--input", r#"{"n": 1}"#]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn now() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros()).unwrap()
}

#[test]
fn a_killed_process_loses_nothing_and_does_nothing_twice() {
    let folder = Folder::new();
    let file = folder.write("crash.json", workflow().to_string());
    let data = folder.at("data");
    let path = folder.path().join("data");
    // The runs that had not ended at the last kill, with the last seq of each.
    let mut live = BTreeMap::new();
    let mut most_live = 0;
    // Kills while runs are being started, in the fan-out, in the loop, and near the end.
    for entries in [300, 1_500, 2_400, 3_300] {
        let began = now();
        let mut child = start(&file, &data);
        journal::wait_for_entries(&path, entries);
        child.kill().unwrap();
        child.wait_with_output().unwrap();
        let look = Look::into(&path).unwrap();
        check_resumed(&look, &live, began);
        live = look.live();
        most_live = most_live.max(live.len());
    }
    assert!(most_live >= 100, "only {most_live} runs were alive at a kill");
    let began = now();
    let output = CommandOutput::from(start(&file, &data).wait_with_output().unwrap());
    let summary = output.exits(0).json();
    assert_eq!((&summary["completed"], &summary["failed"]), (&json!(RUNS), &json!(0)));
    let look = Look::into(&path).unwrap();
    assert_eq!(check_resumed(&look, &live, began), live.len(), "every live run went on");
    check_tables(&look);
    drop(look);
    check_laws(&path);
}

/// Every run that had not ended at a kill continued within two seconds of the restart, unless the next kill came first.
/// Returns the number of runs that continued.
fn check_resumed(look: &Look, live: &BTreeMap<Vec<u8>, i64>, began: i64) -> usize {
    let mut resumed = 0;
    for (run, seq) in live {
        let sql = "select count(*) from journal where run_id = ?1 and seq > ?2";
        let more: i64 = look.0.query_row(sql, (run, seq), |row| row.get(0)).unwrap();
        if more > 0 {
            resumed += 1;
            let waited = Duration::from_micros((look.first_after(run, *seq) - began).max(0).cast_unsigned());
            assert!(waited < Duration::from_secs(2), "a run went on after {waited:?}");
        }
    }
    resumed
}

/// The state of the tables, without reading a single event.
fn check_tables(look: &Look) {
    let count = |sql: &str| look.number(&format!("select count(*) from ({sql})"));
    assert_eq!(look.number("select count(*) from runs"), Some(RUNS as i64), "one run per key");
    assert_eq!(
        count("select 1 from runs where status <> 'completed' or ended_at is null or owner is not null"),
        Some(0)
    );
    let gaps = "select 1 from journal group by run_id having count(*) <> max(seq) or min(seq) <> 1";
    assert_eq!(count(gaps), Some(0), "no journal has a gap");
    let doubles = "select 1 from journal group by run_id, seq having count(*) > 1";
    assert_eq!(count(doubles), Some(0), "no entry is recorded twice");
    let attempts =
        "select 1 from journal where kind in (2, 3, 4) group by run_id, step, attempt, kind having count(*) > 1";
    assert_eq!(count(attempts), Some(0), "no attempt is dispatched or settled twice");
    let steps = "select 1 from journal where kind = 3 group by run_id, step having count(*) > 1";
    assert_eq!(count(steps), Some(0), "no step completes twice");
    let joins = "select 1 from journal where kind = 2 and step = 'join'";
    assert_eq!(count(joins), Some(RUNS as i64), "every join is dispatched once");
    let ends = "select 1 from journal where kind in (30, 31, 32)";
    assert_eq!(count(ends), Some(RUNS as i64), "every run ends once");
}

/// Checks the journals with the core that wrote them.
fn check_laws(data: &Path) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let evaluate = Expressions::default();
    let graph = graph::compile(&workflow(), &Registry::standard(Ports::none()), &evaluate).unwrap();
    let workflow = Workflow {
        name: "crash".to_owned(),
        version: 1,
        style: Style::Graph(graph),
        is_unsaved: false,
        publisher: Default::default(),
    };
    let look = Look::into(data).unwrap();
    let mut statement = look.0.prepare("select id from runs").unwrap();
    let runs: Vec<RunId> = statement
        .query_map([], |row| row.get::<_, Vec<u8>>(0))
        .unwrap()
        .map(|id| RunId::from_uuid(uuid::Uuid::from_slice(&id.unwrap()).unwrap()))
        .collect();
    runtime.block_on(async {
        let store = SqliteStore::open(data, &Default::default()).unwrap();
        for run in runs {
            let stored = store.journal(run, 0, 10_000).await.unwrap();
            let journal: Vec<Entry> =
                stored.into_iter().map(|stored| codec::decode(stored.seq, stored.at, stored.row).unwrap()).collect();
            let state = law::check(run, &workflow, &journal, &evaluate, false).unwrap();
            assert_eq!(state.status(), Status::Completed);
            let row = store.get_run(WorkspaceId::DEFAULT, run).await.unwrap().unwrap();
            assert_eq!(row.output.unwrap().value(), &json!({"sum": 15}));
        }
    });
}
