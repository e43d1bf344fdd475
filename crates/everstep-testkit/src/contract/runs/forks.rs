//! Forks: runs with the beginning of another run. And test runs, which may be deleted early.

use std::sync::Arc;

use everstep_core::ids::RunId;
use everstep_core::journal::Kind;
use everstep_core::payload::Payload;
use everstep_core::status::Status;
use everstep_store::{CommitOutcome, Error, Item, NewFork, NewRun, RunFilter, RunRow, RunStore, Snapshot, WaitChange};
use serde_json::json;

use crate::contract::fixtures::*;

/// A run with four items: entries 1; 2 and 3; 4 and 5; 6. It has ended.
async fn source(store: &dyn RunStore) -> RunId {
    let node = member(store).await;
    let run = new_run();
    let new = NewRun {
        key: Some(("orders".to_owned(), "7".to_owned())),
        parent: Some(new_run()),
        tags: Payload::from(json!({ "team": "blue" })),
        input: Payload::from(json!({ "text": "ünïcode ✓", "order": 7 })),
        lane: "worker".to_owned(),
        version: 3,
        retention_days: 30,
        ..new()
    };
    apply(store, node, &start_with(run, Some(node), new)).await;
    let mut first = step(run, 2);
    // Long enough to be compressed.
    first.entries[1].row.payload = b"lorem ipsum ".repeat(1_000);
    first.waits = vec![WaitChange::Open(wait("s", "paid"))];
    apply(store, node, &first).await;
    apply(store, node, &Item { inbox_inputs: vec![inbox_input(run, "news")], ..step(run, 4) }).await;
    store.put_snapshot(run, Snapshot { seq: 5, format: 1, state: b"state".to_vec() }).await.unwrap();
    apply(store, node, &end(run, 6, at(9))).await;
    run
}

pub async fn a_fork_begins_as_its_source_did((store, tables): (Arc<dyn RunStore>, Tables)) {
    let source = source(&*store).await;
    let before = load(&*store, source).await;
    let journal = store.journal(source, 0, 100).await.unwrap();
    let fork = new_run();
    assert_eq!(store.fork_run(HERE, source, NewFork::new(fork, 3, at(100))).await.unwrap(), Some(3));

    let loaded = load(&*store, fork).await;
    assert_eq!(loaded.entries, journal[..3]);
    assert_eq!((loaded.snapshot, loaded.inbox, loaded.unreadable), (None, vec![], None));
    let expected = RunRow {
        id: fork,
        status: Status::Running,
        owner: None,
        wake_at: at(100),
        key: None,
        parent: None,
        origin: Some(source),
        created_at: at(100),
        ended_at: None,
        output: None,
        error: None,
        seq: 3,
        ..before.run.clone()
    };
    assert_eq!(loaded.run, expected);
    assert_eq!(store.get_run(HERE, fork).await.unwrap(), Some(expected));
    // It opens no waits: its owner does.
    assert_eq!(tables.waits_for(HERE, "paid", 10).await, []);
    // The source is unchanged.
    assert_eq!(load(&*store, source).await, before);
    assert_eq!(store.journal(source, 0, 100).await.unwrap(), journal);
    assert_eq!(tables.run_with_key(HERE, "orders", "7").await, Some(source));
}

pub async fn a_fork_ends_with_an_item(store: Arc<dyn RunStore>) {
    let source = source(&*store).await;
    for (at_seq, copied) in [(1, 1), (2, 3), (3, 3), (4, 5), (5, 5), (6, 6)] {
        let fork = new_run();
        assert_eq!(
            store.fork_run(HERE, source, NewFork::new(fork, at_seq, at(100))).await.unwrap(),
            Some(copied),
            "at {at_seq}"
        );
        assert_eq!(seqs(&*store, fork).await, (1..=copied).collect::<Vec<_>>());
    }
}

pub async fn only_what_is_there_is_forked(store: Arc<dyn RunStore>) {
    let source = source(&*store).await;
    let fork = new_run();
    for at_seq in [0, 7, u64::MAX] {
        assert_eq!(store.fork_run(HERE, source, NewFork::new(fork, at_seq, at(100))).await.unwrap(), None);
    }
    assert_eq!(store.fork_run(new_workspace(), source, NewFork::new(fork, 1, at(100))).await.unwrap(), None);
    assert_eq!(store.fork_run(HERE, new_run(), NewFork::new(fork, 1, at(100))).await.unwrap(), None);
    assert_eq!(store.load_run(fork).await.unwrap(), None);
    // No id is used twice.
    let taken = store.fork_run(HERE, source, NewFork::new(source, 1, at(100))).await;
    assert!(matches!(taken, Err(Error::Refused(_))), "{taken:?}");
    assert_eq!(seqs(&*store, source).await, [1, 2, 3, 4, 5, 6]);
}

