//! Waits: rows of the steps that wait for a signal.

use std::sync::Arc;

use everstep_core::ids::RunId;
use everstep_store::{CommitOutcome, Item, RunStore, Wait, WaitChange, WaitKind, WaitRow};

use crate::contract::fixtures::*;

async fn waiting(tables: &Tables, event: &str) -> Vec<(RunId, String)> {
    let waits = tables.waits_for(HERE, event, 100).await;
    waits.into_iter().map(|(run, wait)| (run, wait.step.to_string())).collect()
}

fn open(step: &str, event: &str) -> WaitChange {
    WaitChange::Open(wait(step, event))
}

pub async fn open_waits_are_found_by_their_event((store, tables): (Arc<dyn RunStore>, Tables)) {
    let node = member(&*store).await;
    let (first, second) = (owned_run(&*store, node).await, owned_run(&*store, node).await);
    apply(&*store, node, &Item { waits: vec![open("b", "paid")], ..step(second, 2) }).await;
    let unbounded = Wait { deadline: None, ..wait("c", "shipped") };
    let waits = vec![open("a", "paid"), WaitChange::Open(unbounded.clone())];
    apply(&*store, node, &Item { waits, ..step(first, 2) }).await;

    let paid = tables.waits_for(HERE, "paid", 100).await;
    assert_eq!(paid, [(first, wait("a", "paid")), (second, wait("b", "paid"))]);
    assert_eq!(tables.waits_for(HERE, "paid", 1).await.len(), 1);
    assert_eq!(tables.waits_for(HERE, "shipped", 100).await, [(first, unbounded)]);
    assert_eq!(tables.waits_for(HERE, "lost", 100).await, []);
    assert_eq!(tables.waits_for(new_workspace(), "paid", 100).await, []);
}

pub async fn closed_waits_are_gone((store, tables): (Arc<dyn RunStore>, Tables)) {
    let node = member(&*store).await;
    let run = owned_run(&*store, node).await;
    let waits = vec![open("a", "paid"), open("b", "paid")];
    apply(&*store, node, &Item { waits, ..step(run, 2) }).await;
    apply(&*store, node, &Item { waits: vec![WaitChange::Close("a".into())], ..step(run, 4) }).await;
    assert_eq!(waiting(&tables, "paid").await, [(run, "b".to_owned())]);
    // Changes apply in their order: a step may wait again.
    let again = vec![WaitChange::Close("b".into()), open("b", "shipped")];
    apply(&*store, node, &Item { waits: again, ..step(run, 6) }).await;
    assert_eq!(waiting(&tables, "paid").await, []);
    assert_eq!(waiting(&tables, "shipped").await, [(run, "b".to_owned())]);
}

pub async fn waits_end_with_their_run((store, tables): (Arc<dyn RunStore>, Tables)) {
    let node = member(&*store).await;
    let (run, other) = (owned_run(&*store, node).await, owned_run(&*store, node).await);
    for run in [run, other] {
        apply(&*store, node, &Item { waits: vec![open("a", "paid")], ..step(run, 2) }).await;
    }
    apply(&*store, node, &end(run, 4, at(1))).await;
    assert_eq!(waiting(&tables, "paid").await, [(other, "a".to_owned())]);
}

pub async fn parked_runs_keep_their_waits((store, tables): (Arc<dyn RunStore>, Tables)) {
    let node = member(&*store).await;
    let run = owned_run(&*store, node).await;
    apply(&*store, node, &Item { waits: vec![open("a", "paid")], ..park(run, at(60)) }).await;
    assert_eq!(waiting(&tables, "paid").await, [(run, "a".to_owned())]);
}

pub async fn a_wait_that_is_open_already_is_a_conflict((store, tables): (Arc<dyn RunStore>, Tables)) {
    let node = member(&*store).await;
    let run = owned_run(&*store, node).await;
    apply(&*store, node, &Item { waits: vec![open("a", "paid")], ..step(run, 2) }).await;
    let twice = Item { waits: vec![open("b", "paid"), open("a", "shipped")], ..step(run, 4) };
    assert_eq!(commit(&*store, node, &twice).await, CommitOutcome::Conflict);
    assert_eq!(seqs(&*store, run).await, [1, 2, 3]);
    assert_eq!(waiting(&tables, "paid").await, [(run, "a".to_owned())]);
}

pub async fn a_wait_says_what_kind_it_is((store, _): (Arc<dyn RunStore>, Tables)) {
    let node = member(&*store).await;
    let (first, second) = (owned_run(&*store, node).await, owned_run(&*store, node).await);
    let approval = |step: &str| WaitChange::Open(Wait { kind: WaitKind::Approval, ..wait(step, "approve") });
    apply(&*store, node, &Item { waits: vec![approval("b"), open("a", "approve")], ..step(first, 2) }).await;
    apply(&*store, node, &Item { waits: vec![approval("c"), approval("d")], ..step(second, 2) }).await;
    let row = |run, step: &str| WaitRow {
        run,
        workflow: "orders".to_owned(),
        step: step.into(),
        event: "approve".to_owned(),
        pattern: wait(step, "approve").pattern,
        deadline: Some(at(60)),
    };
    let list = async |workflow: Option<&str>, after: Option<(RunId, &str)>, limit| {
        let (workflow, after) = (workflow.map(str::to_owned), after.map(|(run, step)| (run, step.into())));
        store.list_waits(HERE, WaitKind::Approval, workflow, after, limit).await.unwrap()
    };
    let all = [row(first, "b"), row(second, "c"), row(second, "d")];
    assert_eq!(list(None, None, 10).await, all);
    assert_eq!(list(Some("orders"), None, 2).await, all[..2]);
    assert_eq!(list(None, Some((second, "c")), 10).await, all[2..]);
    assert_eq!(list(Some("invoices"), None, 10).await, []);
    assert_eq!(store.list_waits(new_workspace(), WaitKind::Approval, None, None, 10).await.unwrap(), []);
    apply(&*store, node, &Item { waits: vec![WaitChange::Close("b".into())], ..step(first, 4) }).await;
    apply(&*store, node, &end(second, 4, at(1))).await;
    assert_eq!(list(None, None, 10).await, []);
}
