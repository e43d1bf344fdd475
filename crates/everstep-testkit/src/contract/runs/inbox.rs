//! The inbox: the sender's item writes rows, a node that may answer reads them, and its answer deletes them.

use std::sync::Arc;

use everstep_core::ids::{NodeId, RunId};
use everstep_store::{CommitOutcome, Gate, InboxId, Item, RunStore};

use crate::contract::fixtures::*;

/// Sends texts to runs in one item of a separate run. Returns the ids of those that were not dropped.
async fn send(store: &dyn RunStore, node: NodeId, texts: &[(RunId, &str)]) -> Vec<InboxId> {
    let sender = new_run();
    let inbox_inputs = texts.iter().map(|(to, text)| inbox_input(*to, text)).collect();
    apply(store, node, &Item { inbox_inputs, ..start(sender, Some(node)) }).await
}

/// The texts that a node reads from the inbox.
async fn seen(store: &dyn RunStore, node: NodeId) -> Vec<String> {
    let arrivals = store.inbox(node, None, 100).await.unwrap();
    arrivals.into_iter().map(|arrival| String::from_utf8(arrival.input).unwrap()).collect()
}

pub async fn inbox_inputs_arrive_in_their_order(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let (first, second) = (owned_run(&*store, node).await, owned_run(&*store, node).await);
    let sent = send(&*store, node, &[(first, "a"), (second, "b"), (first, "c")]).await;
    assert!(sent.is_sorted() && sent[0] > InboxId(0), "{sent:?}");

    let arrivals = store.inbox(node, None, 100).await.unwrap();
    assert_eq!(arrivals.iter().map(|arrival| arrival.id).collect::<Vec<_>>(), sent);
    assert_eq!(arrivals.iter().map(|arrival| arrival.run).collect::<Vec<_>>(), [first, second, first]);
    assert_eq!(inbox_of(&*store, first).await, ["a", "c"]);
    // Reading deletes nothing.
    assert_eq!(seen(&*store, node).await, ["a", "b", "c"]);
}

pub async fn inbox_inputs_of_ended_runs_are_dropped(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let (live, ended) = (owned_run(&*store, node).await, owned_run(&*store, node).await);
    apply(&*store, node, &end(ended, 2, at(1))).await;
    let inbox_inputs = vec![inbox_input(ended, "late"), inbox_input(live, "news")];
    let sent = commit(&*store, node, &Item { inbox_inputs, ..start(new_run(), Some(node)) }).await;
    let CommitOutcome::Applied(sent) = sent else { panic!("the outcome is {sent:?} instead of applied") };
    assert_eq!(sent[0].id, None);
    assert!(sent[1].id.is_some());
    assert_eq!(inbox_of(&*store, live).await, ["news"]);
    assert_eq!(inbox_of(&*store, ended).await, Vec::<String>::new());
}

pub async fn an_inbox_input_waits_for_a_run_that_is_yet_to_start(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let run = new_run();
    let sent = send(&*store, node, &[(run, "early"), (run, "again")]).await;
    assert!(sent.is_sorted() && sent[0] > InboxId(0), "{sent:?}");
    // No node may answer it yet; the node that starts the run finds it.
    assert_eq!(seen(&*store, node).await, Vec::<String>::new());
    let arrivals = store.arrivals(run).await.unwrap();
    assert_eq!(
        arrivals.iter().map(|arrival| (arrival.id, arrival.run)).collect::<Vec<_>>(),
        [(sent[0], run), (sent[1], run)]
    );
    assert_eq!(arrivals[0].input, b"early");

    // The item that starts the run answers the rows that it has found.
    apply(&*store, node, &Item { taken: vec![sent[0]], ..start(run, Some(node)) }).await;
    assert_eq!(inbox_of(&*store, run).await, ["again"]);
    assert_eq!(seen(&*store, node).await, ["again"]);
    assert_eq!(store.arrivals(new_run()).await.unwrap(), []);
}

pub async fn a_sent_inbox_input_names_the_owner_of_its_run(store: Arc<dyn RunStore>) {
    let (node, other) = (member(&*store).await, member(&*store).await);
    let (mine, theirs) = (owned_run(&*store, node).await, owned_run(&*store, other).await);
    let (unowned, ended) = (unowned_run(&*store, node).await, owned_run(&*store, node).await);
    apply(&*store, node, &end(ended, 2, at(1))).await;
    let inbox_inputs = [mine, theirs, unowned, ended, new_run()].map(|to| inbox_input(to, "news")).to_vec();
    let sent = commit(&*store, node, &Item { inbox_inputs, ..start(new_run(), Some(node)) }).await;
    let CommitOutcome::Applied(sent) = sent else { panic!("the outcome is {sent:?} instead of applied") };
    let owners: Vec<_> = sent.iter().map(|sent| sent.owner).collect();
    assert_eq!(owners, [Some(node), Some(other), None, None, None]);
    let dropped: Vec<_> = sent.iter().map(|sent| sent.id.is_none()).collect();
    assert_eq!(dropped, [false, false, false, true, false]);
}

