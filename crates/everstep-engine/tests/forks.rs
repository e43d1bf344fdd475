//! Runs that continue from others, test runs, and the counts of runs.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use everstep_core::ids::RunId;
use everstep_core::ids::StepKey;
use everstep_core::journal::codec;
use everstep_core::journal::{Event, Kind};
use everstep_core::payload::Payload;
use everstep_core::run::Input;
use everstep_core::status::Status;
use everstep_engine::{
    CommittedItem, Engine, Fork, ForkError, Observe, Options, Start, StartReply, StepActivity, World,
};
use everstep_handlers::{Ports, Registry};
use everstep_testkit::contract::fixtures::Tables;
use serde_json::{Value, json};

use crate::support::{self, WORKSPACE, chain, engine, engine_with, finish, open, options, publish, start};

/// A waiting run that its node has parked.
async fn parked(engine: &Engine, run: RunId) {
    let wait = async {
        loop {
            let row = engine.world().runs.get_run(WORKSPACE, run).await.unwrap().unwrap();
            if row.owner.is_none() && row.status == Status::Waiting {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), wait).await.expect("the run waits");
}

fn go(by: &str) -> Input {
    Input::Signal { event: "go".to_owned(), payload: Payload::from(json!({"by": by})) }
}

async fn events(engine: &Engine, run: RunId) -> Vec<(Kind, Option<StepKey>, u32)> {
    let entries = engine.world().runs.journal(run, 0, 1_000).await.unwrap();
    entries.into_iter().map(|entry| (entry.row.kind, entry.row.step, entry.row.attempt)).collect()
}

/// The tables of the database of a folder.
fn tables(folder: &Path) -> Tables {
    if support::is_on_postgres() { Tables::Postgres(support::url(folder)) } else { Tables::in_folder(folder) }
}

#[tokio::test]
async fn a_fork_waits_for_a_signal_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    publish(&engine, "waits", &chain(&[("wait", "wait", json!({"config": {"event": "go"}}))])).await;
    let run = start(&engine, "waits", json!({})).await;
    parked(&engine, run).await;
    let forked = engine.fork(WORKSPACE, run, Fork::default()).await.unwrap();
    parked(&engine, forked.run).await;
    let waits = tables(folder.path()).waits_for(WORKSPACE, "go", 10).await;
    let waiting: Vec<_> = waits.iter().map(|(run, _)| *run).collect();
    assert_eq!(waiting, [run, forked.run], "a published event finds both");
    assert!(engine.send(forked.run, go("two")).await.unwrap().is_accepted());
    assert_eq!(finish(&engine, forked.run).await.status, Status::Completed);
    let original = engine.world().runs.get_run(WORKSPACE, run).await.unwrap().unwrap();
    assert_eq!((original.status, original.seq), (Status::Waiting, forked.at));
    assert!(engine.send(run, go("one")).await.unwrap().is_accepted());
    assert_eq!(finish(&engine, run).await.status, Status::Completed);
    // A fork of an ended run, from the time when it waited.
    let late = engine.fork(WORKSPACE, run, Fork::default()).await.unwrap();
    assert_eq!(late.at, forked.at);
    assert!(engine.send(late.run, go("three")).await.unwrap().is_accepted());
    assert_eq!(finish(&engine, late.run).await.status, Status::Completed);
    let refused = engine.fork(WORKSPACE, run, Fork { at: Some(original.seq + 1), ..Fork::default() }).await;
    assert_eq!(refused, Err(ForkError::Ended { usable: Some(original.seq) }));
}

