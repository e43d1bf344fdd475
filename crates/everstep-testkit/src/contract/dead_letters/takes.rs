//! Dead letters and notices that nodes take.

use std::collections::BTreeSet;

use everstep_core::dead_letter::{DeadLetter, DeadLetterStatus};
use everstep_core::ids::WorkspaceId;
use everstep_store::{
    DeadLetterClaim, DeadLetterFilter, DeadLetterOutcome, DeadLetterResult, Error, LetterTarget, Stores,
};

use crate::contract::fixtures::*;

pub async fn letters_are_taken_in_the_order_in_which_they_were_queued(stores: Stores) {
    let node = member(&*stores.runs).await;
    let letters = written_letters(&*stores.runs, node, &[1, 2, 3, 4]).await;
    let store = &*stores.dead_letters;
    assert_eq!(taken_ids(&store.take_letters(node, &claim_letters(9)).await.unwrap()), []);
    for (index, seconds) in [(2, 10), (0, 11), (3, 12)] {
        queued(store, letters[index].id, seconds).await;
    }
    let taken = store.take_letters(node, &claim_letters(2)).await.unwrap();
    assert_eq!(taken_ids(&taken), [letters[2].id, letters[0].id]);
    assert_eq!(taken.letters[0].letter, letters[2], "with its config");
    assert_eq!((taken.letters[0].taken_by, taken.letters[0].status), (Some(node), DeadLetterStatus::Queued));
    let held = DeadLetterClaim { held: taken_ids(&taken), ..claim_letters(9) };
    assert_eq!(taken_ids(&store.take_letters(node, &held).await.unwrap()), [letters[3].id]);
    let crowded = DeadLetterClaim { crowded: vec![HERE], ..claim_letters(9) };
    assert_eq!(taken_ids(&store.take_letters(node, &crowded).await.unwrap()), []);
    let crowded = DeadLetterClaim { crowded: vec![WorkspaceId::from_uuid(letters[0].id.uuid())], ..claim_letters(9) };
    assert_eq!(store.take_letters(node, &crowded).await.unwrap().letters.len(), 3);
}

pub async fn letters_of_a_crowded_target_are_left(stores: Stores) {
    let node = member(&*stores.runs).await;
    let store = &*stores.dead_letters;
    let mut letters = Vec::new();
    for (seconds, kind, target) in [
        (1, "webhook", "https://erp.example.com/hooks"),
        (2, "webhook", "https://erp.example.com"),
        (3, "webhook", "https://erp.example.com.other.org/hooks"),
        (4, "notify", "ann@example.com"),
        (5, "notify", "https://erp.example.com/hooks"),
        (6, "workflow", "order"),
        (7, "workflow", "order-2"),
        (8, "webhook", "https://erp.example.com\\hooks"),
    ] {
        let letter = dead_letter(new_run(), seconds);
        let letter = DeadLetter { kind: kind.to_owned(), target: target.to_owned(), ..letter };
        write_letter(&*stores.runs, node, &letter).await;
        queued(store, letter.id, 10 + seconds).await;
        letters.push(letter);
    }
    for (crowded, left) in
        [(0, vec![0, 1, 7]), (7, vec![0, 1, 7]), (2, vec![2]), (3, vec![3, 4]), (4, vec![4]), (5, vec![5])]
    {
        let crowded_targets = vec![LetterTarget::from_letter(&letters[crowded])];
        let claim = DeadLetterClaim { crowded_targets, ..claim_letters(9) };
        let taken = taken_ids(&store.take_letters(node, &claim).await.unwrap());
        let expected = (0..letters.len()).filter(|index| !left.contains(index)).map(|index| letters[index].id);
        assert_eq!(taken, expected.collect::<Vec<_>>(), "{:?}", claim.crowded_targets);
    }
    let elsewhere = LetterTarget { workspace: new_workspace(), ..LetterTarget::from_letter(&letters[0]) };
    let claim = DeadLetterClaim { crowded_targets: vec![elsewhere], ..claim_letters(9) };
    assert_eq!(store.take_letters(node, &claim).await.unwrap().letters.len(), letters.len());
}

