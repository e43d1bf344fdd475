//! Deletion: a deleted workflow is hidden at once, its versions are deleted when no run needs them, and its version
//! numbers are not used again.

use std::sync::Arc;
use std::time::Duration;

use everstep_core::ids::RunId;
use everstep_core::time::Timestamp;
use everstep_store::{ChangeKey, Deletion, NewRun, NewWorkflow, RunStore, Stores, WorkflowRow, WorkflowStore};

use crate::contract::fixtures::*;

pub(super) const DAY: Duration = Duration::from_secs(86_400);

async fn names(store: &dyn WorkflowStore) -> Vec<String> {
    store.list_workflows(HERE, None, 100).await.unwrap().into_iter().map(|workflow| workflow.name).collect()
}

pub(super) async fn versions(store: &dyn WorkflowStore, name: &str) -> Vec<u32> {
    store.list_versions(HERE, name, None, 100).await.unwrap().into_iter().map(|version| version.version).collect()
}

async fn is_found(store: &dyn WorkflowStore, version: u32) -> bool {
    store.workflow(HERE, "orders", Some(version)).await.unwrap().is_some()
}

/// The database's clock, by which deletions are measured.
pub(super) async fn clock(store: &dyn RunStore) -> Timestamp {
    store.join(new_node(), LEASE, None).await.unwrap()
}

/// Two versions of a workflow, which is then deleted.
async fn deleted(store: &dyn WorkflowStore) {
    for text in ["one", "two"] {
        put_workflow(store, workflow("orders", text), true).await.unwrap();
    }
    assert_eq!(store.delete_workflow(HERE, "orders").await.unwrap(), Deletion::Deleted);
}

/// A run of version 1 that has ended and has a long retention.
async fn ended_run(store: &dyn RunStore, new: NewRun) -> RunId {
    let node = member(store).await;
    let run = new_run();
    apply(store, node, &start_with(run, Some(node), NewRun { retention_days: 10_000, ..new })).await;
    apply(store, node, &end(run, 2, at(0))).await;
    run
}

pub async fn a_deleted_workflow_is_neither_active_nor_listed(store: Arc<dyn WorkflowStore>) {
    put_workflow(&*store, workflow("invoices", "one"), true).await.unwrap();
    deleted(&*store).await;
    assert_eq!(active(&*store, "orders").await, None);
    assert_eq!(names(&*store).await, ["invoices"]);
    assert_eq!(versions(&*store, "orders").await, [0; 0]);
    assert!(!activate_workflow(&*store, HERE, "orders", 2).await.unwrap());
    assert_eq!(active(&*store, "orders").await, None);
    assert_eq!(store.delete_workflow(HERE, "orders").await.unwrap(), Deletion::NotFound);
    assert_eq!(active(&*store, "invoices").await, Some(1));
}

pub async fn only_a_workflow_that_is_there_is_deleted(store: Arc<dyn WorkflowStore>) {
    put_workflow(&*store, workflow("orders", "one"), false).await.unwrap();
    assert_eq!(store.delete_workflow(HERE, "nothing").await.unwrap(), Deletion::NotFound);
    assert_eq!(store.delete_workflow(new_workspace(), "orders").await.unwrap(), Deletion::NotFound);
    assert_eq!(names(&*store).await, ["orders"]);
    // A workflow that was never active can be deleted as well.
    assert_eq!(store.delete_workflow(HERE, "orders").await.unwrap(), Deletion::Deleted);
    assert_eq!(names(&*store).await, Vec::<String>::new());
}