#[tokio::test]
async fn a_fork_starts_its_own_child_and_a_forked_child_notifies_no_parent() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    publish(&engine, "child", &chain(&[("wait", "wait", json!({"config": {"event": "go"}}))])).await;
    publish(&engine, "parent", &chain(&[("call", "workflow", json!({"config": {"workflow": "child"}}))])).await;
    let parent = start(&engine, "parent", json!({})).await;
    parked(&engine, parent).await;
    let child = async |of: RunId| {
        let find = async {
            loop {
                let journal = engine.world().runs.journal(of, 0, 100).await.unwrap();
                let entries = journal.into_iter().map(|entry| codec::decode(entry.seq, entry.at, entry.row).unwrap());
                let child = entries.filter_map(|entry| match entry.event {
                    Event::StepDispatched { dispatch: everstep_core::journal::Dispatch::Child(child), .. } => {
                        Some(child.run)
                    }
                    _ => None,
                });
                let child = child.last().unwrap();
                let row = engine.world().runs.get_run(WORKSPACE, child).await.unwrap();
                if row.is_some_and(|row| row.parent == Some(of)) {
                    return child;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), find).await.expect("the child is started")
    };
    let first = child(parent).await;
    parked(&engine, first).await;
    let forked = engine.fork(WORKSPACE, parent, Fork::default()).await.unwrap();
    assert_eq!(forked.children, [("call".into(), first)]);
    let second = child(forked.run).await;
    assert_ne!(first, second);
    parked(&engine, second).await;
    // The fork is cancelled: its own child is cancelled with it, the original's is not.
    assert!(engine.send(forked.run, Input::Cancel { reason: None }).await.unwrap().is_accepted());
    assert_eq!(finish(&engine, second).await.status, Status::Cancelled);
    // A fork of the child ends without effect on the parent.
    let twin = engine.fork(WORKSPACE, first, Fork::default()).await.unwrap();
    parked(&engine, twin.run).await;
    assert!(engine.send(twin.run, go("twin")).await.unwrap().is_accepted());
    assert_eq!(finish(&engine, twin.run).await.status, Status::Completed);
    let waiting = engine.world().runs.get_run(WORKSPACE, parent).await.unwrap().unwrap();
    assert_eq!(waiting.status, Status::Waiting);
    assert!(engine.send(first, go("first")).await.unwrap().is_accepted());
    assert_eq!(finish(&engine, parent).await.status, Status::Completed);
}

#[tokio::test]
async fn what_was_under_way_is_performed_again_by_a_fork() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    publish(&engine, "works", &chain(&[("a", "noop", json!({})), ("b", "noop", json!({}))])).await;
    let run = start(&engine, "works", json!({})).await;
    assert_eq!(finish(&engine, run).await.status, Status::Completed);
    let forked = engine.fork(WORKSPACE, run, Fork { at: Some(4), key: Some("k"), ..Fork::default() }).await.unwrap();
    assert_eq!(forked.repeated, ["a".into(), "b".into()]);
    let again = engine.fork(WORKSPACE, run, Fork { at: Some(4), key: Some("k"), ..Fork::default() }).await.unwrap();
    assert_eq!((again.run, again.created), (forked.run, false));
    assert_eq!(finish(&engine, forked.run).await.status, Status::Completed);
    let events = events(&engine, forked.run).await;
    let dispatches = |step: &str| {
        let is_dispatch = |(kind, key, _): &&(Kind, Option<StepKey>, u32)| {
            *kind == Kind::StepDispatched && key.as_ref().is_some_and(|key| key.as_str() == step)
        };
        events.iter().filter(is_dispatch).map(|(_, _, attempt)| *attempt).collect::<Vec<_>>()
    };
    assert_eq!((dispatches("a"), dispatches("b")), (vec![1, 2], vec![1]));
}

#[tokio::test]
async fn a_fork_continues_when_its_caller_stops_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    publish(&engine, "waits", &chain(&[("wait", "wait", json!({"config": {"event": "go"}}))])).await;
    let run = start(&engine, "waits", json!({})).await;
    parked(&engine, run).await;
    let mut left = 0;
    // The caller stops waiting at one point after the other.
    for polls in 1..12 {
        let key = format!("k{polls}");
        let mut asked = Box::pin(engine.fork(WORKSPACE, run, Fork { key: Some(&key), ..Fork::default() }));
        for _ in 0..polls {
            if asked.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        drop(asked);
        let forked = engine.fork(WORKSPACE, run, Fork { key: Some(&key), ..Fork::default() }).await.unwrap();
        left += usize::from(!forked.created);
        parked(&engine, forked.run).await;
    }
    assert!(left > 0, "some were written before they were left");
}

