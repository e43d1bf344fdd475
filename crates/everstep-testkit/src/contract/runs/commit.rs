//! Items: all or nothing, gated by their heads, with the same outcome when they are sent again.

use std::sync::Arc;

use everstep_core::failure::Failure;
use everstep_core::journal::Kind;
use everstep_core::payload::Payload;
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_store::{CommitOutcome, Error, Gate, Item, Projection, RunRow, RunStore, WaitChange};
use serde_json::json;

use crate::contract::fixtures::*;

pub async fn a_refused_head_writes_nothing_of_its_item((store, tables): (Arc<dyn RunStore>, Tables)) {
    let (node, other) = (member(&*store).await, member(&*store).await);
    let run = owned_run(&*store, node).await;
    let friend = owned_run(&*store, node).await;
    let sending = Item { inbox_inputs: vec![inbox_input(run, "news")], ..step(friend, 2) };
    let news = apply(&*store, node, &sending).await;
    let before = load(&*store, run).await;

    // Everything that an item can write; rejected as lost for another node, as a conflict for the owner.
    let full = |seq| Item {
        projection: Some(ended(Status::Completed, at(9))),
        waits: vec![WaitChange::Open(wait("s1", "paid"))],
        taken: news.clone(),
        inbox_inputs: vec![inbox_input(friend, "never sent")],
        ..step(run, seq)
    };
    assert_eq!(commit(&*store, other, &full(2)).await, CommitOutcome::Lost);
    assert_eq!(commit(&*store, node, &full(1)).await, CommitOutcome::Conflict);

    assert_eq!(load(&*store, run).await, before);
    assert_eq!(inbox_of(&*store, friend).await, Vec::<String>::new());
    assert_eq!(tables.waits_for(HERE, "paid", 10).await, []);
}

pub async fn a_clash_behind_the_head_writes_nothing_of_its_item(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let (run, neighbour) = (owned_run(&*store, node).await, owned_run(&*store, node).await);
    apply(&*store, node, &step(run, 2)).await;
    let before = load(&*store, run).await;

    // The seq of its head is free, but the attempt that follows was dispatched before.
    let mut clashing = step(run, 4);
    clashing.entries[1].row.step = Some("s4".into());
    let outcomes = store.commit(node, &[step(neighbour, 2), clashing]).await.unwrap();

    assert_eq!(outcomes, [applied(), CommitOutcome::Conflict]);
    assert_eq!(load(&*store, run).await, before);
    assert_eq!(seqs(&*store, neighbour).await, [1, 2, 3]);
}

pub async fn neighbours_of_a_refused_item_are_applied(store: Arc<dyn RunStore>) {
    let (node, other) = (member(&*store).await, member(&*store).await);
    let (first, second, third) =
        (owned_run(&*store, node).await, owned_run(&*store, node).await, owned_run(&*store, node).await);
    let foreign = owned_run(&*store, other).await;
    let fresh = new_run();

    let items = [step(first, 2), step(second, 1), step(foreign, 2), start(fresh, Some(node)), step(third, 2)];
    let outcomes = store.commit(node, &items).await.unwrap();

    assert_eq!(outcomes, [applied(), CommitOutcome::Conflict, CommitOutcome::Lost, applied(), applied()]);
    assert_eq!(seqs(&*store, first).await, [1, 2, 3]);
    assert_eq!(seqs(&*store, second).await, [1]);
    assert_eq!(seqs(&*store, foreign).await, [1]);
    assert_eq!(seqs(&*store, fresh).await, [1]);
    assert_eq!(seqs(&*store, third).await, [1, 2, 3]);
}

pub async fn a_resent_item_is_a_duplicate(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let (run, friend) = (owned_run(&*store, node).await, owned_run(&*store, node).await);
    let sent = Item { inbox_inputs: vec![inbox_input(friend, "once")], ..step(run, 2) };
    apply(&*store, node, &sent).await;
    assert_eq!(commit(&*store, node, &sent).await, CommitOutcome::Duplicate);

    // Also after later entries, and after another node has become the owner.
    apply(&*store, node, &step(run, 4)).await;
    apply(&*store, node, &park(run, at(0))).await;
    assert_eq!(commit(&*store, node, &sent).await, CommitOutcome::Duplicate);
    assert_eq!(seqs(&*store, run).await, [1, 2, 3, 4, 5]);
    assert_eq!(inbox_of(&*store, friend).await, ["once"]);
}

pub async fn a_resent_batch_is_answered_item_by_item(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let (first, second) = (owned_run(&*store, node).await, owned_run(&*store, node).await);
    let sent = step(first, 2);
    apply(&*store, node, &sent).await;
    let outcomes = store.commit(node, &[sent, step(second, 2)]).await.unwrap();
    assert_eq!(outcomes, [CommitOutcome::Duplicate, applied()]);
}