pub async fn a_workflow_is_not_deleted_while_runs_go_on(stores: Stores) {
    put_workflow(&*stores.workflows, workflow("orders", "one"), true).await.unwrap();
    let node = member(&*stores.runs).await;
    let (owned, unowned) = (owned_run(&*stores.runs, node).await, unowned_run(&*stores.runs, node).await);
    let test = new_run();
    apply(&*stores.runs, node, &start_with(test, Some(node), NewRun { is_test: true, ..new() })).await;
    let other = NewRun { workflow: "invoices".to_owned(), ..new() };
    apply(&*stores.runs, node, &start_with(new_run(), Some(node), other)).await;

    assert_eq!(stores.workflows.delete_workflow(HERE, "orders").await.unwrap(), Deletion::InUse(3));
    assert_eq!(
        (active(&*stores.workflows, "orders").await, names(&*stores.workflows).await),
        (Some(1), vec!["orders".to_owned()])
    );
    apply(&*stores.runs, node, &end(owned, 2, at(1))).await;
    apply(&*stores.runs, node, &end(test, 2, at(1))).await;
    assert_eq!(stores.workflows.delete_workflow(HERE, "orders").await.unwrap(), Deletion::InUse(1));
    assert_eq!(claim(&*stores.runs, node, "", at(1), 10).await, [unowned]);
    assert_eq!(stores.workflows.delete_workflow(HERE, "orders").await.unwrap(), Deletion::InUse(1));
    apply(&*stores.runs, node, &end(unowned, 2, at(1))).await;
    assert_eq!(stores.workflows.delete_workflow(HERE, "orders").await.unwrap(), Deletion::Deleted);
}

pub async fn a_deleted_workflow_that_is_saved_again_is_new_and_its_numbers_go_on(store: Arc<dyn WorkflowStore>) {
    deleted(&*store).await;
    // A definition that equals the newest deleted version is a new version.
    assert_eq!(put_workflow(&*store, workflow("orders", "two"), true).await.unwrap(), (3, true));
    for (version, is_deleted) in [(1, true), (2, true), (3, false)] {
        let row = store.workflow(HERE, "orders", Some(version)).await.unwrap().unwrap();
        assert_eq!(row.is_deleted, is_deleted, "version {version}");
    }
    assert_eq!(put_workflow(&*store, workflow("orders", "two"), true).await.unwrap(), (3, false));
    assert_eq!(put_workflow(&*store, workflow("orders", "three"), false).await.unwrap(), (4, true));
    assert_eq!((active(&*store, "orders").await, names(&*store).await), (Some(3), vec!["orders".to_owned()]));
    assert_eq!(versions(&*store, "orders").await, [4, 3]);
    assert!(!activate_workflow(&*store, HERE, "orders", 2).await.unwrap());
    assert!(activate_workflow(&*store, HERE, "orders", 4).await.unwrap());
    // The same a second time.
    assert_eq!(store.delete_workflow(HERE, "orders").await.unwrap(), Deletion::Deleted);
    assert_eq!(put_workflow(&*store, workflow("orders", "four"), true).await.unwrap(), (5, true));
    assert_eq!(versions(&*store, "orders").await, [5]);
}

pub async fn a_deleted_workflow_is_created_again_under_the_same_key(store: Arc<dyn WorkflowStore>) {
    let key = ChangeKey { key: "k".to_owned(), digest: "d".to_owned(), at: at(0) };
    let keyed = |name: &str| NewWorkflow { key: Some(key.clone()), ..workflow(name, "one") };
    let known =
        async |name: &str| store.keyed_change(HERE, name, "k", at(1)).await.unwrap().map(|change| change.version);
    for name in ["orders", "invoices"] {
        put_workflow(&*store, keyed(name), true).await.unwrap();
    }
    assert_eq!(store.delete_workflow(HERE, "orders").await.unwrap(), Deletion::Deleted);
    assert_eq!((known("orders").await, known("invoices").await), (None, Some(1)));
    assert_eq!(put_workflow(&*store, keyed("orders"), true).await.unwrap(), (2, true));
    assert_eq!(known("orders").await, Some(2));
}

