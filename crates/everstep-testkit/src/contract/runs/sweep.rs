//! The sweep: expired rows are deleted, with all their dependent rows.

use std::sync::Arc;

use everstep_core::ids::{NodeId, RunId};
use everstep_core::journal::Kind;
use everstep_core::status::Status;
use everstep_store::{CommitOutcome, Counts, Gate, Item, NewRun, RunStore, Snapshot, WaitChange};

use crate::contract::fixtures::*;

const HOUR: i64 = 3_600;
const DAY: i64 = 24 * HOUR;

/// A run that ended at `at(0)`.
async fn ended_run(store: &dyn RunStore, node: NodeId, new: NewRun) -> RunId {
    let run = new_run();
    apply(store, node, &start_with(run, Some(node), new)).await;
    apply(store, node, &end(run, 2, at(0))).await;
    run
}

async fn exists(store: &dyn RunStore, run: RunId) -> bool {
    store.load_run(run).await.unwrap().is_some()
}

pub async fn ended_runs_go_when_their_retention_is_over(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let week = ended_run(&*store, node, NewRun { retention_days: 7, ..new() }).await;
    let month = ended_run(&*store, node, NewRun { retention_days: 30, ..new() }).await;
    assert_eq!(store.sweep(at(7 * DAY), 10).await.unwrap(), 0);
    assert_eq!(store.sweep(at(7 * DAY + 1), 10).await.unwrap(), 1);
    assert!(!exists(&*store, week).await && exists(&*store, month).await);
    assert_eq!(store.sweep(at(30 * DAY + 1), 10).await.unwrap(), 1);
    assert!(!exists(&*store, month).await);
}

pub async fn test_runs_go_an_hour_after_their_end(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let run = ended_run(&*store, node, NewRun { is_test: true, ..new() }).await;
    assert_eq!(store.sweep(at(HOUR), 10).await.unwrap(), 0);
    assert_eq!(store.sweep(at(HOUR + 1), 10).await.unwrap(), 1);
    assert!(!exists(&*store, run).await);
}

pub async fn runs_that_have_not_ended_are_never_swept(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let short = || NewRun { retention_days: 0, ..new() };
    let (owned, unowned, test) = (new_run(), new_run(), new_run());
    apply(&*store, node, &start_with(owned, Some(node), short())).await;
    apply(&*store, node, &start_with(unowned, None, short())).await;
    apply(&*store, node, &start_with(test, None, NewRun { is_test: true, ..short() })).await;
    assert_eq!(store.sweep(at(10_000 * DAY), 10).await.unwrap(), 0);
    for run in [owned, unowned, test] {
        assert_eq!(seqs(&*store, run).await, [1]);
    }
}

pub async fn a_swept_run_leaves_nothing_behind((store, tables): (Arc<dyn RunStore>, Tables)) {
    let node = member(&*store).await;
    let run = new_run();
    let key = Some(("orders".to_owned(), "7".to_owned()));
    apply(&*store, node, &start_with(run, Some(node), NewRun { key: key.clone(), ..new() })).await;
    let item = Item {
        waits: vec![WaitChange::Open(wait("s", "paid"))],
        inbox_inputs: vec![inbox_input(run, "news")],
        ..step(run, 2)
    };
    apply(&*store, node, &item).await;
    store.put_snapshot(run, Snapshot { seq: 3, format: 1, state: b"state".to_vec() }).await.unwrap();
    apply(&*store, node, &end(run, 4, at(0))).await;
    assert_eq!(store.sweep(at(8 * DAY), 10).await.unwrap(), 1);

    assert_eq!(store.journal(run, 0, 10).await.unwrap(), []);
    assert_eq!(tables.run_with_key(HERE, "orders", "7").await, None);
    assert_eq!(tables.waits_for(HERE, "paid", 10).await, []);
    assert_eq!(store.arrivals(run).await.unwrap(), []);
    // Its key can be used again.
    assert_eq!(commit(&*store, node, &start_with(new_run(), Some(node), NewRun { key, ..new() })).await, applied());
}