pub async fn a_lost_reply_loses_no_letter(stores: Stores) {
    let node = member(&*stores.runs).await;
    let letters = written_letters(&*stores.runs, node, &[1, 2]).await;
    let store = &*stores.dead_letters;
    queued(store, letters[0].id, 5).await;
    queued(store, letters[1].id, 6).await;
    let first = store.take_letters(node, &claim_letters(2)).await.unwrap();
    // The node knows of one of them only.
    let held = DeadLetterClaim { held: vec![letters[0].id], ..claim_letters(2) };
    assert_eq!(taken_ids(&store.take_letters(node, &held).await.unwrap()), [letters[1].id]);
    let again = store.take_letters(node, &claim_letters(2)).await.unwrap();
    assert_eq!(taken_ids(&again), taken_ids(&first));
}

/// The reply to a result is lost, the letter is queued again, and the result is sent again: the later requeue stays.
pub async fn a_result_that_is_sent_again_ends_no_later_requeue(stores: Stores) {
    let node = member(&*stores.runs).await;
    let letter = written_letters(&*stores.runs, node, &[1]).await.remove(0);
    let store = &*stores.dead_letters;
    queued(store, letter.id, 5).await;
    assert_eq!(taken_ids(&store.take_letters(node, &claim_letters(5)).await.unwrap()), [letter.id]);
    let failed = [performed(&letter, false, 6)];
    store.settle_letters(node, &failed).await.unwrap();
    queued(store, letter.id, 7).await;
    let holding = DeadLetterClaim { held: vec![letter.id], ..claim_letters(5) };
    assert_eq!(taken_ids(&store.take_letters(node, &holding).await.unwrap()), []);
    store.settle_letters(node, &failed).await.unwrap();
    assert_eq!(letter_row(store, letter.id).await.status, DeadLetterStatus::Queued);
    assert_eq!(taken_ids(&store.take_letters(node, &claim_letters(5)).await.unwrap()), [letter.id]);
}

pub async fn two_nodes_never_take_one_letter(stores: Stores) {
    let (first, second) = (member(&*stores.runs).await, member(&*stores.runs).await);
    let seconds: Vec<_> = (1..=40).collect();
    let letters = written_letters(&*stores.runs, first, &seconds).await;
    let store = &stores.dead_letters;
    let all = DeadLetterFilter::default();
    assert_eq!(store.queue_letters(HERE, &all, at(50), 100).await.unwrap().count, 40);
    let takers = [first, second, first, second].map(|node| {
        let store = stores.dead_letters.clone();
        tokio::spawn(async move {
            let mut held = Vec::new();
            loop {
                let claim = DeadLetterClaim { held: held.clone(), ..claim_letters(3) };
                let taken = taken_ids(&store.take_letters(node, &claim).await.unwrap());
                if taken.is_empty() {
                    return (node, held);
                }
                held.extend(taken);
            }
        })
    });
    let (mut of_first, mut of_second) = (BTreeSet::new(), BTreeSet::new());
    for taker in takers {
        let (node, held) = taker.await.unwrap();
        // Two callers of one node may receive the same ones.
        if node == first { of_first.extend(held) } else { of_second.extend(held) }
    }
    assert!(of_first.is_disjoint(&of_second));
    assert_eq!(of_first.len() + of_second.len(), letters.len());
}

pub async fn a_fenced_node_s_letters_are_taken_by_another(stores: Stores) {
    let runs = &*stores.runs;
    let (first, second) = (member(runs).await, member(runs).await);
    let letters = written_letters(runs, first, &[1]).await;
    let store = &*stores.dead_letters;
    queued(store, letters[0].id, 5).await;
    let both = DeadLetterClaim { notices_max: 5, ..claim_letters(5) };
    let taken = store.take_letters(first, &both).await.unwrap();
    assert_eq!((taken.letters.len(), taken.notices.len()), (1, 1));
    let taken = store.take_letters(second, &both).await.unwrap();
    assert_eq!((taken.letters.len(), taken.notices.len()), (0, 0));
    fence(runs, first).await;
    assert!(matches!(store.take_letters(first, &both).await, Err(Error::Fenced(_))));
    let taken = store.take_letters(second, &both).await.unwrap();
    assert_eq!((taken.letters.len(), taken.notices.len()), (1, 1));
    assert_eq!(taken.letters[0].taken_by, Some(second));
    // The result of the fenced node changes nothing.
    let late = [performed(&letters[0], true, 8), notified(&letters[0], DeadLetterOutcome::Notified)];
    store.settle_letters(first, &late).await.unwrap();
    let row = letter_row(store, letters[0].id).await;
    assert_eq!((row.status, row.notified_at, row.letter.attempts.len()), (DeadLetterStatus::Queued, None, 3));
    store.settle_letters(second, &[performed(&letters[0], true, 9)]).await.unwrap();
    assert_eq!(letter_row(store, letters[0].id).await.status, DeadLetterStatus::Delivered);
}

