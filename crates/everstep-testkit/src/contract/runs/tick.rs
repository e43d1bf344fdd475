//! The tick: the periodic work of a node on the database, once a second.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use everstep_core::ids::{NodeId, RunId};
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_store::{Error, Item, NewRun, RunStore, Tick, TickRequest};

use crate::contract::fixtures::*;

/// Starts an unowned run of a lane, due at a time.
async fn due(store: &dyn RunStore, node: NodeId, lane: &str, wake_at: Timestamp) -> RunId {
    let run = new_run();
    let mut start = start_with(run, None, NewRun { lane: lane.to_owned(), ..new() });
    start.projection = Some(projection(Status::Waiting, None, wake_at));
    apply(store, node, &start).await;
    run
}

fn lanes(lanes: &[(&str, usize)]) -> TickRequest {
    let lanes = lanes.iter().map(|(lane, room)| ((*lane).to_owned(), *room)).collect();
    TickRequest { lanes, ..TickRequest::default() }
}

async fn tick(store: &dyn RunStore, node: NodeId, now: Timestamp, request: &TickRequest) -> Tick {
    store.tick(node, LEASE, now, request).await.unwrap()
}

pub async fn a_tick_returns_the_time_and_all_nodes(store: Arc<dyn RunStore>) {
    let (node, other, gone) = (new_node(), new_node(), new_node());
    let joined = store.join(node, Duration::ZERO, None).await.unwrap();
    store.join(other, Duration::ZERO, Some("http://10.0.0.1:7000".to_owned())).await.unwrap();
    store.join(gone, LEASE, None).await.unwrap();
    fence(&*store, gone).await;

    let tick = tick(&*store, node, at(0), &TickRequest::default()).await;
    assert!(tick.clock >= joined);
    assert_eq!((tick.released, tick.claimed, tick.arrivals), (0, vec![], vec![]));
    assert_eq!(tick.nodes.iter().map(|row| row.id).collect::<Vec<_>>(), [node, other, gone]);
    assert_eq!(tick.nodes.iter().map(|row| row.is_expired).collect::<Vec<_>>(), [false, true, true]);
    assert_eq!(tick.nodes.iter().map(|row| row.fenced).collect::<Vec<_>>(), [false, false, true]);
    assert_eq!(tick.nodes[0].lease_until, tick.clock.plus(LEASE));
    assert_eq!(tick.nodes[1].address.as_deref(), Some("http://10.0.0.1:7000"));
}

pub async fn a_tick_claims_each_lane_up_to_its_room(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let late = due(&*store, node, "", at(30)).await;
    let early = due(&*store, node, "", at(10)).await;
    let middle = due(&*store, node, "", at(20)).await;
    let worker = due(&*store, node, "workers", at(5)).await;
    let other = due(&*store, node, "others", at(5)).await;

    let request = lanes(&[("workers", 5), ("", 2), ("unserved", 9), ("others", 0)]);
    let first = tick(&*store, node, at(60), &request).await;
    assert_eq!(first.claimed, [worker, early, middle]);
    assert_eq!(store.owned_runs(node).await.unwrap().len(), 3);
    assert_eq!(tick(&*store, node, at(60), &request).await.claimed, [late]);
    assert_eq!(tick(&*store, node, at(60), &request).await.claimed, []);
    assert_eq!(row(&*store, other).await.owner, None);
    apply(&*store, node, &step(early, 2)).await;
}

pub async fn a_tick_claims_only_what_is_due(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let run = due(&*store, node, "", at(10)).await;
    due(&*store, node, "", Timestamp::NEVER).await;
    assert_eq!(tick(&*store, node, at(9), &lanes(&[("", 10)])).await.claimed, []);
    assert_eq!(tick(&*store, node, at(10), &TickRequest::default()).await.claimed, []);
    assert_eq!(tick(&*store, node, at(10), &lanes(&[("", 10)])).await.claimed, [run]);
}

pub async fn a_tick_releases_what_the_next_one_claims(store: Arc<dyn RunStore>) {
    let (node, gone) = (member(&*store).await, member(&*store).await);
    let mut runs = vec![];
    for _ in 0..5 {
        runs.push(owned_run(&*store, gone).await);
    }
    let sending = Item { inbox_inputs: vec![inbox_input(runs[0], "news")], ..start(new_run(), Some(gone)) };
    apply(&*store, gone, &sending).await;
    let request = TickRequest { release: 4, inbox: 10, ..lanes(&[("", 10)]) };
    let before = tick(&*store, node, at(5), &request).await;
    assert_eq!((before.released, before.claimed, before.arrivals), (0, vec![], vec![]));

    fence(&*store, gone).await;
    let first = tick(&*store, node, at(5), &request).await;
    assert_eq!((first.released, first.claimed, first.arrivals), (4, vec![], vec![]));
    let second = tick(&*store, node, at(5), &request).await;
    assert_eq!((second.released, second.claimed.len()), (2, 4));
    let third = tick(&*store, node, at(5), &request).await;
    assert_eq!((third.released, third.claimed.len()), (0, 2));
    let claimed: BTreeSet<_> = second.claimed.into_iter().chain(third.claimed).collect();
    assert!(runs.iter().all(|run| claimed.contains(run)));
    assert_eq!(third.arrivals.len(), 1);
    assert_eq!(row(&*store, runs[0]).await.wake_at, at(5));
}

