//! The places of machines: the state of a run of a machine, and its version, in the run's row.

use std::sync::Arc;

use everstep_core::ids::{NodeId, RunId};
use everstep_core::status::Status;
use everstep_store::{
    CommitOutcome, Gate, Item, MachinePlace, NewFork, NewRun, Projection, RunFilter, RunGlance, RunStore, SideWrites,
};

use crate::contract::fixtures::*;

/// An item that moves its machine to a place.
fn moves_to(place: MachinePlace, item: Item) -> Item {
    let projection = item.projection.clone().expect("the item has a projection");
    Item { format: 2, projection: Some(Projection { machine: Some(place), ..projection }), ..item }
}

/// Starts a run of a machine that `node` owns.
async fn started(store: &dyn RunStore, node: NodeId, state: &str, new: NewRun) -> RunId {
    let run = new_run();
    apply(store, node, &moves_to(place(state, 1), start_with(run, Some(node), new))).await;
    run
}

/// A step of a run that stays with `node`, and changes its row.
fn moving(run: RunId, seq: u64, node: NodeId) -> Item {
    Item { projection: Some(projection(Status::Running, Some(node), at(0))), ..step(run, seq) }
}

async fn machine(store: &dyn RunStore, run: RunId) -> Option<MachinePlace> {
    let row = row(store, run).await;
    assert_eq!(store.get_run(HERE, run).await.unwrap().map(|row| row.machine), Some(row.machine.clone()));
    row.machine
}

pub async fn the_place_of_a_machine_is_written_with_its_item(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let run = started(&*store, node, "draft", new()).await;
    assert_eq!(machine(&*store, run).await, Some(place("draft", 1)));
    // As the owner, with side rows, and with a wait.
    apply(&*store, node, &moves_to(place("review", 2), moving(run, 2, node))).await;
    assert_eq!(machine(&*store, run).await, Some(place("review", 2)));
    let side = Some(Box::new(SideWrites::with_audit(audit_row(0))));
    apply(&*store, node, &Item { side: side.clone(), ..moves_to(place("ünï ✓", 3), moving(run, 4, node)) }).await;
    assert_eq!(machine(&*store, run).await, Some(place("ünï ✓", 3)));
    let news = vec![inbox_input(run, "news")];
    let sending = Item { inbox_inputs: news, side, ..moves_to(place("review", 4), moving(run, 6, node)) };
    let sent = apply(&*store, node, &sending).await;
    // Without entries, and parked; then as a guest.
    apply(&*store, node, &moves_to(place("review", 5), park(run, at(60)))).await;
    assert_eq!(machine(&*store, run).await, Some(place("review", 5)));
    let waiting =
        Item { projection: Some(projection(Status::Waiting, None, at(60))), gate: Gate::Unowned, ..step(run, 8) };
    apply(&*store, node, &Item { taken: sent, ..moves_to(place("approved", 6), waiting) }).await;
    assert_eq!(machine(&*store, run).await, Some(place("approved", 6)));
}

pub async fn an_item_that_is_refused_moves_no_machine(store: Arc<dyn RunStore>) {
    let (node, other) = (member(&*store).await, member(&*store).await);
    let run = started(&*store, node, "draft", new()).await;
    let stolen = commit(&*store, other, &moves_to(place("review", 2), moving(run, 2, other))).await;
    assert_eq!(stolen, CommitOutcome::Lost);
    let late = commit(&*store, node, &moves_to(place("review", 2), moving(run, 1, node))).await;
    assert_eq!(late, CommitOutcome::Conflict);
    let again = commit(&*store, node, &moves_to(place("review", 2), start(run, Some(node)))).await;
    assert_eq!(again, CommitOutcome::Conflict);
    assert_eq!(machine(&*store, run).await, Some(place("draft", 1)));
}

pub async fn items_of_machines_and_of_other_styles_share_a_batch(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let (moved, still) = (started(&*store, node, "draft", new()).await, started(&*store, node, "draft", new()).await);
    let (graph, fresh, fresh_graph) = (owned_run(&*store, node).await, new_run(), new_run());
    let items = [
        moves_to(place("review", 2), moving(moved, 2, node)),
        step(still, 2),
        moving(graph, 2, node),
        moves_to(place("draft", 1), start(fresh, Some(node))),
        start(fresh_graph, Some(node)),
    ];
    assert_eq!(store.commit(node, &items).await.unwrap(), [(); 5].map(|()| applied()));
    assert_eq!(machine(&*store, moved).await, Some(place("review", 2)));
    assert_eq!(machine(&*store, still).await, Some(place("draft", 1)));
    assert_eq!(machine(&*store, fresh).await, Some(place("draft", 1)));
    assert_eq!((machine(&*store, graph).await, machine(&*store, fresh_graph).await), (None, None));
}