#[tokio::test]
async fn a_repeated_fork_is_reported_as_it_was_created() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let go_on = json!({"config": {"event": "go"}});
    let steps = [("wait", "wait", go_on.clone()), ("a", "noop", json!({})), ("then", "wait", go_on)];
    publish(&engine, "waits", &chain(&steps)).await;
    let run = start(&engine, "waits", json!({})).await;
    parked(&engine, run).await;
    let forked = engine.fork(WORKSPACE, run, Fork { key: Some("k"), ..Fork::default() }).await.unwrap();
    parked(&engine, forked.run).await;
    // Both continue independently.
    for run in [run, forked.run] {
        assert!(engine.send(run, go("me")).await.unwrap().is_accepted());
        parked(&engine, run).await;
    }
    let again = engine.fork(WORKSPACE, run, Fork { key: Some("k"), ..Fork::default() }).await.unwrap();
    assert_eq!((again.run, again.created, again.at), (forked.run, false, forked.at));
    assert_eq!(again.repeated, ["a".into()]);
}

async fn start_test(engine: &Engine, definition: &Value) -> StartReply {
    let version = engine.library().compile_test(definition, None).unwrap();
    engine.start_run(Start::of_version(&version, json!({}))).await.unwrap()
}

#[tokio::test]
async fn a_test_run_is_taken_up_by_the_next_process() {
    let folder = tempfile::tempdir().unwrap();
    let first = engine(folder.path()).await;
    let graph = chain(&[("wait", "wait", json!({"config": {"event": "go"}})), ("a", "noop", json!({}))]);
    let started = start_test(&first, &graph).await;
    parked(&first, started.run).await;
    first.stop(Duration::from_secs(5)).await.unwrap();
    drop(first);
    // Its workflow is not saved: it is read from the journal.
    let second = engine(folder.path()).await;
    assert!(second.send(started.run, go("me")).await.unwrap().is_accepted());
    let row = finish(&second, started.run).await;
    assert_eq!((row.status, row.is_test), (Status::Completed, true));
    second.stop(Duration::from_secs(5)).await.unwrap();
    assert_eq!(second.world().runs.counts(WORKSPACE).await.unwrap(), [], "it is not counted");
    let wrong = second.library().compile_test(&json!({"nodes": [], "edges": []}), None);
    assert!(matches!(wrong, Err(problems) if !problems.is_empty()));
}

#[tokio::test]
async fn what_a_test_run_starts_is_part_of_the_test() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    publish(&engine, "child", &chain(&[("a", "noop", json!({}))])).await;
    let graph = chain(&[("call", "workflow", json!({"config": {"workflow": "child"}}))]);
    let started = start_test(&engine, &graph).await;
    assert_eq!(finish(&engine, started.run).await.status, Status::Completed);
    let listed = engine.world().runs.list_runs(WORKSPACE, Default::default(), None, 10).await.unwrap();
    assert_eq!(listed.runs, []);
}

/// The number of runs of a workflow with a status, as lists show it.
async fn count(engine: &Engine, status: Status) -> i64 {
    let counts = engine.world().runs.counts(WORKSPACE).await.unwrap();
    counts.iter().filter(|count| count.status == status).map(|count| count.n).sum()
}

