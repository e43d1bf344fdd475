//! The number of runs per workflow and status.

use std::sync::Arc;

use everstep_core::status::Status;
use everstep_store::{Counts, NewRun, RunStore};

use crate::contract::fixtures::*;

pub async fn counts_add_up(store: Arc<dyn RunStore>) {
    let count = |workflow: &str, status, n| Counts { workflow: workflow.to_owned(), status, n };
    let deltas = vec![count("orders", Status::Running, 3), count("invoices", Status::Running, 1)];
    store.add_counts(HERE, deltas).await.unwrap();
    let deltas = vec![count("orders", Status::Running, -1), count("orders", Status::Completed, 1)];
    store.add_counts(HERE, deltas).await.unwrap();
    store.add_counts(new_workspace(), vec![count("orders", Status::Failed, 9)]).await.unwrap();
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
    store.add_counts(HERE, vec![count("orders", Status::Running, 99), count("gone", Status::Failed, 1)]).await.unwrap();
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
