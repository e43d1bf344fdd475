//! Workflows that are deleted: out of sight at once, gone when nobody needs them, and never counted anew.

use std::sync::Arc;
use std::time::Duration;

use everstep_core::ids::RunId;
use everstep_core::time::Timestamp;
use everstep_store::{Deletion, NewRun, Store};

use super::fixtures::*;
use super::workflows::{active, workflow};

pub(super) const DAY: Duration = Duration::from_secs(86_400);

async fn names(store: &dyn Store) -> Vec<String> {
    store.list_workflows(HERE, None, 100).await.unwrap().into_iter().map(|workflow| workflow.name).collect()
}

pub(super) async fn versions(store: &dyn Store, name: &str) -> Vec<u32> {
    store.list_versions(HERE, name, None, 100).await.unwrap().into_iter().map(|version| version.version).collect()
}

async fn is_found(store: &dyn Store, version: u32) -> bool {
    store.workflow(HERE, "orders", Some(version)).await.unwrap().is_some()
}

/// The database's clock, by which deletions are measured.
pub(super) async fn clock(store: &dyn Store) -> Timestamp {
    store.join(new_node(), LEASE, None).await.unwrap()
}

/// Two versions of a workflow that is deleted then.
async fn deleted(store: &dyn Store) {
    for text in ["one", "two"] {
        store.put_workflow(workflow("orders", text), true).await.unwrap();
    }
    assert_eq!(store.delete_workflow(HERE, "orders").await.unwrap(), Deletion::Deleted);
}

/// A run of version 1 that has ended and is kept for long.
async fn ended_run(store: &dyn Store, new: NewRun) -> RunId {
    let node = member(store).await;
    let run = new_run();
    apply(store, node, &start_with(run, Some(node), NewRun { retention_days: 10_000, ..new })).await;
    apply(store, node, &end(run, 2, at(0))).await;
    run
}

pub async fn a_deleted_workflow_is_neither_active_nor_listed(store: Arc<dyn Store>) {
    store.put_workflow(workflow("invoices", "one"), true).await.unwrap();
    deleted(&*store).await;
    assert_eq!(active(&*store, "orders").await, None);
    assert_eq!(names(&*store).await, ["invoices"]);
    assert_eq!(versions(&*store, "orders").await, [0; 0]);
    assert!(!store.activate_workflow(HERE, "orders", 2).await.unwrap());
    assert_eq!(active(&*store, "orders").await, None);
    assert_eq!(store.delete_workflow(HERE, "orders").await.unwrap(), Deletion::NotFound);
    assert_eq!(active(&*store, "invoices").await, Some(1));
}

pub async fn only_a_workflow_that_is_there_is_deleted(store: Arc<dyn Store>) {
    store.put_workflow(workflow("orders", "one"), false).await.unwrap();
    assert_eq!(store.delete_workflow(HERE, "nothing").await.unwrap(), Deletion::NotFound);
    assert_eq!(store.delete_workflow(new_workspace(), "orders").await.unwrap(), Deletion::NotFound);
    assert_eq!(names(&*store).await, ["orders"]);
    // One that was never active can be deleted as well.
    assert_eq!(store.delete_workflow(HERE, "orders").await.unwrap(), Deletion::Deleted);
    assert_eq!(names(&*store).await, Vec::<String>::new());
}

pub async fn a_workflow_is_not_deleted_while_runs_go_on(store: Arc<dyn Store>) {
    store.put_workflow(workflow("orders", "one"), true).await.unwrap();
    let node = member(&*store).await;
    let (owned, unowned) = (owned_run(&*store, node).await, unowned_run(&*store, node).await);
    let test = new_run();
    apply(&*store, node, &start_with(test, Some(node), NewRun { is_test: true, ..new() })).await;
    let other = NewRun { workflow: "invoices".to_owned(), ..new() };
    apply(&*store, node, &start_with(new_run(), Some(node), other)).await;

    assert_eq!(store.delete_workflow(HERE, "orders").await.unwrap(), Deletion::InUse(3));
    assert_eq!((active(&*store, "orders").await, names(&*store).await), (Some(1), vec!["orders".to_owned()]));
    apply(&*store, node, &end(owned, 2, at(1))).await;
    apply(&*store, node, &end(test, 2, at(1))).await;
    assert_eq!(store.delete_workflow(HERE, "orders").await.unwrap(), Deletion::InUse(1));
    assert_eq!(store.claim_runs(node, "", at(1), 10).await.unwrap(), [unowned]);
    assert_eq!(store.delete_workflow(HERE, "orders").await.unwrap(), Deletion::InUse(1));
    apply(&*store, node, &end(unowned, 2, at(1))).await;
    assert_eq!(store.delete_workflow(HERE, "orders").await.unwrap(), Deletion::Deleted);
}

