//! Queues, discards and retention of dead letters.

use everstep_core::dead_letter::DeadLetterStatus;
use everstep_store::{ChangedLetters, DeadLetterFilter, DeadLetterRetention, Error, Stores};

use crate::contract::fixtures::*;

pub async fn only_dead_letters_are_queued_and_discarded(stores: Stores) {
    let node = member(&*stores.runs).await;
    let letters = written_letters(&*stores.runs, node, &[1, 2, 3]).await;
    let store = &*stores.dead_letters;
    queued(store, letters[0].id, 5).await;
    let (of, none) = (|index: usize| DeadLetterFilter::by_id(letters[index].id), ChangedLetters::default());
    let discarded = store.discard_letters(HERE, &of(1), Some("not needed"), at(6), 1).await.unwrap();
    assert_eq!(discarded, ChangedLetters { count: 1, last: Some(letters[1].id) });
    for index in [0, 1] {
        assert_eq!(store.queue_letters(HERE, &of(index), at(7), 1).await.unwrap(), none);
        assert_eq!(store.discard_letters(HERE, &of(index), None, at(7), 1).await.unwrap(), none);
    }
    assert_eq!(store.queue_letters(new_workspace(), &of(2), at(7), 1).await.unwrap(), none);
    let refused = store.discard_letters(HERE, &of(2), Some("a\0b"), at(7), 1).await;
    assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
    let row = letter_row(store, letters[0].id).await;
    assert_eq!((row.status, row.changed_at), (DeadLetterStatus::Queued, at(5)));
    let row = letter_row(store, letters[1].id).await;
    assert_eq!((row.status, row.changed_at), (DeadLetterStatus::Discarded, at(6)));
    assert_eq!(row.reason.as_deref(), Some("not needed"));
    assert_eq!(letter_row(store, letters[2].id).await.status, DeadLetterStatus::Dead);
}

pub async fn many_letters_are_queued_at_once_up_to_a_limit(stores: Stores) {
    let node = member(&*stores.runs).await;
    let letters = written_letters(&*stores.runs, node, &[1, 2, 3, 4]).await;
    let store = &*stores.dead_letters;
    let filter = DeadLetterFilter { kind: Some("webhook".to_owned()), ..DeadLetterFilter::default() };
    let queued = store.queue_letters(HERE, &filter, at(5), 3).await.unwrap();
    assert_eq!(queued, ChangedLetters { count: 3, last: Some(letters[2].id) });
    assert_eq!(letter_row(store, letters[3].id).await.status, DeadLetterStatus::Dead);
    let delivered = DeadLetterFilter { status: Some(DeadLetterStatus::Delivered), ..filter.clone() };
    assert_eq!(store.queue_letters(HERE, &delivered, at(5), 3).await.unwrap(), ChangedLetters::default());
    let discarded = store.discard_letters(HERE, &filter, None, at(5), 10).await.unwrap();
    assert_eq!(discarded, ChangedLetters { count: 1, last: Some(letters[3].id) });
}

/// A letter that fails again between two calls is dead again, and older than those of the second call.
pub async fn a_call_continues_after_the_last_letter_of_another(stores: Stores) {
    let node = member(&*stores.runs).await;
    let letters = written_letters(&*stores.runs, node, &[1, 2, 3, 4]).await;
    let store = &*stores.dead_letters;
    for run in [None, letters[0].run] {
        let all = DeadLetterFilter { run, ..DeadLetterFilter::default() };
        let first = store.queue_letters(HERE, &all, at(5), 2).await.unwrap();
        assert_eq!(first, ChangedLetters { count: 2, last: Some(letters[1].id) });
        assert_eq!(store.take_letters(node, &claim_letters(2)).await.unwrap().letters.len(), 2);
        let failed = [performed(&letters[0], false, 6), performed(&letters[1], false, 6)];
        store.settle_letters(node, &failed).await.unwrap();
        let rest = DeadLetterFilter { after: first.last, ..all };
        assert_eq!(store.count_letters(HERE, &rest, 10).await.unwrap(), 2);
        let second = store.queue_letters(HERE, &rest, at(7), 10).await.unwrap();
        assert_eq!(second, ChangedLetters { count: 2, last: Some(letters[3].id) });
        assert_eq!(letter_row(store, letters[0].id).await.status, DeadLetterStatus::Dead);
        assert_eq!(store.take_letters(node, &claim_letters(2)).await.unwrap().letters.len(), 2);
        let failed = [performed(&letters[2], false, 8), performed(&letters[3], false, 8)];
        store.settle_letters(node, &failed).await.unwrap();
    }
}