pub async fn another_proposal_for_the_same_seq_is_a_conflict(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let run = owned_run(&*store, node).await;
    let first = step(run, 2);
    apply(&*store, node, &first).await;
    let second = Item { commit: new_commit(), ..first };
    assert_eq!(commit(&*store, node, &second).await, CommitOutcome::Conflict);
    assert_eq!(seqs(&*store, run).await, [1, 2, 3]);
}

pub async fn an_attempt_is_journaled_once_per_kind(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let run = owned_run(&*store, node).await;
    let journal = |seq, kind| Item { entries: vec![entry(seq, kind, Some("fetch"))], ..item(run, Gate::Owned) };
    let once = [Kind::StepDispatched, Kind::StepCompleted, Kind::StepFailed];
    for (seq, kind) in (2..).zip(once) {
        apply(&*store, node, &journal(seq, kind)).await;
    }
    for kind in once {
        assert_eq!(commit(&*store, node, &journal(5, kind)).await, CommitOutcome::Conflict);
    }
    // Another attempt is allowed, and so is a kind that may be repeated.
    let mut again = journal(5, Kind::StepDispatched);
    again.entries[0].row.attempt = 2;
    apply(&*store, node, &again).await;
    apply(&*store, node, &journal(6, Kind::TimerFired)).await;
    apply(&*store, node, &journal(7, Kind::TimerFired)).await;
    assert_eq!(seqs(&*store, run).await, [1, 2, 3, 4, 5, 6, 7]);
}

pub async fn an_unowned_run_is_decided_by_one_node(store: Arc<dyn RunStore>) {
    let nodes = [member(&*store).await, member(&*store).await];
    for _ in 0..20 {
        let run = unowned_run(&*store, nodes[0]).await;
        let decisions = nodes.map(|node| {
            let store = store.clone();
            let decision = Item {
                entries: vec![entry(2, Kind::StepDispatched, Some("first"))],
                projection: Some(projection(Status::Running, Some(node), at(0))),
                ..item(run, Gate::Unowned)
            };
            tokio::spawn(async move { commit(&*store, node, &decision).await })
        });
        let mut owners = vec![];
        for (node, decision) in nodes.into_iter().zip(decisions) {
            match decision.await.unwrap() {
                CommitOutcome::Applied(_) => owners.push(node),
                outcome => assert!(matches!(outcome, CommitOutcome::Conflict | CommitOutcome::Lost), "{outcome:?}"),
            }
        }
        let [owner] = owners.try_into().expect("one of two nodes decides");
        let loaded = load(&*store, run).await;
        assert_eq!(loaded.run.owner, Some(owner));
        assert_eq!(loaded.entries[1].writer, owner);
        assert_eq!(loaded.entries.len(), 2);
    }
}

pub async fn a_run_that_is_owned_refuses_items_for_unowned_ones(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let run = owned_run(&*store, node).await;
    let item = Item { gate: Gate::Unowned, ..step(run, 2) };
    assert_eq!(commit(&*store, node, &item).await, CommitOutcome::Lost);
    assert_eq!(seqs(&*store, run).await, [1]);
}

pub async fn an_unowned_run_refuses_items_of_owners(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let run = unowned_run(&*store, node).await;
    assert_eq!(commit(&*store, node, &step(run, 2)).await, CommitOutcome::Lost);
    assert_eq!(seqs(&*store, run).await, [1]);
}

pub async fn an_item_of_a_missing_run_is_lost(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let run = new_run();
    for gate in [Gate::Owned, Gate::Unowned] {
        let with_entries = Item { gate: gate.clone(), ..step(run, 2) };
        let with_a_row = Item { gate: gate.clone(), ..park(run, at(0)) };
        let with_neither = item(run, gate);
        for item in [with_entries, with_a_row, with_neither] {
            assert_eq!(commit(&*store, node, &item).await, CommitOutcome::Lost);
        }
    }
    assert_eq!(seqs(&*store, run).await, [0; 0]);
}

pub async fn an_item_without_entries_is_gated_by_its_run(store: Arc<dyn RunStore>) {
    let (node, other) = (member(&*store).await, member(&*store).await);
    let (run, friend) = (owned_run(&*store, node).await, owned_run(&*store, node).await);
    let parking = Item { inbox_inputs: vec![inbox_input(friend, "parked")], ..park(run, at(60)) };
    let before = row(&*store, run).await;

    assert_eq!(commit(&*store, other, &parking).await, CommitOutcome::Lost);
    assert_eq!(row(&*store, run).await, before);
    assert_eq!(inbox_of(&*store, friend).await, Vec::<String>::new());

    apply(&*store, node, &parking).await;
    let parked = row(&*store, run).await;
    assert_eq!((parked.status, parked.owner, parked.wake_at), (Status::Waiting, None, at(60)));
    assert_eq!(inbox_of(&*store, friend).await, ["parked"]);
    assert_eq!(commit(&*store, node, &parking).await, CommitOutcome::Lost);
}