pub async fn a_fork_is_claimed_and_goes_on_by_itself(store: Arc<dyn RunStore>) {
    let source = source(&*store).await;
    let fork = new_run();
    store.fork_run(HERE, source, NewFork::new(fork, 3, at(100))).await.unwrap();
    let node = member(&*store).await;
    assert_eq!(claim(&*store, node, "worker", at(99), 10).await, []);
    assert_eq!(claim(&*store, node, "worker", at(100), 10).await, [fork]);
    // Its attempts are unique, as those of every run.
    let again = Item { entries: vec![entry(4, Kind::StepCompleted, Some("s2"))], ..step(fork, 4) };
    assert_eq!(commit(&*store, node, &again).await, CommitOutcome::Conflict);
    apply(&*store, node, &step(fork, 4)).await;
    apply(&*store, node, &end(fork, 6, at(101))).await;
    assert_eq!(row(&*store, source).await.ended_at, Some(at(9)));
    assert_eq!(seqs(&*store, source).await, [1, 2, 3, 4, 5, 6]);
}

pub async fn a_run_that_goes_on_can_be_forked(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let source = owned_run(&*store, node).await;
    let (first, second) = (new_run(), new_run());
    assert_eq!(store.fork_run(HERE, source, NewFork::new(first, 1, at(100))).await.unwrap(), Some(1));
    // A fork may be forked again.
    assert_eq!(store.fork_run(HERE, first, NewFork::new(second, 1, at(101))).await.unwrap(), Some(1));
    apply(&*store, node, &step(source, 2)).await;
    assert_eq!(row(&*store, source).await.owner, Some(node));
    let page = store.list_runs(HERE, RunFilter::default(), None, 10).await.unwrap();
    let origins: Vec<_> = page.runs.iter().map(|run| (run.id, run.origin)).collect();
    assert_eq!(origins, [(second, Some(first)), (first, Some(source)), (source, None)]);
}

pub async fn an_ended_test_run_is_deleted_whole(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let run = new_run();
    let test = || NewRun { is_test: true, ..new() };
    apply(&*store, node, &start_with(run, Some(node), test())).await;
    let item = Item {
        waits: vec![WaitChange::Open(wait("s", "paid"))],
        inbox_inputs: vec![inbox_input(run, "news")],
        ..step(run, 2)
    };
    apply(&*store, node, &item).await;
    store.put_snapshot(run, Snapshot { seq: 3, format: 1, state: b"state".to_vec() }).await.unwrap();
    assert!(!store.delete_test_run(HERE, run).await.unwrap(), "it continues");
    apply(&*store, node, &end(run, 4, at(1))).await;
    assert!(!store.delete_test_run(new_workspace(), run).await.unwrap());
    assert_eq!(seqs(&*store, run).await, [1, 2, 3, 4]);

    assert!(store.delete_test_run(HERE, run).await.unwrap());
    assert_eq!(store.load_run(run).await.unwrap(), None);
    assert_eq!(store.journal(run, 0, 10).await.unwrap(), []);
    assert_eq!(store.arrivals(run).await.unwrap(), []);
    assert!(!store.delete_test_run(HERE, run).await.unwrap());
    // No row is left: the same run could be inserted again.
    apply(&*store, node, &start_with(run, Some(node), test())).await;
    assert_eq!(load(&*store, run).await.snapshot, None);
    assert_eq!(seqs(&*store, run).await, [1]);
}

pub async fn only_test_runs_are_deleted(store: Arc<dyn RunStore>) {
    let source = source(&*store).await;
    assert!(!store.delete_test_run(HERE, source).await.unwrap());
    assert!(!store.delete_test_run(HERE, new_run()).await.unwrap());
    assert_eq!(seqs(&*store, source).await, [1, 2, 3, 4, 5, 6]);
}

pub async fn a_fork_may_have_another_first_payload(store: Arc<dyn RunStore>) {
    let source = source(&*store).await;
    let journal = store.journal(source, 0, 100).await.unwrap();
    // The second is long enough to be compressed.
    for payload in [b"{}".to_vec(), b"lorem ipsum ".repeat(1_000)] {
        let fork = NewFork { first_payload: Some(payload.clone()), ..NewFork::new(new_run(), 3, at(100)) };
        let run = fork.run;
        assert_eq!(store.fork_run(HERE, source, fork).await.unwrap(), Some(3));
        let mut expected = journal[..3].to_vec();
        expected[0].row.payload = payload;
        assert_eq!(load(&*store, run).await.entries, expected);
    }
    assert_eq!(store.journal(source, 0, 100).await.unwrap(), journal);
}
