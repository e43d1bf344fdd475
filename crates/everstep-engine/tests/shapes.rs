//! The shapes that a graph may have, one by one and many at the same time, on a real database.
//!
//! The definitions are in `examples/shapes`.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use everstep_core::ids::{RunId, WorkspaceId};
use everstep_core::journal::codec;
use everstep_core::journal::law;
use everstep_core::journal::{Entry, Kind, Outcome};
use everstep_core::run::Input;
use everstep_core::status::Status;
use everstep_engine::{Engine, Options, Start};
use everstep_handlers::{Ports, Registry};
use everstep_sandbox::Sandbox;
use everstep_store::RunRow;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support;

/// A shape, how it ends with `{"n": 4}`, the steps that run, and those that must not.
struct Shape {
    name: &'static str,
    status: Status,
    result: Option<Value>,
    runs: &'static [&'static str],
    skips: &'static [&'static str],
}

fn shapes() -> Vec<Shape> {
    let shape = |name, status, result, runs, skips| Shape { name, status, result, runs, skips };
    let completed = Status::Completed;
    vec![
        shape("linear", completed, Some(json!(7)), &["a", "b", "c", "end"], &[]),
        shape("fan_out", completed, None, &["a", "b", "c", "end_a", "end_b", "end_c"], &[]),
        shape("diamond_and", completed, Some(json!(45)), &["a", "b", "join", "end"], &[]),
        shape("diamond_or", completed, Some(json!("once")), &["fast", "join", "end"], &[]),
        shape("deep_chain", completed, Some(json!(20)), &["s1", "s10", "s20", "end"], &[]),
        shape("wide_fan_out", completed, None, &["b1", "b10", "end1", "end5", "end10"], &[]),
        shape("wide_fan_in", completed, Some(json!(55)), &["b1", "b10", "join", "end"], &[]),
        shape("error_path", Status::Failed, None, &["end_error"], &["end_ok"]),
        shape("conditional", completed, Some(json!("small")), &["size", "small", "end_small"], &["big", "end_big"]),
        shape("multi_diamond", completed, Some(json!(12)), &["a", "b", "join1", "c", "d", "join2", "end"], &[]),
        shape("error_recovery", completed, Some(json!("made up for out of order")), &["recover", "end"], &[]),
        shape("delay_heavy", completed, Some(json!("rested")), &["delay1", "delay3", "join", "end"], &[]),
    ]
}

struct Fixture {
    engine: Engine,
    _folder: TempDir,
}

impl Fixture {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let world = support::world(
            support::open(folder.path()).await,
            Registry::standard(Ports { sandbox: Sandbox::new(2), ..Ports::none() }),
        );
        Self { engine: Engine::start(world, Options::default()).await.unwrap(), _folder: folder }
    }

    async fn publish(&self, name: &str, definition: &Value) {
        let published = self.engine.library().publish(WorkspaceId::DEFAULT, name, definition).await;
        assert_eq!(published, Ok(1), "{name}");
    }

    async fn publish_shape(&self, name: &str) {
        self.publish(name, &read_shape(name)).await;
    }

    async fn start(&self, name: &str) -> RunId {
        self.engine.start_run(Start::new(name, json!({"n": 4}))).await.unwrap().run
    }

    async fn wait(&self, run: RunId) -> RunRow {
        let waited = tokio::time::timeout(Duration::from_secs(60), self.engine.wait(WorkspaceId::DEFAULT, run)).await;
        waited.expect("a run ends within a minute").unwrap()
    }

    /// A run's journal, which obeys the laws.
    async fn journal(&self, row: &RunRow) -> Vec<Entry> {
        let world = self.engine.world();
        let mut journal = Vec::new();
        loop {
            let page = world.runs.journal(row.id, journal.len() as u64, 1_000).await.unwrap();
            if page.is_empty() {
                break;
            }
            journal.extend(page.into_iter().map(|stored| codec::decode(stored.seq, stored.at, stored.row).unwrap()));
        }
        let version = self.engine.library().find(WorkspaceId::DEFAULT, &row.workflow, Some(row.version)).await.unwrap();
        let state = law::check(row.id, &version.workflow, &journal, &*world.evaluate, false).unwrap();
        assert_eq!(state.status(), row.status);
        journal
    }

    async fn stop(self) {
        self.engine.stop(Duration::from_secs(10)).await.unwrap();
    }
}

