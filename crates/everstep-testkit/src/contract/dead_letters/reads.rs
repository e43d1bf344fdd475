//! Lists and counts of dead letters.

use everstep_core::dead_letter::{DeadLetter, DeadLetterSource, DeadLetterStatus};
use everstep_core::ids::{EventId, SubscriptionId};
use everstep_core::payload::Payload;
use everstep_store::{DeadLetterFilter, DeadLetterQuery, Stores};
use serde_json::json;

use crate::contract::fixtures::*;

pub async fn letters_are_listed_newest_first_in_pages(stores: Stores) {
    let node = member(&*stores.runs).await;
    let letters = written_letters(&*stores.runs, node, &[1, 2, 3, 4, 5]).await;
    let mut before = None;
    let mut found = Vec::new();
    loop {
        let query = DeadLetterQuery { filter: DeadLetterFilter::default(), before, limit: 2 };
        let page = stores.dead_letters.list_letters(HERE, &query).await.unwrap();
        // Configs are left out.
        assert!(page.iter().all(|row| row.letter.config == Payload::null() && row.letter.written.is_none()));
        assert!(page.iter().all(|row| row.letter.attempts.len() == 3));
        let Some(last) = page.last() else { break };
        before = Some(last.letter.id);
        found.extend(page.into_iter().map(|row| row.letter.id));
    }
    let expected: Vec<_> = letters.iter().rev().map(|letter| letter.id).collect();
    assert_eq!(found, expected);
    let all = DeadLetterQuery { limit: 9, ..DeadLetterQuery::default() };
    assert!(stores.dead_letters.list_letters(new_workspace(), &all).await.unwrap().is_empty());
    assert_eq!(stores.dead_letters.letter(new_workspace(), letters[0].id).await.unwrap(), None);
}

pub async fn letters_are_filtered(stores: Stores) {
    let store = &*stores.runs;
    let node = member(store).await;
    let first = written_letters(store, node, &[1, 2]).await;
    let run = owned_run(store, node).await;
    let mut other = dead_letter(run, 3);
    other.source = DeadLetterSource::Start;
    other.kind = "workflow".to_owned();
    other.workflow = Some("invoices".to_owned());
    other.event = Some(EventId::new(at(3), 1));
    other.subscription = Some(SubscriptionId::new(at(3), 2));
    other.attempts.iter_mut().for_each(|attempt| attempt.code = "WORKFLOW_NOT_FOUND".to_owned());
    apply(store, node, &with_letters([&other], step(run, 2))).await;
    queued(&*stores.dead_letters, first[0].id, 9).await;
    assert_eq!(letter_row(&*stores.dead_letters, other.id).await.letter, other);

    let all = DeadLetterFilter::default;
    let cases: Vec<(DeadLetterFilter, Vec<&DeadLetter>)> = vec![
        (all(), vec![&other, &first[1], &first[0]]),
        (DeadLetterFilter::by_id(first[1].id), vec![&first[1]]),
        (DeadLetterFilter { status: Some(DeadLetterStatus::Queued), ..all() }, vec![&first[0]]),
        (DeadLetterFilter { status: Some(DeadLetterStatus::Dead), ..all() }, vec![&other, &first[1]]),
        (DeadLetterFilter { source: Some(DeadLetterSource::Start), ..all() }, vec![&other]),
        (DeadLetterFilter { kind: Some("webhook".to_owned()), ..all() }, vec![&first[1], &first[0]]),
        (DeadLetterFilter { workflow: Some("invoices".to_owned()), ..all() }, vec![&other]),
        (DeadLetterFilter { run: Some(run), ..all() }, vec![&other]),
        (DeadLetterFilter { run: Some(run), status: Some(DeadLetterStatus::Queued), ..all() }, vec![]),
        (DeadLetterFilter { error: Some("HTTP_STATUS".to_owned()), ..all() }, vec![&first[1], &first[0]]),
        (DeadLetterFilter { since: Some(at(2)), ..all() }, vec![&other, &first[1]]),
        (DeadLetterFilter { until: Some(at(2)), ..all() }, vec![&first[0]]),
        (DeadLetterFilter { kind: Some("a\0b".to_owned()), ..all() }, vec![]),
    ];
    for (filter, expected) in cases {
        let found: Vec<_> = listed_letters(&stores, filter.clone()).await.iter().map(|row| row.letter.id).collect();
        assert_eq!(found, expected.iter().map(|letter| letter.id).collect::<Vec<_>>(), "{filter:?}");
        let is_dead = |letter: &&&DeadLetter| letter.id != first[0].id;
        let dead = expected.iter().filter(is_dead).count();
        let counted = stores.dead_letters.count_letters(HERE, &filter, 100).await.unwrap();
        assert_eq!(counted, dead as u64, "{filter:?}");
    }
    assert_eq!(stores.dead_letters.count_letters(HERE, &all(), 1).await.unwrap(), 1);
    let mut counts = stores.dead_letters.count_dead_letters().await.unwrap();
    counts.sort();
    assert_eq!(counts, [(DeadLetterSource::Delivery, 1), (DeadLetterSource::Start, 1)]);
}

pub async fn configs_of_any_length_and_content_come_back(stores: Stores) {
    let store = &*stores.runs;
    let node = member(store).await;
    let run = owned_run(store, node).await;
    let mut letter = dead_letter(run, 1);
    letter.config = Payload::from(json!({"text": "ä\u{0}\n".repeat(60_000)}));
    letter.written = None;
    letter.secrets = vec![];
    letter.run = None;
    letter.step = None;
    letter.workflow = None;
    letter.history = None;
    letter.attempts[0].message = "ä\u{0}\n".to_owned();
    apply(store, node, &with_letters([&letter], step(run, 2))).await;
    assert_eq!(letter_row(&*stores.dead_letters, letter.id).await.letter, letter);
}
