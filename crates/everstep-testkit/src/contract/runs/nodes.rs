//! Nodes: which of them may write, and what happens to the runs of fenced ones.

use std::sync::Arc;
use std::time::Duration;

use everstep_store::{CommitOutcome, Error, NodeRow, RunStore, TickRequest};

use crate::contract::fixtures::*;

pub async fn a_node_joins_with_a_lease_and_an_address(store: Arc<dyn RunStore>) {
    let (node, silent) = (new_node(), new_node());
    store.join(node, LEASE, Some("http://10.0.0.1:7000".to_owned())).await.unwrap();
    let clock = store.join(silent, LEASE, None).await.unwrap();

    let nodes = store.nodes().await.unwrap();
    assert_eq!(nodes.iter().map(|row| row.id).collect::<Vec<_>>(), [node, silent]);
    assert_eq!(nodes[0].address.as_deref(), Some("http://10.0.0.1:7000"));
    let lease_until = clock.plus(LEASE);
    assert_eq!(nodes[1], NodeRow { id: silent, lease_until, fenced: false, is_expired: false, address: None });
}

pub async fn an_id_joins_once(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    assert!(matches!(store.join(node, LEASE, None).await, Err(Error::Refused(_))));
    fence(&*store, node).await;
    assert!(matches!(store.join(node, LEASE, None).await, Err(Error::Refused(_))));
}

pub async fn an_expired_lease_is_renewed(store: Arc<dyn RunStore>) {
    let node = new_node();
    store.join(node, Duration::ZERO, None).await.unwrap();
    assert!(store.nodes().await.unwrap()[0].is_expired);
    let tick = store.tick(node, LEASE, at(0), &TickRequest::default()).await.unwrap();
    assert_eq!(lease_of(&*store, node).await, tick.clock.plus(LEASE));
    assert_eq!(tick.nodes, store.nodes().await.unwrap());
    assert!(!tick.nodes[0].is_expired);
}

pub async fn an_expired_lease_still_commits_until_it_is_fenced(store: Arc<dyn RunStore>) {
    let node = new_node();
    store.join(node, Duration::ZERO, None).await.unwrap();
    let run = owned_run(&*store, node).await;
    apply(&*store, node, &step(run, 2)).await;
}

pub async fn only_a_lease_that_is_over_and_was_not_renewed_is_fenced(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    // Not expired.
    let lease_until = lease_of(&*store, node).await;
    assert!(!store.fence(node, lease_until).await.unwrap());
    // Expired, but renewed since it was observed.
    renew(&*store, node, Duration::ZERO).await;
    let seen = lease_of(&*store, node).await;
    while lease_of(&*store, node).await == seen {
        renew(&*store, node, Duration::ZERO).await;
    }
    assert!(!store.fence(node, seen).await.unwrap());
    // Expired, and as it was observed.
    let seen = lease_of(&*store, node).await;
    assert!(!store.fence(new_node(), seen).await.unwrap());
    assert!(store.fence(node, seen).await.unwrap());
}

pub async fn a_fenced_node_stays_fenced(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    fence(&*store, node).await;
    let ticked = store.tick(node, LEASE, at(0), &TickRequest::default()).await;
    assert!(matches!(ticked, Err(Error::Fenced(fenced)) if fenced == node), "{ticked:?}");
    let nodes = store.nodes().await.unwrap();
    assert!(nodes.iter().any(|row| row.id == node && row.fenced));
}

pub async fn only_members_tick_and_commit(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let run = owned_run(&*store, node).await;
    let stranger = new_node();
    let ticked = store.tick(stranger, LEASE, at(0), &TickRequest::default()).await;
    assert!(matches!(ticked, Err(Error::Fenced(_))), "{ticked:?}");
    assert!(matches!(store.commit(stranger, &[start(new_run(), None)]).await, Err(Error::Fenced(_))));
    fence(&*store, node).await;
    let refused = store.commit(node, &[step(run, 2), start(new_run(), None)]).await;
    assert!(matches!(refused, Err(Error::Fenced(fenced)) if fenced == node), "{refused:?}");
    assert_eq!(seqs(&*store, run).await, [1]);
}

pub async fn a_node_that_leaves_gives_its_runs_back(store: Arc<dyn RunStore>) {
    let (node, other) = (member(&*store).await, member(&*store).await);
    let (run, foreign) = (owned_run(&*store, node).await, owned_run(&*store, other).await);
    let parked = owned_run(&*store, node).await;
    apply(&*store, node, &park(parked, at(60))).await;
    let ended = owned_run(&*store, node).await;
    apply(&*store, node, &end(ended, 2, at(1))).await;

    store.leave(node, at(5)).await.unwrap();
    assert!(matches!(store.commit(node, &[step(run, 2)]).await, Err(Error::Fenced(_))));
    let released = row(&*store, run).await;
    assert_eq!((released.owner, released.wake_at), (None, at(5)));
    assert_eq!(row(&*store, parked).await.wake_at, at(60));
    assert_eq!(row(&*store, foreign).await.owner, Some(other));
    assert_eq!(claim(&*store, other, "", at(5), 10).await, [run]);
}

pub async fn runs_of_fenced_owners_are_released_in_batches(store: Arc<dyn RunStore>) {
    let (node, other) = (member(&*store).await, member(&*store).await);
    let mut runs = vec![];
    for _ in 0..5 {
        runs.push(owned_run(&*store, node).await);
    }
    let foreign = owned_run(&*store, other).await;
    assert_eq!(release_runs(&*store, at(5), 10).await, 0);

    fence(&*store, node).await;
    assert_eq!(release_runs(&*store, at(5), 3).await, 3);
    assert_eq!(release_runs(&*store, at(5), 3).await, 2);
    assert_eq!(release_runs(&*store, at(5), 3).await, 0);
    assert_eq!(claim(&*store, other, "", at(4), 10).await, []);
    let mut claimed = claim(&*store, other, "", at(5), 10).await;
    claimed.sort();
    assert_eq!(claimed, runs);
    assert_eq!(row(&*store, foreign).await.owner, Some(other));
}

pub async fn a_fenced_node_s_item_in_flight_is_seen_by_the_claimer_or_refused(store: Arc<dyn RunStore>) {
    let claimer = member(&*store).await;
    for round in 0..20 {
        let node = new_node();
        store.join(node, Duration::ZERO, None).await.unwrap();
        let run = owned_run(&*store, node).await;
        let seen = lease_of(&*store, node).await;
        let in_flight = {
            let store = store.clone();
            tokio::spawn(async move { store.commit(node, &[step(run, 2)]).await })
        };
        if round % 2 == 0 {
            tokio::task::yield_now().await;
        }
        // A commit in flight may delay a fence. It ends soon.
        while !store.fence(node, seen).await.unwrap() {}
        assert_eq!(release_runs(&*store, at(0), 10).await, 1);
        assert_eq!(claim(&*store, claimer, "", at(0), 10).await, [run]);
        let entries = load(&*store, run).await.entries.len();
        match in_flight.await.unwrap() {
            Ok(outcomes) => assert_eq!((outcomes, entries), (vec![applied()], 3)),
            Err(Error::Fenced(fenced)) => assert_eq!((fenced, entries), (node, 1)),
            Err(error) => panic!("{error}"),
        }
        // A row that was visible stays visible: the claimer continues directly after it.
        let next = step(run, entries as u64 + 1);
        assert_eq!(commit(&*store, claimer, &next).await, CommitOutcome::Applied(vec![]));
    }
}
