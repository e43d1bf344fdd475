//! Waits: rows of the steps that wait for a signal.

use std::sync::Arc;

use everstep_core::ids::RunId;
use everstep_store::{CommitOutcome, Item, RunStore, Wait, WaitChange};

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
