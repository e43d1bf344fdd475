//! Formats: which builds may claim a run.

use std::sync::Arc;

use everstep_core::ids::{NodeId, RunId};
use everstep_core::journal::FORMAT;
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_store::{Gate, Item, NewFork, RunStore, TickRequest};

use crate::contract::fixtures::*;

/// A format that this build does not know: that of a run of a later release.
const LATER: u32 = FORMAT + 1;
/// The format of a run of a graph.
const GRAPH: u32 = 1;

async fn format(store: &dyn RunStore, run: RunId) -> u32 {
    row(store, run).await.format
}

/// Starts a run of a format that `node` owns.
async fn started(store: &dyn RunStore, node: NodeId, format: u32) -> RunId {
    let run = new_run();
    apply(store, node, &Item { format, ..start(run, Some(node)) }).await;
    run
}

pub async fn a_node_of_an_older_format_leaves_machine_runs_and_takes_back_graph_runs(store: Arc<dyn RunStore>) {
    // This build is the older one. What the newer node writes of machines has a format that it does not know.
    let (newer, older) = (member(&*store).await, member(&*store).await);
    let (machine, graph) = (started(&*store, newer, LATER).await, started(&*store, newer, GRAPH).await);
    apply(&*store, newer, &Item { format: LATER, ..park(machine, at(1)) }).await;
    apply(&*store, newer, &step(graph, 2)).await;
    apply(&*store, newer, &park(graph, at(2))).await;
    assert_eq!(store.next_wake("").await.unwrap(), Some(at(2)));
    assert_eq!(claim(&*store, older, "", at(10), 10).await, [graph]);
    assert_eq!((format(&*store, machine).await, format(&*store, graph).await), (LATER, GRAPH));

    // The graph run moves to the newer node and back, by claims of both kinds.
    let request = TickRequest { lanes: vec![(String::new(), 10)], ..TickRequest::default() };
    for node in [newer, older] {
        apply(&*store, if node == newer { older } else { newer }, &park(graph, at(3))).await;
        assert_eq!(store.tick(node, LEASE, at(10), &request).await.unwrap().claimed, [graph]);
        assert_eq!(format(&*store, graph).await, GRAPH);
    }
    assert_eq!(row(&*store, machine).await.owner, None);
}

pub async fn a_claim_does_not_change_the_format_of_a_run(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    for known in GRAPH..=FORMAT {
        let run = started(&*store, node, known).await;
        apply(&*store, node, &park(run, at(0))).await;
        assert_eq!(claim(&*store, node, "", at(0), 10).await, [run]);
        assert_eq!(format(&*store, run).await, known);
    }
}

pub async fn an_item_raises_the_format_of_its_run_and_never_lowers_it(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let other = owned_run(&*store, node).await;
    // As an owner, as a guest, and without entries; beside an item of another format.
    let owned = started(&*store, node, GRAPH).await;
    let raising = Item {
        format: LATER,
        projection: Some(projection(Status::Running, Some(node), Timestamp::NEVER)),
        ..step(owned, 2)
    };
    let waiting = Item { projection: Some(projection(Status::Waiting, Some(node), at(0))), ..step(other, 2) };
    assert_eq!(store.commit(node, &[raising, waiting]).await.unwrap(), [applied(), applied()]);
    assert_eq!((format(&*store, owned).await, format(&*store, other).await), (LATER, GRAPH));
    apply(&*store, node, &park(owned, at(0))).await;
    assert_eq!(format(&*store, owned).await, LATER);

    let guest = unowned_run(&*store, node).await;
    let answer = Item {
        gate: Gate::Unowned,
        format: LATER,
        projection: Some(projection(Status::Waiting, None, at(60))),
        ..step(guest, 2)
    };
    apply(&*store, node, &answer).await;
    assert_eq!(format(&*store, guest).await, LATER);

    let bare = started(&*store, node, GRAPH).await;
    apply(&*store, node, &Item { format: LATER, ..park(bare, at(0)) }).await;
    assert_eq!(format(&*store, bare).await, LATER);
}

pub async fn an_item_that_is_refused_raises_no_format(store: Arc<dyn RunStore>) {
    let (node, other) = (member(&*store).await, member(&*store).await);
    let run = started(&*store, node, GRAPH).await;
    let raising = Item { format: LATER, ..park(run, at(0)) };
    commit(&*store, other, &raising).await;
    assert_eq!(format(&*store, run).await, GRAPH);
    commit(&*store, node, &Item { format: LATER, ..start(run, Some(node)) }).await;
    assert_eq!(format(&*store, run).await, GRAPH);
}

pub async fn a_start_without_a_projection_has_the_format_of_its_item(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let run = new_run();
    apply(&*store, node, &Item { format: LATER, projection: None, ..start(run, None) }).await;
    assert_eq!(format(&*store, run).await, LATER);
    assert_eq!(claim(&*store, node, "", at(60), 10).await, []);
}

pub async fn a_fork_has_the_format_of_its_source(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let (run, fork) = (started(&*store, node, LATER).await, new_run());
    let forked = store.fork_run(HERE, run, NewFork::new(fork, 1, at(0))).await.unwrap();
    assert_eq!((forked, format(&*store, fork).await), (Some(1), LATER));
    assert_eq!(claim(&*store, node, "", at(60), 10).await, []);
}