fn read_shape(name: &str) -> Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/shapes");
    let text = std::fs::read_to_string(folder.join(format!("{name}.json"))).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The number of entries of a kind for each step.
fn count(journal: &[Entry], kind: Kind) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for entry in journal.iter().filter(|entry| entry.event.kind() == kind) {
        let (step, _) = entry.event.step().unwrap();
        *counts.entry(step.as_str().to_owned()).or_default() += 1;
    }
    counts
}

/// Checks a run that has ended against its shape.
fn check(shape: &Shape, row: &RunRow, journal: &[Entry]) {
    let name = shape.name;
    assert_eq!(row.status, shape.status, "{name}: {:?}", row.error);
    if let Some(result) = &shape.result {
        assert_eq!(row.output.as_ref().unwrap().value(), &json!({"result": result}), "{name}");
    }
    let completed = count(journal, Kind::StepCompleted);
    let dispatched = count(journal, Kind::StepDispatched);
    for step in shape.runs {
        assert_eq!(completed.get(*step), Some(&1), "{name}: {step} completes once");
        assert_eq!(dispatched.get(*step), Some(&1), "{name}: {step} is dispatched once");
    }
    for step in shape.skips {
        assert_eq!(dispatched.get(*step), None, "{name}: {step} is not dispatched");
    }
    let joins = completed.iter().filter(|(step, _)| step.starts_with("join"));
    assert!(joins.into_iter().all(|(_, times)| *times == 1), "{name}: a join runs once");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_shape_comes_to_its_end() {
    let fixture = Fixture::new().await;
    for shape in shapes() {
        fixture.publish_shape(shape.name).await;
        let run = fixture.start(shape.name).await;
        let row = fixture.wait(run).await;
        check(&shape, &row, &fixture.journal(&row).await);
    }
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_shapes_at_once_come_to_their_ends() {
    let fixture = Fixture::new().await;
    let shapes = shapes();
    let mut runs = Vec::new();
    for shape in &shapes {
        fixture.publish_shape(shape.name).await;
    }
    for _ in 0..10 {
        for shape in &shapes {
            runs.push((shape, fixture.start(shape.name).await));
        }
    }
    for (shape, run) in runs {
        let row = fixture.wait(run).await;
        check(shape, &row, &fixture.journal(&row).await);
    }
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_linear_runs_complete_within_ten_seconds() {
    let fixture = Fixture::new().await;
    fixture.publish_shape("linear").await;
    let began = Instant::now();
    let mut runs = Vec::new();
    for _ in 0..100 {
        runs.push(fixture.start("linear").await);
    }
    for run in runs {
        assert_eq!(fixture.wait(run).await.status, Status::Completed);
    }
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_diamonds_dispatch_nothing_twice() {
    let fixture = Fixture::new().await;
    fixture.publish_shape("diamond_and").await;
    let mut runs = Vec::new();
    for _ in 0..50 {
        runs.push(fixture.start("diamond_and").await);
    }
    for run in runs {
        let row = fixture.wait(run).await;
        assert_eq!(row.status, Status::Completed);
        let dispatched = count(&fixture.journal(&row).await, Kind::StepDispatched);
        assert_eq!(dispatched.len(), 5);
        assert!(dispatched.values().all(|times| *times == 1), "{dispatched:?}");
    }
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn joins_run_once_in_parallel_batches() {
    let fixture = Fixture::new().await;
    for (name, times) in [("diamond_and", 10), ("wide_fan_in", 5), ("multi_diamond", 5)] {
        fixture.publish_shape(name).await;
        let mut runs = Vec::new();
        for _ in 0..times {
            runs.push(fixture.start(name).await);
        }
        for run in runs {
            let row = fixture.wait(run).await;
            let dispatched = count(&fixture.journal(&row).await, Kind::StepDispatched);
            let mut joins = dispatched.iter().filter(|(step, _)| step.starts_with("join"));
            assert!(joins.all(|(_, times)| *times == 1), "{name}: {dispatched:?}");
        }
    }
    fixture.stop().await;
}

/// A graph of `width` branches that meet in one join.
fn fan_in(width: usize) -> Value {
    let mut nodes = vec![json!({"id": "start", "type": "start"})];
    let mut edges = vec![json!({"source": "join", "target": "end"})];
    for branch in (0..width).map(|n| format!("b{n}")) {
        edges.push(json!({"source": "start", "target": branch}));
        edges.push(json!({"source": branch, "target": "join"}));
        nodes.push(json!({"id": branch, "type": "noop", "config": {"output": 1}, "outputVariable": branch}));
    }
    let code = "return Object.keys(ctx).filter((name) => name.startsWith('b')).length";
    nodes.push(json!({"id": "join", "type": "javascript", "config": {"code": code}, "outputVariable": "count"}));
    let parameter = json!({"name": "result", "sourceVariable": "{{ctx.count}}"});
    nodes.push(json!({"id": "end", "type": "end", "config": {"outputParameters": [parameter]}}));
    json!({"nodes": nodes, "edges": edges})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fan_in_of_ten_and_of_a_thousand_joins_once() {
    let fixture = Fixture::new().await;
    for width in [10, 1_000] {
        let name = format!("fan-in-{width}");
        fixture.publish(&name, &fan_in(width)).await;
        let run = fixture.start(&name).await;
        let row = fixture.wait(run).await;
        assert_eq!(row.output.as_ref().unwrap().value(), &json!({"result": width}));
        let journal = fixture.journal(&row).await;
        assert_eq!(count(&journal, Kind::StepDispatched)["join"], 1);
        assert_eq!(count(&journal, Kind::StepCompleted).len(), width + 3);
    }
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_arrives_twice_dispatches_nothing_twice() {
    let fixture = Fixture::new().await;
    let definition = json!({
        "nodes": [
            {"id": "start", "type": "start"},
            {"id": "a", "type": "noop"},
            {"id": "pause", "type": "delay", "config": {"delayMs": 300}},
            {"id": "end", "type": "end"},
        ],
        "edges": [
            {"source": "start", "target": "a"},
            {"source": "a", "target": "pause"},
            {"source": "pause", "target": "end"},
        ],
    });
    fixture.publish("twice", &definition).await;
    let run = fixture.start("twice").await;
    let mut watch = fixture.engine.watch(run);
    // Entries 1 to 4: started, start dispatched and completed, a dispatched. The next item is a's result.
    while fixture.engine.world().runs.journal(run, 5, 1).await.unwrap().is_empty() {
        watch.next().await;
    }
    let result = Input::Result { step: "a".into(), attempt: 1, result: Ok(Outcome::default()), logs: Vec::new() };
    let reply = fixture.engine.send(run, result).await.unwrap();
    assert!(!reply.is_accepted(), "{reply:?}");
    let row = fixture.wait(run).await;
    assert_eq!(row.status, Status::Completed);
    let dispatched = count(&fixture.journal(&row).await, Kind::StepDispatched);
    assert!(dispatched.values().all(|times| *times == 1), "{dispatched:?}");
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_costs_one_call_to_the_store() {
    let fixture = Fixture::new().await;
    fixture.publish_shape("deep_chain").await;
    let mut calls = Vec::new();
    for _ in 0..3 {
        let store = &fixture.engine.world().runs;
        let before = store.calls();
        let run = fixture.start("deep_chain").await;
        fixture.wait(run).await;
        calls.push(store.calls() - before);
    }
    // Twenty results, the start, its workflow, and the reads of `wait`. The loops of a node that has just started call
    // the store at the same time.
    assert!(calls.iter().min().is_some_and(|calls| *calls <= 20 + 6), "{calls:?} calls for 20 steps");
    fixture.stop().await;
}