pub async fn a_deleted_workflow_that_is_saved_again_is_new_and_its_numbers_go_on(store: Arc<dyn Store>) {
    deleted(&*store).await;
    // The same as the newest that was deleted is a version of its own.
    assert_eq!(store.put_workflow(workflow("orders", "two"), true).await.unwrap(), (3, true));
    assert_eq!(store.put_workflow(workflow("orders", "two"), true).await.unwrap(), (3, false));
    assert_eq!(store.put_workflow(workflow("orders", "three"), false).await.unwrap(), (4, true));
    assert_eq!((active(&*store, "orders").await, names(&*store).await), (Some(3), vec!["orders".to_owned()]));
    assert_eq!(versions(&*store, "orders").await, [4, 3]);
    assert!(!store.activate_workflow(HERE, "orders", 2).await.unwrap());
    assert!(store.activate_workflow(HERE, "orders", 4).await.unwrap());
    // And once more.
    assert_eq!(store.delete_workflow(HERE, "orders").await.unwrap(), Deletion::Deleted);
    assert_eq!(store.put_workflow(workflow("orders", "four"), true).await.unwrap(), (5, true));
    assert_eq!(versions(&*store, "orders").await, [5]);
}

pub async fn a_start_that_has_read_a_deleted_workflow_may_begin(store: Arc<dyn Store>) {
    store.put_workflow(workflow("orders", "one"), true).await.unwrap();
    let read = store.workflow(HERE, "orders", None).await.unwrap().unwrap();
    assert_eq!(store.delete_workflow(HERE, "orders").await.unwrap(), Deletion::Deleted);
    store.sweep(clock(&*store).await.plus(DAY / 2), 10).await.unwrap();
    let node = member(&*store).await;
    let run = new_run();
    apply(&*store, node, &start_with(run, Some(node), NewRun { version: read.version, ..new() })).await;
    // Its version is there as long as it is.
    for days in [2, 4, 400] {
        store.sweep(clock(&*store).await.plus(DAY * days), 10).await.unwrap();
        assert_eq!(store.workflow(HERE, "orders", Some(1)).await.unwrap(), Some(read.clone()));
    }
}

pub async fn versions_of_a_deleted_workflow_go_a_day_later_and_their_numbers_stay(store: Arc<dyn Store>) {
    deleted(&*store).await;
    let now = clock(&*store).await;
    store.sweep(now.plus(DAY / 2), 10).await.unwrap();
    assert!(is_found(&*store, 1).await && is_found(&*store, 2).await);
    store.sweep(now.plus(DAY * 2), 10).await.unwrap();
    assert!(!is_found(&*store, 1).await && !is_found(&*store, 2).await);
    store.sweep(now.plus(DAY * 3), 10).await.unwrap();
    assert_eq!(store.put_workflow(workflow("orders", "two"), true).await.unwrap(), (3, true));
    // What was saved since is not swept.
    store.sweep(now.plus(DAY * 100), 10).await.unwrap();
    assert_eq!((active(&*store, "orders").await, versions(&*store, "orders").await), (Some(3), vec![3]));
}

pub async fn versions_stay_while_runs_refer_to_them(store: Arc<dyn Store>) {
    let run = ended_run(&*store, new()).await;
    deleted(&*store).await;
    assert_eq!(store.put_workflow(workflow("orders", "three"), true).await.unwrap(), (3, true));
    ended_run(&*store, NewRun { version: 3, ..new() }).await;
    let now = clock(&*store).await;
    store.sweep(now.plus(DAY * 2), 10).await.unwrap();
    assert!(is_found(&*store, 1).await);
    // With the last run that refers to one of them, all of them go.
    assert_eq!(store.get_run(HERE, run).await.unwrap().unwrap().version, 1);
    store.sweep(at(10_001 * 86_400), 10).await.unwrap();
    store.sweep(now.plus(DAY * 10_002), 10).await.unwrap();
    assert!(!is_found(&*store, 1).await && !is_found(&*store, 2).await && is_found(&*store, 3).await);
}

pub async fn versions_stay_while_test_runs_refer_to_them(store: Arc<dyn Store>) {
    deleted(&*store).await;
    let node = member(&*store).await;
    apply(&*store, node, &start_with(new_run(), Some(node), NewRun { is_test: true, ..new() })).await;
    store.sweep(clock(&*store).await.plus(DAY * 2), 10).await.unwrap();
    assert!(is_found(&*store, 1).await);
}

pub async fn parallel_saves_and_deletions_leave_a_whole_workflow_or_none(store: Arc<dyn Store>) {
    for round in 0..10 {
        let calls: Vec<_> = (0..6)
            .map(|number| {
                let store = store.clone();
                tokio::spawn(async move {
                    if number % 3 == 2 {
                        store.delete_workflow(HERE, "orders").await.unwrap();
                    } else {
                        let text = format!("{round} {number}");
                        store.put_workflow(workflow("orders", &text), true).await.unwrap();
                    }
                })
            })
            .collect();
        for call in calls {
            call.await.unwrap();
        }
        // What is listed is active, and what is active is listed, the newest first.
        let listed = versions(&*store, "orders").await;
        assert_eq!(active(&*store, "orders").await, listed.first().copied(), "{listed:?}");
    }
}