pub async fn a_tick_reads_the_inbox_of_own_and_unowned_runs(store: Arc<dyn RunStore>) {
    let (node, other) = (member(&*store).await, member(&*store).await);
    let (mine, nobodys) = (owned_run(&*store, node).await, unowned_run(&*store, node).await);
    let (theirs, ended) = (owned_run(&*store, other).await, owned_run(&*store, node).await);
    let inbox_inputs = [theirs, mine, ended, nobodys, new_run(), mine].map(|to| inbox_input(to, "news")).to_vec();
    let sent = apply(&*store, node, &Item { inbox_inputs, ..start(new_run(), Some(node)) }).await;
    apply(&*store, node, &end(ended, 2, at(1))).await;

    let read = |node, inbox| {
        let store = store.clone();
        async move {
            let arrivals = tick(&*store, node, at(0), &TickRequest { inbox, ..TickRequest::default() }).await.arrivals;
            arrivals.into_iter().map(|arrival| arrival.id).collect::<Vec<_>>()
        }
    };
    assert_eq!(read(node, 10).await, [sent[1], sent[3], sent[5]]);
    assert_eq!(read(other, 10).await, [sent[0], sent[3]]);
    assert_eq!(read(node, 2).await, [sent[1], sent[3]]);
    assert_eq!(read(node, 0).await, []);
}

pub async fn a_fenced_node_s_tick_does_nothing(store: Arc<dyn RunStore>) {
    let (node, fenced) = (member(&*store).await, member(&*store).await);
    let run = due(&*store, node, "", at(0)).await;
    let orphan = owned_run(&*store, fenced).await;
    fence(&*store, fenced).await;
    let before = store.nodes().await.unwrap();
    for stranger in [fenced, new_node()] {
        let request = TickRequest { release: 10, inbox: 10, ..lanes(&[("", 10)]) };
        let ticked = store.tick(stranger, LEASE, at(0), &request).await;
        assert!(matches!(ticked, Err(Error::Fenced(node)) if node == stranger), "{ticked:?}");
    }
    assert_eq!(store.nodes().await.unwrap(), before);
    assert_eq!(row(&*store, run).await.owner, None);
    assert_eq!(row(&*store, orphan).await.owner, Some(fenced));
}

pub async fn ticks_of_two_nodes_share_the_runs(store: Arc<dyn RunStore>) {
    let nodes = [member(&*store).await, member(&*store).await];
    let mut runs = BTreeSet::new();
    for _ in 0..40 {
        runs.insert(due(&*store, nodes[0], "", at(0)).await);
    }
    let claims = nodes.map(|node| {
        let store = store.clone();
        tokio::spawn(async move {
            let mut claimed = vec![];
            loop {
                let more = tick(&*store, node, at(0), &lanes(&[("", 7)])).await.claimed;
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
    assert_eq!((count, runs.len()), (40, 0));
}

pub async fn ticks_rotate_over_workspaces(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let mut workspaces = [(); 3].map(|()| new_workspace());
    workspaces.sort();
    let mut runs = vec![];
    for (index, workspace) in workspaces.into_iter().enumerate() {
        for round in 0..2 {
            let run = new_run();
            // The first workspace has the oldest runs.
            let projection = Some(projection(Status::Waiting, None, at(index as i64 * 10 + round)));
            apply(&*store, node, &Item { workspace, projection, ..start(run, None) }).await;
            runs.push(run);
        }
    }
    let worker = due(&*store, node, "workers", at(5)).await;
    let mut request = lanes(&[("workers", 5), ("", 1)]);
    let mut claimed = vec![];
    for _ in 0..4 {
        let tick = tick(&*store, node, at(60), &request).await;
        request.rotation = tick.rotation;
        claimed.extend(tick.claimed);
    }
    assert_eq!(claimed, [worker, runs[0], runs[2], runs[4], runs[1]]);
    assert_eq!(request.rotation, Some(workspaces[0]));
    // All runs that are due have room.
    request.lanes = vec![(String::new(), 5)];
    let rest = tick(&*store, node, at(60), &request).await;
    assert_eq!((rest.claimed, rest.rotation), (vec![runs[3], runs[5]], Some(workspaces[0])));
}
