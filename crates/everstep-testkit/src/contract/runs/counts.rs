//! The number of runs per workflow and status.

use std::sync::Arc;

use everstep_core::status::Status;
use std::time::Duration;

use everstep_store::{Counts, MinuteStats, NewRun, RunStats, RunStore, StatsQuery};

use crate::contract::fixtures::*;

pub async fn counts_add_up(store: Arc<dyn RunStore>) {
    let count = |workflow: &str, status, n| Counts { workflow: workflow.to_owned(), status, n };
    let deltas = vec![count("orders", Status::Running, 3), count("invoices", Status::Running, 1)];
    store.add_counts(HERE, deltas, vec![]).await.unwrap();
    let deltas = vec![count("orders", Status::Running, -1), count("orders", Status::Completed, 1)];
    store.add_counts(HERE, deltas, vec![]).await.unwrap();
    store.add_counts(new_workspace(), vec![count("orders", Status::Failed, 9)], vec![]).await.unwrap();
    let expected = [
        count("invoices", Status::Running, 1),
        count("orders", Status::Completed, 1),
        count("orders", Status::Running, 2),
    ];
    assert_eq!(store.counts(HERE).await.unwrap(), expected);
}

pub async fn a_recount_replaces_the_numbers(store: Arc<dyn RunStore>) {
    let count = |workflow: &str, status, n| Counts { workflow: workflow.to_owned(), status, n };
    let node = member(&*store).await;
    let (one, two) = (owned_run(&*store, node).await, owned_run(&*store, node).await);
    apply(&*store, node, &end(one, 2, at(1))).await;
    apply(&*store, node, &park(two, at(60))).await;
    for workflow in ["invoices", "invoices", "orders"] {
        let new = NewRun { workflow: workflow.to_owned(), ..new() };
        apply(&*store, node, &start_with(new_run(), Some(node), new)).await;
    }
    // Test runs are not counted.
    apply(&*store, node, &start_with(new_run(), Some(node), NewRun { is_test: true, ..new() })).await;
    // Wrong counts are replaced.
    store
        .add_counts(HERE, vec![count("orders", Status::Running, 99), count("gone", Status::Failed, 1)], vec![])
        .await
        .unwrap();
    let expected = [
        count("invoices", Status::Running, 2),
        count("orders", Status::Completed, 1),
        count("orders", Status::Running, 1),
        count("orders", Status::Waiting, 1),
    ];
    for _ in 0..2 {
        store.recount().await.unwrap();
        assert_eq!(store.counts(HERE).await.unwrap(), expected);
    }
    assert_eq!(store.counts(new_workspace()).await.unwrap(), []);
}

pub async fn figures_of_a_minute_add_up_from_many_nodes(store: Arc<dyn RunStore>) {
    let base = everstep_store::minute_of(at(0));
    let minute = |workflow: &str, minute: i64, started, millis: &[u64]| {
        let mut stats = RunStats { started, completed: i64::try_from(millis.len()).unwrap(), ..RunStats::default() };
        for millis in millis {
            stats.count_duration(Duration::from_millis(*millis));
        }
        MinuteStats { workflow: workflow.to_owned(), minute: base + minute, stats }
    };
    let added = [
        vec![minute("orders", 10, 3, &[5, 700]), minute("invoices", 10, 1, &[])],
        vec![minute("orders", 10, 2, &[5]), minute("orders", 11, 1, &[60_000])],
        vec![minute("orders", 14, 4, &[])],
    ];
    // Several nodes add at the same time.
    let adding = added.iter().map(|stats| store.add_counts(HERE, vec![], stats.clone()));
    for outcome in futures_util::future::join_all(adding).await {
        outcome.unwrap();
    }
    store.add_counts(new_workspace(), vec![], vec![minute("orders", 10, 99, &[])]).await.unwrap();
    let read = async |since: i64, until: i64, every, workflow: Option<&str>| {
        let query =
            StatsQuery { since: base + since, until: base + until, every, workflow: workflow.map(str::to_owned) };
        store.run_stats(HERE, query).await.unwrap()
    };
    let by_minute = read(10, 15, 1, None).await;
    let figures: Vec<_> = by_minute.iter().map(|(period, stats)| (*period, stats.started, stats.completed)).collect();
    assert_eq!(figures, [(0, 6, 3), (1, 1, 1), (4, 4, 0)]);
    let mut expected = RunStats::default();
    for millis in [5, 700, 5] {
        expected.count_duration(Duration::from_millis(millis));
    }
    assert_eq!(by_minute[0].1.durations, expected.durations);
    let by_two = read(10, 14, 2, Some("orders")).await;
    assert_eq!(by_two.iter().map(|(period, stats)| (*period, stats.started)).collect::<Vec<_>>(), [(0, 6)]);
    assert_eq!(read(11, 12, 1, Some("invoices")).await, []);
    // They are kept for 35 days.
    let day = 86_400;
    store.sweep(at(10 * 60 + 35 * day), 10).await.unwrap();
    assert_eq!(read(0, 20, 20, None).await[0].1.started, 11);
    store.sweep(at(11 * 60 + 35 * day), 10).await.unwrap();
    assert_eq!(read(0, 20, 20, None).await[0].1.started, 5);
}