pub async fn an_inbox_input_reaches_a_run_that_starts_in_the_same_batch(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let (sender, receiver) = (new_run(), new_run());
    let sending = Item { inbox_inputs: vec![inbox_input(receiver, "welcome")], ..start(sender, Some(node)) };
    store.commit(node, &[sending, start(receiver, Some(node))]).await.unwrap();
    assert_eq!(inbox_of(&*store, receiver).await, ["welcome"]);
}

pub async fn a_node_sees_the_inbox_of_its_own_and_of_unowned_runs(store: Arc<dyn RunStore>) {
    let (node, other) = (member(&*store).await, member(&*store).await);
    let (mine, unowned) = (owned_run(&*store, node).await, unowned_run(&*store, node).await);
    let (theirs, ended) = (owned_run(&*store, other).await, owned_run(&*store, node).await);
    send(&*store, node, &[(mine, "mine"), (unowned, "unowned"), (theirs, "theirs"), (ended, "too late")]).await;
    apply(&*store, node, &end(ended, 2, at(1))).await;
    assert_eq!(seen(&*store, node).await, ["mine", "unowned"]);
    assert_eq!(seen(&*store, other).await, ["unowned", "theirs"]);
}

pub async fn the_inbox_is_read_on_from_the_last_row(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let run = owned_run(&*store, node).await;
    let sent = send(&*store, node, &[(run, "a"), (run, "b"), (run, "c")]).await;
    let first = store.inbox(node, None, 2).await.unwrap();
    assert_eq!(first.iter().map(|arrival| arrival.id).collect::<Vec<_>>(), sent[..2]);
    let rest = store.inbox(node, Some(sent[1]), 2).await.unwrap();
    assert_eq!(rest.iter().map(|arrival| arrival.id).collect::<Vec<_>>(), sent[2..]);
    assert_eq!(store.inbox(node, Some(sent[2]), 2).await.unwrap(), []);
}

pub async fn inbox_ids_are_never_used_again(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let run = owned_run(&*store, node).await;
    let taken = send(&*store, node, &[(run, "a"), (run, "b")]).await;
    apply(&*store, node, &Item { taken: taken.clone(), ..step(run, 2) }).await;
    let sent = send(&*store, node, &[(run, "c")]).await;
    assert!(sent[0] > taken[1], "{sent:?} after {taken:?}");
}

pub async fn taken_rows_are_deleted_with_their_item(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let run = owned_run(&*store, node).await;
    let sent = send(&*store, node, &[(run, "a"), (run, "b")]).await;
    apply(&*store, node, &Item { taken: vec![sent[0]], ..step(run, 2) }).await;
    assert_eq!(inbox_of(&*store, run).await, ["b"]);
    // Also by an item without entries.
    apply(&*store, node, &Item { taken: vec![sent[1]], ..item(run, Gate::Owned) }).await;
    assert_eq!(inbox_of(&*store, run).await, Vec::<String>::new());
}

pub async fn taken_rows_stay_when_their_item_is_refused(store: Arc<dyn RunStore>) {
    let (node, other) = (member(&*store).await, member(&*store).await);
    let run = owned_run(&*store, node).await;
    let sent = send(&*store, node, &[(run, "a")]).await;
    let conflicting = Item { taken: sent.clone(), ..step(run, 1) };
    assert_eq!(commit(&*store, node, &conflicting).await, CommitOutcome::Conflict);
    let lost = Item { taken: sent, ..step(run, 2) };
    assert_eq!(commit(&*store, other, &lost).await, CommitOutcome::Lost);
    assert_eq!(inbox_of(&*store, run).await, ["a"]);
}

pub async fn an_item_takes_only_rows_of_its_own_run(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let (run, other) = (owned_run(&*store, node).await, owned_run(&*store, node).await);
    let sent = send(&*store, node, &[(other, "not yours")]).await;
    let outcomes = store.commit(node, &[Item { taken: sent, ..step(run, 2) }]).await.unwrap();
    assert_eq!(outcomes, [CommitOutcome::Conflict]);
    assert_eq!(inbox_of(&*store, other).await, ["not yours"]);
}

pub async fn an_input_is_answered_once(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let run = owned_run(&*store, node).await;
    let sent = send(&*store, node, &[(run, "once")]).await;
    apply(&*store, node, &Item { taken: sent.clone(), ..step(run, 2) }).await;
    let again = store.commit(node, &[Item { taken: sent, ..step(run, 4) }]).await.unwrap();
    assert_eq!(again, [CommitOutcome::Conflict]);
    assert_eq!(store.journal(run, 0, 10).await.unwrap().len(), 3);
}