pub async fn letters_of_a_run_are_queued_and_discarded(stores: Stores) {
    let node = member(&*stores.runs).await;
    let letters = written_letters(&*stores.runs, node, &[1, 2]).await;
    let others = written_letters(&*stores.runs, node, &[1, 2]).await;
    let store = &*stores.dead_letters;
    let of_run = DeadLetterFilter { run: letters[0].run, ..DeadLetterFilter::default() };
    assert_eq!(store.count_letters(HERE, &of_run, 10).await.unwrap(), 2);
    let queued = store.queue_letters(HERE, &of_run, at(5), 1).await.unwrap();
    assert_eq!(queued, ChangedLetters { count: 1, last: Some(letters[0].id) });
    let discarded = store.discard_letters(HERE, &of_run, Some("old"), at(6), 10).await.unwrap();
    assert_eq!(discarded, ChangedLetters { count: 1, last: Some(letters[1].id) });
    assert_eq!(letter_row(store, letters[1].id).await.reason.as_deref(), Some("old"));
    assert_eq!(store.count_letters(HERE, &of_run, 10).await.unwrap(), 0);
    for other in &others {
        assert_eq!(letter_row(store, other.id).await.status, DeadLetterStatus::Dead);
    }
}

pub async fn parallel_calls_queue_a_letter_once(stores: Stores) {
    let node = member(&*stores.runs).await;
    let letters = written_letters(&*stores.runs, node, &[1]).await;
    let calls = (0..8).map(|_| {
        let (store, id) = (stores.dead_letters.clone(), letters[0].id);
        tokio::spawn(
            async move { store.queue_letters(HERE, &DeadLetterFilter::by_id(id), at(5), 1).await.unwrap().count },
        )
    });
    let mut queued = 0;
    for call in calls.collect::<Vec<_>>() {
        queued += call.await.unwrap();
    }
    assert_eq!(queued, 1);
}

pub async fn old_letters_are_deleted_and_queued_ones_are_kept(stores: Stores) {
    let node = member(&*stores.runs).await;
    let letters = written_letters(&*stores.runs, node, &[1, 2, 3, 4, 5]).await;
    let store = &*stores.dead_letters;
    queued(store, letters[0].id, 6).await;
    queued(store, letters[1].id, 6).await;
    store.discard_letters(HERE, &DeadLetterFilter::by_id(letters[2].id), None, at(7), 1).await.unwrap();
    store.take_letters(node, &claim_letters(2)).await.unwrap();
    store.settle_letters(node, &[performed(&letters[1], true, 7)]).await.unwrap();
    let swept = async |dead, settled, limit| {
        let retention = DeadLetterRetention { dead_before: at(dead), settled_before: at(settled) };
        store.sweep_letters(retention, limit).await.unwrap()
    };
    assert_eq!(swept(4, 7, 10).await, 0, "the status changed later");
    assert_eq!(swept(0, 8, 10).await, 2, "the delivered and the discarded one");
    assert_eq!(swept(100, 100, 1).await, 1);
    assert_eq!(swept(100, 100, 10).await, 1);
    assert_eq!(swept(100, 100, 10).await, 0);
    let left = listed_letters(&stores, DeadLetterFilter::default()).await;
    assert_eq!(left.iter().map(|row| row.letter.id).collect::<Vec<_>>(), [letters[0].id]);
}

/// The retention of dead letters is their own.
pub async fn a_letter_outlives_its_run(stores: Stores) {
    let store = &*stores.runs;
    let node = member(store).await;
    let run = owned_run(store, node).await;
    let letter = dead_letter(run, 1);
    apply(store, node, &with_letters([&letter], end(run, 2, at(2)))).await;
    assert_eq!(store.sweep(much_later(), 10).await.unwrap(), 1);
    assert_eq!(store.get_run(HERE, run).await.unwrap(), None);
    assert_eq!(letter_row(&*stores.dead_letters, letter.id).await.letter, letter);
}
