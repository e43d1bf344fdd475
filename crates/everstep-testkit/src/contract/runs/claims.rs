//! Claims: the only way to own an existing run.

use std::collections::BTreeSet;
use std::sync::Arc;

use everstep_core::ids::{NodeId, RunId};
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_store::{Error, NewRun, RunStore};

use crate::contract::fixtures::*;

/// Starts an unowned run of a lane, due at a time.
async fn due(store: &dyn RunStore, node: NodeId, lane: &str, wake_at: Timestamp) -> RunId {
    let run = new_run();
    let mut start = start_with(run, None, NewRun { lane: lane.to_owned(), ..new() });
    start.projection = Some(projection(Status::Waiting, None, wake_at));
    apply(store, node, &start).await;
    run
}

pub async fn a_claimed_run_is_owned(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let run = due(&*store, node, "", at(0)).await;
    assert_eq!(store.claim_runs(node, "", at(0), 10).await.unwrap(), [run]);
    assert_eq!(row(&*store, run).await.owner, Some(node));
    apply(&*store, node, &step(run, 2)).await;
    assert_eq!(store.claim_runs(node, "", at(0), 10).await.unwrap(), []);
}

pub async fn a_node_finds_the_runs_that_it_owns(store: Arc<dyn RunStore>) {
    let (node, other) = (member(&*store).await, member(&*store).await);
    let (started, parked, ended) =
        (owned_run(&*store, node).await, owned_run(&*store, node).await, owned_run(&*store, node).await);
    owned_run(&*store, other).await;
    apply(&*store, node, &park(parked, at(60))).await;
    apply(&*store, node, &end(ended, 2, at(1))).await;
    assert_eq!(store.owned_runs(node).await.unwrap(), [started]);
    // A claim whose reply was lost is found here.
    store.claim_runs(node, "", at(60), 10).await.unwrap();
    assert_eq!(store.owned_runs(node).await.unwrap(), [started, parked]);
    assert_eq!(store.owned_runs(new_node()).await.unwrap(), []);
}

pub async fn two_nodes_never_claim_the_same_run(store: Arc<dyn RunStore>) {
    let nodes = [member(&*store).await, member(&*store).await, member(&*store).await, member(&*store).await];
    let mut runs = BTreeSet::new();
    for _ in 0..60 {
        runs.insert(due(&*store, nodes[0], "", at(0)).await);
    }
    let claims = nodes.map(|node| {
        let store = store.clone();
        tokio::spawn(async move {
            let mut claimed = vec![];
            loop {
                let more = store.claim_runs(node, "", at(0), 7).await.unwrap();
                if more.is_empty() {
                    return claimed;
                }
                claimed.extend(more);
            }
        })
    });
    let mut count = 0;
    for (node, claimed) in nodes.into_iter().zip(claims) {
        for run in claimed.await.unwrap() {
            count += 1;
            assert!(runs.remove(&run), "{run} was claimed twice");
            assert_eq!(row(&*store, run).await.owner, Some(node));
        }
    }
    assert_eq!((count, runs.len()), (60, 0));
}

pub async fn claims_take_the_oldest_first(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let late = due(&*store, node, "", at(30)).await;
    let early = due(&*store, node, "", at(10)).await;
    let middle = due(&*store, node, "", at(20)).await;
    assert_eq!(store.claim_runs(node, "", at(60), 2).await.unwrap(), [early, middle]);
    assert_eq!(store.claim_runs(node, "", at(60), 2).await.unwrap(), [late]);
}

pub async fn only_due_runs_are_claimed(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let run = due(&*store, node, "", at(10)).await;
    due(&*store, node, "", Timestamp::NEVER).await;
    assert_eq!(store.claim_runs(node, "", at(9), 10).await.unwrap(), []);
    assert_eq!(store.claim_runs(node, "", at(10), 10).await.unwrap(), [run]);
}

pub async fn only_runs_of_the_lane_are_claimed(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let run = due(&*store, node, "workers", at(0)).await;
    assert_eq!(store.claim_runs(node, "", at(1), 10).await.unwrap(), []);
    assert_eq!(store.claim_runs(node, "worker", at(1), 10).await.unwrap(), []);
    assert_eq!(store.claim_runs(node, "workers", at(1), 10).await.unwrap(), [run]);
}

pub async fn ended_runs_are_never_claimed(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let run = owned_run(&*store, node).await;
    apply(&*store, node, &end(run, 2, at(1))).await;
    assert_eq!(store.claim_runs(node, "", Timestamp::NEVER, 10).await.unwrap(), []);
}

pub async fn a_parked_run_is_claimed_when_it_is_due(store: Arc<dyn RunStore>) {
    let (node, other) = (member(&*store).await, member(&*store).await);
    let run = owned_run(&*store, node).await;
    assert_eq!(store.claim_runs(other, "", at(60), 10).await.unwrap(), []);
    apply(&*store, node, &park(run, at(60))).await;
    assert_eq!(store.next_wake("").await.unwrap(), Some(at(60)));
    assert_eq!(store.claim_runs(other, "", at(59), 10).await.unwrap(), []);
    assert_eq!(store.claim_runs(other, "", at(60), 10).await.unwrap(), [run]);
    apply(&*store, other, &step(run, 2)).await;
}

pub async fn the_next_wake_is_the_earliest_of_its_lane(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    assert_eq!(store.next_wake("").await.unwrap(), None);
    due(&*store, node, "", Timestamp::NEVER).await;
    assert_eq!(store.next_wake("").await.unwrap(), None);
    due(&*store, node, "workers", at(5)).await;
    due(&*store, node, "", at(20)).await;
    due(&*store, node, "", at(10)).await;
    assert_eq!(store.next_wake("").await.unwrap(), Some(at(10)));
    store.claim_runs(node, "", at(10), 10).await.unwrap();
    assert_eq!(store.next_wake("").await.unwrap(), Some(at(20)));
    store.claim_runs(node, "", at(20), 10).await.unwrap();
    assert_eq!(store.next_wake("").await.unwrap(), None);
}

pub async fn only_members_claim(store: Arc<dyn RunStore>) {
    let (node, fenced) = (member(&*store).await, member(&*store).await);
    let run = due(&*store, node, "", at(0)).await;
    fence(&*store, fenced).await;
    for stranger in [fenced, new_node()] {
        let claimed = store.claim_runs(stranger, "", at(0), 10).await;
        assert!(matches!(claimed, Err(Error::Fenced(_))), "{claimed:?}");
    }
    assert_eq!(store.claim_runs(node, "", at(0), 10).await.unwrap(), [run]);
}