pub async fn a_long_journal_does_not_stop_a_sweep(store: Arc<dyn RunStore>) {
    const LAST: u64 = 45_000;
    let node = member(&*store).await;
    let run = new_run();
    apply(&*store, node, &start(run, Some(node))).await;
    for first in (2..LAST).step_by(5_000) {
        let seqs = first..LAST.min(first + 5_000);
        let entries = seqs.map(|seq| entry(seq, Kind::StepCompleted, Some(&format!("s{seq}")))).collect();
        apply(&*store, node, &Item { entries, ..item(run, Gate::Owned) }).await;
    }
    apply(&*store, node, &end(run, LAST, at(0))).await;
    let other = new_run();
    apply(&*store, node, &start(other, Some(node))).await;
    apply(&*store, node, &end(other, 2, at(1))).await;
    assert_eq!(store.sweep(at(8 * DAY), 10).await.unwrap(), 2);
    assert!(!exists(&*store, run).await && !exists(&*store, other).await);
}

pub async fn a_sweep_takes_the_oldest_in_batches(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let mut runs = vec![];
    for days in [3, 1, 2] {
        runs.push(ended_run(&*store, node, NewRun { retention_days: days, ..new() }).await);
    }
    assert_eq!(store.sweep(at(100 * DAY), 2).await.unwrap(), 2);
    assert!(exists(&*store, runs[0]).await && !exists(&*store, runs[1]).await && !exists(&*store, runs[2]).await);
    assert_eq!(store.sweep(at(100 * DAY), 2).await.unwrap(), 1);
    assert_eq!(store.sweep(at(100 * DAY), 2).await.unwrap(), 0);
}

pub async fn retried_runs_are_not_swept(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let run = new_run();
    apply(&*store, node, &start(run, Some(node))).await;
    let failing = Item { projection: Some(ended(Status::Failed, at(0))), ..end(run, 2, at(0)) };
    apply(&*store, node, &failing).await;
    let retry = Item {
        entries: vec![entry(3, everstep_core::journal::Kind::RunRetried, None)],
        projection: Some(projection(Status::Running, Some(node), at(0))),
        ..item(run, everstep_store::Gate::Unowned)
    };
    assert_eq!(commit(&*store, node, &retry).await, CommitOutcome::Applied(vec![]));
    assert_eq!(store.sweep(at(100 * DAY), 10).await.unwrap(), 0);
    assert_eq!(seqs(&*store, run).await, [1, 2, 3]);
}

pub async fn old_inbox_rows_of_ended_or_missing_runs_are_swept(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let (ended, live) = (owned_run(&*store, node).await, owned_run(&*store, node).await);
    let missing = new_run();
    let inbox_inputs =
        vec![inbox_input(ended, "too late"), inbox_input(live, "in time"), inbox_input(missing, "nowhere")];
    // Written at the time of the item's last entry.
    apply(&*store, node, &Item { inbox_inputs, ..step(live, 2) }).await;
    apply(&*store, node, &end(ended, 2, at(3))).await;
    store.sweep(at(HOUR), 10).await.unwrap();
    assert_eq!(inbox_of(&*store, ended).await, ["too late"]);
    assert_eq!(store.arrivals(missing).await.unwrap().len(), 1);
    store.sweep(at(HOUR + 4), 10).await.unwrap();
    assert_eq!(inbox_of(&*store, ended).await, Vec::<String>::new());
    assert_eq!(store.arrivals(missing).await.unwrap(), []);
    assert_eq!(inbox_of(&*store, live).await, ["in time"]);
}

pub async fn swept_runs_are_taken_off_the_counts(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    for days in [1, 1, 30] {
        ended_run(&*store, node, NewRun { retention_days: days, ..new() }).await;
    }
    ended_run(&*store, node, NewRun { retention_days: 1, workflow: "invoices".to_owned(), ..new() }).await;
    ended_run(&*store, node, NewRun { is_test: true, ..new() }).await;
    owned_run(&*store, node).await;
    store.recount().await.unwrap();
    assert_eq!(store.sweep(at(2 * DAY), 10).await.unwrap(), 4);
    let count = |status, n| Counts { workflow: "orders".to_owned(), status, n };
    let expected = [count(Status::Completed, 1), count(Status::Running, 1)];
    assert_eq!(store.counts(HERE).await.unwrap(), expected);
    store.recount().await.unwrap();
    assert_eq!(store.counts(HERE).await.unwrap(), expected);
}
