//! Dead letters are side writes: they exist with their item or not at all.

use everstep_core::dead_letter::DeadLetterStatus;
use everstep_core::ids::RunId;
use everstep_store::{CommitOutcome, DeadLetterFilter, Error, Gate, Item, Stores, WaitChange};

use crate::contract::fixtures::*;

/// One item of each form that a commit treats differently, and items that are refused.
pub async fn a_letter_is_written_with_its_item_or_not(stores: Stores) {
    let store = &*stores.runs;
    let (node, other) = (member(store).await, member(store).await);
    let (run, waiting, parked) = (new_run(), owned_run(store, node).await, unowned_run(store, node).await);
    let letters: Vec<_> = (1..6).map(|seconds| dead_letter(run, seconds)).collect();
    apply(store, node, &with_letters([&letters[0]], start(run, Some(node)))).await;
    apply(store, node, &with_letters([&letters[1]], step(run, 2))).await;
    let open = vec![WaitChange::Open(wait("s", "paid"))];
    apply(store, node, &Item { waits: open, ..with_letters([&letters[2]], step(waiting, 2)) }).await;
    apply(store, node, &Item { gate: Gate::Unowned, ..with_letters([&letters[3]], step(parked, 2)) }).await;
    apply(store, node, &with_letters([&letters[4]], end(run, 4, at(9)))).await;

    // Refused: another owner, a seq that is taken, a run that is missing, a fenced node.
    let foreign = owned_run(store, other).await;
    let refused = dead_letter(foreign, 10);
    let item = |run: RunId, seq| with_letters([&refused], step(run, seq));
    assert_eq!(commit(store, node, &item(foreign, 2)).await, CommitOutcome::Lost);
    assert_eq!(commit(store, node, &item(waiting, 2)).await, CommitOutcome::Conflict);
    assert_eq!(commit(store, node, &item(new_run(), 2)).await, CommitOutcome::Lost);
    let neighbour = dead_letter(waiting, 11);
    let items = [item(foreign, 2), with_letters([&neighbour], step(waiting, 4))];
    assert_eq!(store.commit(node, &items).await.unwrap(), [CommitOutcome::Lost, applied()]);
    fence(store, other).await;
    assert!(matches!(store.commit(other, &[item(foreign, 2)]).await, Err(Error::Fenced(_))));

    let mut rows = listed_letters(&stores, DeadLetterFilter::default()).await;
    rows.reverse();
    let expected: Vec<_> = letters.iter().chain([&neighbour]).map(|letter| letter.id).collect();
    assert_eq!(rows.iter().map(|row| row.letter.id).collect::<Vec<_>>(), expected);
    for letter in &letters {
        let row = letter_row(&*stores.dead_letters, letter.id).await;
        assert_eq!(row.letter, *letter);
        assert_eq!((row.status, row.changed_at, row.notified_at), (DeadLetterStatus::Dead, letter.created_at, None));
        assert_eq!((row.taken_by, row.reason), (None, None));
    }
}

pub async fn a_resent_item_writes_no_second_letter(stores: Stores) {
    let store = &*stores.runs;
    let node = member(store).await;
    let run = owned_run(store, node).await;
    let letter = dead_letter(run, 1);
    let item = with_letters([&letter], step(run, 2));
    apply(store, node, &item).await;
    queued(&*stores.dead_letters, letter.id, 2).await;
    assert_eq!(commit(store, node, &item).await, CommitOutcome::Duplicate);
    // Another item with the same row: the row that exists does not change.
    apply(store, node, &with_letters([&letter], step(run, 4))).await;
    let rows = listed_letters(&stores, DeadLetterFilter::default()).await;
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].status, DeadLetterStatus::Queued);
}

pub async fn a_letter_with_a_nul_is_refused_with_its_item(stores: Stores) {
    let store = &*stores.runs;
    let node = member(store).await;
    let run = owned_run(store, node).await;
    let mut letter = dead_letter(run, 1);
    letter.target = "a\0b".to_owned();
    let refused = store.commit(node, &[with_letters([&letter], step(run, 2))]).await;
    assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
    assert!(listed_letters(&stores, DeadLetterFilter::default()).await.is_empty());
    apply(store, node, &step(run, 2)).await;
}