pub async fn a_result_is_written_once(stores: Stores) {
    let node = member(&*stores.runs).await;
    let letters = written_letters(&*stores.runs, node, &[1, 2]).await;
    let store = &*stores.dead_letters;
    for letter in &letters {
        queued(store, letter.id, 5).await;
    }
    store.take_letters(node, &claim_letters(2)).await.unwrap();
    let results = [performed(&letters[0], true, 8), performed(&letters[1], false, 8)];
    store.settle_letters(node, &results).await.unwrap();
    let row = letter_row(store, letters[0].id).await;
    assert_eq!((row.status, row.changed_at, row.taken_by), (DeadLetterStatus::Delivered, at(8), None));
    assert!(row.letter.attempts[3].is_delivered());
    let row = letter_row(store, letters[1].id).await;
    assert_eq!((row.status, row.letter.attempts.len()), (DeadLetterStatus::Dead, 4));
    let by_error = DeadLetterFilter { error: Some("HTTP_ERROR".to_owned()), ..DeadLetterFilter::default() };
    assert_eq!(listed_letters(&stores, by_error).await.len(), 1);
    // It is queued again, and the result that is sent again does not belong to this requeue.
    queued(store, letters[1].id, 9).await;
    store.settle_letters(node, &results).await.unwrap();
    assert_eq!(letter_row(store, letters[1].id).await.status, DeadLetterStatus::Queued);
    store.settle_letters(node, &[]).await.unwrap();
}

pub async fn operators_are_notified_once(stores: Stores) {
    let node = member(&*stores.runs).await;
    let letters = written_letters(&*stores.runs, node, &[1, 2, 3]).await;
    let store = &*stores.dead_letters;
    let since = DeadLetterClaim { notices_since: at(2), ..claim_notices(9) };
    let taken = store.take_letters(node, &since).await.unwrap();
    let ids = |taken: &everstep_store::TakenLetters| taken.notices.iter().map(|row| row.letter.id).collect::<Vec<_>>();
    assert_eq!(ids(&taken), [letters[1].id, letters[2].id]);
    let held = DeadLetterClaim { held_notices: ids(&taken), ..claim_notices(9) };
    assert_eq!(ids(&store.take_letters(node, &held).await.unwrap()), [letters[0].id]);
    // A dead letter whose notice is being sent may be requeued.
    queued(store, letters[1].id, 5).await;
    assert_eq!(taken_ids(&store.take_letters(node, &claim_letters(5)).await.unwrap()), [letters[1].id]);
    let results =
        [notified(&letters[1], DeadLetterOutcome::Notified), notified(&letters[2], DeadLetterOutcome::NotNotified)];
    store.settle_letters(node, &results).await.unwrap();
    assert_eq!(letter_row(store, letters[1].id).await.notified_at, Some(at(9)));
    assert_eq!(letter_row(store, letters[1].id).await.taken_by, Some(node));
    assert_eq!(letter_row(store, letters[2].id).await.notified_at, None);
    assert_eq!(ids(&store.take_letters(node, &claim_notices(9)).await.unwrap()), [letters[0].id]);
}

fn notified(letter: &DeadLetter, outcome: DeadLetterOutcome) -> DeadLetterResult {
    DeadLetterResult { workspace: letter.workspace, id: letter.id, at: at(9), outcome }
}