pub async fn a_start_that_has_read_a_deleted_workflow_may_begin(stores: Stores) {
    put_workflow(&*stores.workflows, workflow("orders", "one"), true).await.unwrap();
    let read = stores.workflows.workflow(HERE, "orders", None).await.unwrap().unwrap();
    assert_eq!(stores.workflows.delete_workflow(HERE, "orders").await.unwrap(), Deletion::Deleted);
    stores.runs.sweep(clock(&*stores.runs).await.plus(DAY / 2), 10).await.unwrap();
    let node = member(&*stores.runs).await;
    let run = new_run();
    apply(&*stores.runs, node, &start_with(run, Some(node), NewRun { version: read.version, ..new() })).await;
    // Its version exists as long as the run does.
    let kept = WorkflowRow { is_deleted: true, ..read };
    for days in [2, 4, 400] {
        stores.runs.sweep(clock(&*stores.runs).await.plus(DAY * days), 10).await.unwrap();
        assert_eq!(stores.workflows.workflow(HERE, "orders", Some(1)).await.unwrap(), Some(kept.clone()));
    }
}

pub async fn versions_of_a_deleted_workflow_go_a_day_later_and_their_numbers_stay(stores: Stores) {
    deleted(&*stores.workflows).await;
    let now = clock(&*stores.runs).await;
    stores.runs.sweep(now.plus(DAY / 2), 10).await.unwrap();
    assert!(is_found(&*stores.workflows, 1).await && is_found(&*stores.workflows, 2).await);
    stores.runs.sweep(now.plus(DAY * 2), 10).await.unwrap();
    assert!(!is_found(&*stores.workflows, 1).await && !is_found(&*stores.workflows, 2).await);
    stores.runs.sweep(now.plus(DAY * 3), 10).await.unwrap();
    assert_eq!(put_workflow(&*stores.workflows, workflow("orders", "two"), true).await.unwrap(), (3, true));
    // Versions that were saved since are not swept.
    stores.runs.sweep(now.plus(DAY * 100), 10).await.unwrap();
    assert_eq!(
        (active(&*stores.workflows, "orders").await, versions(&*stores.workflows, "orders").await),
        (Some(3), vec![3])
    );
}

pub async fn versions_stay_while_runs_refer_to_them(stores: Stores) {
    let run = ended_run(&*stores.runs, new()).await;
    deleted(&*stores.workflows).await;
    assert_eq!(put_workflow(&*stores.workflows, workflow("orders", "three"), true).await.unwrap(), (3, true));
    ended_run(&*stores.runs, NewRun { version: 3, ..new() }).await;
    let now = clock(&*stores.runs).await;
    stores.runs.sweep(now.plus(DAY * 2), 10).await.unwrap();
    assert!(is_found(&*stores.workflows, 1).await);
    // With the last run that refers to one of them, all of them are deleted.
    assert_eq!(stores.runs.get_run(HERE, run).await.unwrap().unwrap().version, 1);
    stores.runs.sweep(at(10_001 * 86_400), 10).await.unwrap();
    stores.runs.sweep(now.plus(DAY * 10_002), 10).await.unwrap();
    assert!(
        !is_found(&*stores.workflows, 1).await
            && !is_found(&*stores.workflows, 2).await
            && is_found(&*stores.workflows, 3).await
    );
}

pub async fn versions_stay_while_test_runs_refer_to_them(stores: Stores) {
    deleted(&*stores.workflows).await;
    let node = member(&*stores.runs).await;
    apply(&*stores.runs, node, &start_with(new_run(), Some(node), NewRun { is_test: true, ..new() })).await;
    stores.runs.sweep(clock(&*stores.runs).await.plus(DAY * 2), 10).await.unwrap();
    assert!(is_found(&*stores.workflows, 1).await);
}

pub async fn parallel_saves_and_deletions_leave_a_whole_workflow_or_none(store: Arc<dyn WorkflowStore>) {
    for round in 0..10 {
        let calls: Vec<_> = (0..6)
            .map(|number| {
                let store = store.clone();
                tokio::spawn(async move {
                    if number % 3 == 2 {
                        store.delete_workflow(HERE, "orders").await.unwrap();
                    } else {
                        let text = format!("{round} {number}");
                        put_workflow(&*store, workflow("orders", &text), true).await.unwrap();
                    }
                })
            })
            .collect();
        for call in calls {
            call.await.unwrap();
        }
        // Listed versions are active or were active, the newest first.
        let listed = versions(&*store, "orders").await;
        assert_eq!(active(&*store, "orders").await, listed.first().copied(), "{listed:?}");
    }
}