pub async fn a_fork_has_no_place_before_its_first_item(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let (source, fork) = (started(&*store, node, "draft", new()).await, new_run());
    apply(&*store, node, &moves_to(place("review", 2), moving(source, 2, node))).await;
    store.fork_run(HERE, source, NewFork::new(fork, 1, at(0))).await.unwrap();
    assert_eq!(machine(&*store, fork).await, None);
    assert_eq!(machine(&*store, source).await, Some(place("review", 2)));
}

pub async fn runs_are_listed_by_the_state_of_their_machine(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let parent = owned_run(&*store, node).await;
    let of_parent = || NewRun { parent: Some(parent), ..new() };
    let (one, child) =
        (started(&*store, node, "review", new()).await, started(&*store, node, "review", of_parent()).await);
    let other = NewRun { workflow: "expense".to_owned(), ..new() };
    let expense = started(&*store, node, "review", other).await;
    started(&*store, node, "draft", new()).await;
    started(&*store, node, "review", NewRun { is_test: true, ..new() }).await;
    let cancelled = started(&*store, node, "review", new()).await;
    let cancel = Item { projection: Some(ended(Status::Cancelled, at(1))), ..step(cancelled, 2) };
    apply(&*store, node, &moves_to(place("review", 1), cancel)).await;
    let parked = started(&*store, node, "review", new()).await;
    apply(&*store, node, &moves_to(place("review", 1), park(parked, at(60)))).await;

    let review = || RunFilter { state: Some("review".to_owned()), ..RunFilter::default() };
    let orders = || RunFilter { workflow: Some("orders".to_owned()), ..review() };
    assert_eq!(list(&*store, orders()).await, [one, child, parked]);
    assert_eq!(list(&*store, RunFilter { statuses: vec![Status::Waiting], ..orders() }).await, [parked]);
    assert_eq!(list(&*store, review()).await, [one, child, expense, parked]);
    assert_eq!(list(&*store, RunFilter { parent: Some(parent), ..review() }).await, [child]);
    assert_eq!(list(&*store, RunFilter { version: Some(2), ..orders() }).await, []);
    // Runs that have ended are listed if they are named.
    let both = vec![Status::Waiting, Status::Cancelled];
    assert_eq!(list(&*store, RunFilter { statuses: both.clone(), ..orders() }).await, [cancelled, parked]);
    assert_eq!(list(&*store, RunFilter { statuses: both, ..review() }).await, [cancelled, parked]);
    for nothing in ["", "Review", "approved"] {
        assert_eq!(list(&*store, RunFilter { state: Some(nothing.to_owned()), ..orders() }).await, []);
    }
    // A list shows the place, and is read in pages.
    let first = store.list_runs(HERE, orders(), None, 2).await.unwrap();
    assert_eq!(first.runs.iter().map(|run| run.id).collect::<Vec<_>>(), [parked, child]);
    assert!(first.runs.iter().all(|run| run.machine == Some(place("review", 1))));
    let rest = store.list_runs(HERE, orders(), first.next, 2).await.unwrap();
    assert_eq!((rest.runs.len(), rest.runs[0].id, rest.next), (1, one, None));
}

pub async fn a_glance_shows_the_owner_the_status_and_the_place(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let run = owned_run(&*store, node).await;
    let glanced = |owner, status, machine| {
        let NewRun { workflow, version, .. } = new();
        RunGlance { owner, status, workflow, version, machine }
    };
    let glance = |run| {
        let store = Arc::clone(&store);
        async move { store.glance(HERE, run).await.unwrap().expect("the run exists") }
    };
    assert_eq!(glance(run).await, glanced(Some(node), Status::Running, None));
    apply(&*store, node, &park(run, at(60))).await;
    assert_eq!(glance(run).await, glanced(None, Status::Waiting, None));

    let machine = started(&*store, node, "draft", new()).await;
    apply(&*store, node, &moves_to(place("review", 2), moving(machine, 2, node))).await;
    let expected = glanced(Some(node), Status::Running, Some(place("review", 2)));
    assert_eq!(glance(machine).await, expected);
    let ending = Item { projection: Some(ended(Status::Completed, at(1))), ..step(machine, 4) };
    apply(&*store, node, &moves_to(place("done", 3), ending)).await;
    let expected = glanced(None, Status::Completed, Some(place("done", 3)));
    assert_eq!(glance(machine).await, expected);

    assert_eq!(store.glance(new_workspace(), run).await.unwrap(), None);
    assert_eq!(store.glance(HERE, new_run()).await.unwrap(), None);
}

/// All runs that a filter finds, oldest first.
async fn list(store: &dyn RunStore, filter: RunFilter) -> Vec<RunId> {
    let page = store.list_runs(HERE, filter, None, 100).await.unwrap();
    assert_eq!(page.next, None);
    page.runs.into_iter().rev().map(|run| run.id).collect()
}