async fn counted(engine: &Engine, expected: &[(Status, i64)]) {
    let wait = async {
        for (status, n) in expected {
            while count(engine, *status).await != *n {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(10), wait).await.expect("the counts become true");
}

#[tokio::test]
async fn runs_are_counted_by_status() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    publish(&engine, "waits", &chain(&[("wait", "wait", json!({"config": {"event": "go"}}))])).await;
    let mut runs = Vec::new();
    for _ in 0..3 {
        runs.push(start(&engine, "waits", json!({})).await);
    }
    counted(&engine, &[(Status::Waiting, 3), (Status::Running, 0)]).await;
    engine.send(runs[0], go("me")).await.unwrap();
    engine.send(runs[1], Input::Cancel { reason: None }).await.unwrap();
    counted(&engine, &[(Status::Waiting, 1), (Status::Completed, 1), (Status::Cancelled, 1)]).await;
    let forked = engine.fork(WORKSPACE, runs[2], Fork::default()).await.unwrap();
    parked(&engine, forked.run).await;
    // An orderly stop writes all changes.
    engine.stop(Duration::from_secs(5)).await.unwrap();
    counted(&engine, &[(Status::Waiting, 2), (Status::Running, 0), (Status::Completed, 1)]).await;
}

#[tokio::test]
async fn after_a_crash_runs_are_recounted() {
    let folder = tempfile::tempdir().unwrap();
    let stores = open(folder.path()).await;
    let first = engine_with(stores.clone(), options()).await;
    publish(&first, "waits", &chain(&[("wait", "wait", json!({"config": {"event": "go"}}))])).await;
    start(&first, "waits", json!({})).await;
    counted(&first, &[(Status::Waiting, 1)]).await;
    let wrong = everstep_store::Counts { workflow: "waits".to_owned(), status: Status::Waiting, n: 7 };
    stores.runs.add_counts(WORKSPACE, vec![wrong], vec![]).await.unwrap();
    if stores.runs.is_shared() {
        // Another node detects that the first is silent: it never joined with a loop of its own.
        let silent = everstep_core::ids::NodeId::new(everstep_core::time::Timestamp::EPOCH, 99);
        stores.runs.join(silent, Duration::from_millis(1), None).await.unwrap();
        counted(&first, &[(Status::Waiting, 1)]).await;
        return;
    }
    // The process is killed: its node has not left.
    drop(stores);
    let killed = folder.path().join("copy");
    std::fs::create_dir(&killed).unwrap();
    for file in std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path()) {
        if file.is_file() && !file.ends_with("lock") {
            std::fs::copy(&file, killed.join(file.file_name().unwrap())).unwrap();
        }
    }
    let second = engine(&killed).await;
    counted(&second, &[(Status::Waiting, 1)]).await;
    second.stop(Duration::from_secs(5)).await.unwrap();
}

/// A run, its statuses before and after, the number of entries, and whether it is a test.
type Note = (RunId, Option<Status>, Status, usize, bool);

/// Records the items that it observes.
#[derive(Default)]
struct Notes(Mutex<Vec<Note>>);

impl Observe for Notes {
    fn committed(&self, item: &CommittedItem<'_>) {
        let note = (item.run, item.before, item.after, item.entries.len(), item.is_test);
        self.0.lock().unwrap().push(note);
    }
}

#[tokio::test]
async fn observers_see_each_item_once_with_its_statuses() {
    let folder = tempfile::tempdir().unwrap();
    let notes = Arc::new(Notes::default());
    let world = support::world(open(folder.path()).await, Registry::standard(Ports::none()));
    let world = World { observe: Arc::clone(&notes) as _, ..world };
    let engine = Engine::start(world, Options { shards: 1, ..options() }).await.unwrap();
    publish(&engine, "works", &chain(&[("a", "noop", json!({}))])).await;
    let run = start(&engine, "works", json!({})).await;
    finish(&engine, run).await;
    let seq = engine.world().runs.get_run(WORKSPACE, run).await.unwrap().unwrap().seq;
    // A reader of the database may see an item before the shard observes it.
    let observed = async {
        while notes.0.lock().unwrap().last().is_none_or(|note| note.2 != Status::Completed) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), observed).await.expect("the last item is observed");
    let notes = notes.0.lock().unwrap();
    let entries: usize = notes.iter().map(|(_, _, _, entries, _)| entries).sum();
    assert_eq!(entries as u64, seq, "{notes:?}");
    assert_eq!((notes[0].0, notes[0].1, notes[0].2), (run, None, Status::Running));
    let last = notes.last().unwrap();
    assert_eq!((last.1, last.2, last.4), (Some(Status::Running), Status::Completed, false));
}

#[tokio::test]
async fn a_run_in_memory_is_looked_at_without_the_database() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    publish(&engine, "busy", &chain(&[("a", "noop", json!({"config": {"delayMs": 60_000}}))])).await;
    let run = start(&engine, "busy", json!({})).await;
    let calls = engine.world().runs.calls();
    let snapshot = engine.snapshot(run).await.unwrap();
    if !engine.world().runs.is_shared() {
        assert_eq!(engine.world().runs.calls(), calls);
    }
    assert_eq!((snapshot.status, snapshot.seq, snapshot.more), (Status::Running, 4, 0));
    assert_eq!((snapshot.open[0].step.as_str(), &snapshot.open[0].activity), ("a", &StepActivity::Task));
    assert_eq!(engine.snapshot(RunId::new(everstep_core::time::Timestamp::EPOCH, 1)).await, None);
}