pub async fn an_item_that_only_takes_is_gated_by_the_owner(store: Arc<dyn RunStore>) {
    let (node, other) = (member(&*store).await, member(&*store).await);
    let (run, friend) = (owned_run(&*store, node).await, owned_run(&*store, node).await);
    let sent = apply(&*store, node, &Item { inbox_inputs: vec![inbox_input(run, "news")], ..step(friend, 2) }).await;

    let taking = |gate| Item { taken: sent.clone(), ..item(run, gate) };
    assert_eq!(commit(&*store, other, &taking(Gate::Owned)).await, CommitOutcome::Lost);
    assert_eq!(commit(&*store, node, &taking(Gate::Unowned)).await, CommitOutcome::Lost);
    assert_eq!(inbox_of(&*store, run).await, ["news"]);
    apply(&*store, node, &taking(Gate::Owned)).await;
    assert_eq!(inbox_of(&*store, run).await, Vec::<String>::new());
}

pub async fn a_failed_run_is_retried_by_one_node(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let run = owned_run(&*store, node).await;
    let failure = Failure::fatal("BROKEN", "it broke");
    let failing = Item {
        entries: vec![entry(2, Kind::RunFailed, None)],
        projection: Some(Projection { error: Some(failure.clone()), ..ended(Status::Failed, at(2)) }),
        ..item(run, Gate::Owned)
    };
    apply(&*store, node, &failing).await;
    assert_eq!(row(&*store, run).await.error, Some(failure));

    let retry = |gate| Item {
        entries: vec![entry(3, Kind::RunRetried, None)],
        projection: Some(projection(Status::Running, Some(node), at(3))),
        ..item(run, gate)
    };
    assert_eq!(commit(&*store, node, &retry(Gate::Owned)).await, CommitOutcome::Lost);
    apply(&*store, node, &retry(Gate::Unowned)).await;
    let retried = row(&*store, run).await;
    assert_eq!((retried.status, retried.owner, retried.ended_at), (Status::Running, Some(node), None));
    assert_eq!(retried.error, None);
}

pub async fn a_projection_is_the_row_after_its_item(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let run = owned_run(&*store, node).await;
    let before = row(&*store, run).await;
    let output = Payload::from(json!({ "paid": true }));
    let mut ending = end(run, 2, at(5));
    ending.projection = Some(Projection { output: Some(output.clone()), ..ended(Status::Completed, at(5)) });
    apply(&*store, node, &ending).await;

    let mut expected = before;
    expected.status = Status::Completed;
    expected.owner = None;
    expected.wake_at = Timestamp::NEVER;
    expected.output = Some(output);
    expected.ended_at = Some(at(5));
    expected.seq = 2;
    assert_eq!(row(&*store, run).await, expected);
}

pub async fn an_item_without_a_projection_leaves_the_row_alone(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let run = owned_run(&*store, node).await;
    let before = row(&*store, run).await;
    apply(&*store, node, &step(run, 2)).await;
    // All columns except the last seq, which is that of its journal.
    assert_eq!(row(&*store, run).await, RunRow { seq: 3, ..before });
}

pub async fn refused_data_writes_nothing_of_its_batch(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let (run, poisoned) = (owned_run(&*store, node).await, owned_run(&*store, node).await);
    for seq in [0, u64::MAX] {
        let poison = Item { entries: vec![entry(seq, Kind::ContextSet, None)], ..item(poisoned, Gate::Owned) };
        let error = store.commit(node, &[step(run, 2), poison]).await.unwrap_err();
        assert!(matches!(error, Error::Refused(_)), "{error:?}");
        assert!(!error.is_transient());
        assert_eq!(seqs(&*store, run).await, [1]);
        assert_eq!(seqs(&*store, poisoned).await, [1]);
    }
    apply(&*store, node, &step(run, 2)).await;
    apply(&*store, node, &step(poisoned, 2)).await;
}

pub async fn an_ended_run_without_an_end_time_is_refused(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let run = owned_run(&*store, node).await;
    let mut ending = end(run, 2, at(5));
    ending.projection = Some(projection(Status::Completed, None, Timestamp::NEVER));
    assert!(matches!(store.commit(node, &[ending]).await, Err(Error::Refused(_))));
    assert_eq!(seqs(&*store, run).await, [1]);
}

pub async fn an_empty_batch_is_nothing(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    assert_eq!(store.commit(node, &[]).await.unwrap(), []);
}
