//! The fan-out: each slice is written once, whichever node sends it.

use everstep_core::failure::Failure;
use everstep_core::ids::{EventId, RunId};
use everstep_core::status::Status;
use everstep_core::topics::{FailedStart, Subscription, TopicEvent};
use everstep_store::{
    DeadLetterFilter, Error, EventResult, EventSlice, FanOutPosition, MatchCounts, SentInput, SliceOutcome, Stores,
    TopicStore, UnmatchedEvents,
};
use futures_util::future::join_all;
use serde_json::json;

use crate::contract::fixtures::*;

async fn results(store: &dyn TopicStore, event: EventId) -> Vec<EventResult> {
    store.event_results(HERE, event, None, 1_000).await.unwrap().results
}

/// A slice with a start for a subscription.
fn starting(event: &TopicEvent, subscription: &Subscription) -> (EventSlice, RunId) {
    let start = start_row(event, subscription, None);
    let run = start.run;
    let result = EventResult::Run { subscription: subscription.id, run };
    (EventSlice { starts: vec![start], results: vec![result], ..slice(event) }, run)
}

/// The runs that a slice has created.
fn created(outcome: SliceOutcome) -> Vec<RunId> {
    match outcome {
        SliceOutcome::Written { started, .. } => started,
        SliceOutcome::Stale => Vec::new(),
    }
}

pub async fn a_slice_is_written_once(stores: Stores) {
    let store = &*stores.topics;
    let node = member(&*stores.runs).await;
    let event = topic_event("order.paid", json!({"id": 7}), 0);
    published(store, &event).await;
    let (one, two) = (subscription("order.*", 0), subscription("#", 1));
    let (mut first, run) = starting(&event, &one);
    first.next = Some(FanOutPosition::Subscriptions(Some(one.id)));
    let waiting = owned_run(&*stores.runs, node).await;
    let written = fan_out(store, node, &first).await;
    assert_eq!(written, SliceOutcome::Written { started: vec![run], sent: vec![] });
    let row = row(&*stores.runs, run).await;
    assert_eq!((row.status, row.owner, row.wake_at, row.format, row.seq), (Status::Pending, None, at(1), 3, 0));
    assert_eq!((row.input, row.trigger), (event.data.clone(), first.starts[0].new.trigger.clone()));
    // The same slice again, and another one from the same position.
    assert_eq!(fan_out(store, node, &first).await, SliceOutcome::Stale);
    let (late, late_run) = starting(&event, &two);
    assert_eq!(fan_out(store, node, &late).await, SliceOutcome::Stale);
    assert_eq!(stores.runs.get_run(HERE, late_run).await.unwrap(), None);
    // The next slice ends the fan-out.
    let (mut last, last_run) = starting(&event, &two);
    last.seen = first.next.clone().unwrap();
    last.starts[0].owner = Some(node);
    last.inputs = vec![event_input(waiting)];
    last.results.push(EventResult::Wait { run: waiting, step: "s".into() });
    let SliceOutcome::Written { started, sent } = fan_out(store, node, &last).await else { panic!("it is not stale") };
    assert_eq!(started, [last_run]);
    assert!(matches!(sent[..], [SentInput { id: Some(_), owner: Some(owner) }] if owner == node));
    assert_eq!(stores.runs.arrivals(waiting).await.unwrap().len(), 1);
    assert!(stores.runs.owned_runs(node).await.unwrap().contains(&last_run));
    let row = event_row(store, event.id).await;
    assert_eq!(
        (row.fanned_at, row.matched),
        (Some(at(1)), MatchCounts { workflows: 2, waits: 1, ..MatchCounts::default() })
    );
    assert_eq!(results(store, event.id).await, [first.results, last.results.clone()].concat());
    // Nothing follows the end.
    assert_eq!(fan_out(store, node, &last).await, SliceOutcome::Stale);
    assert_eq!(store.event_results(new_workspace(), event.id, None, 10).await.unwrap().results, []);
}

pub async fn a_stale_cursor_writes_nothing(stores: Stores) {
    let store = &*stores.topics;
    let node = member(&*stores.runs).await;
    let event = topic_event("order.paid", json!({}), 0);
    published(store, &event).await;
    let subscriptions: Vec<_> = (0..10).map(|n| subscription("#", n)).collect();
    let slices: Vec<_> = subscriptions.iter().map(|subscription| starting(&event, subscription)).collect();
    // Ten nodes send a slice from the same position: one of them is written.
    let outcomes = join_all(slices.iter().map(|(slice, _)| fan_out(store, node, slice))).await;
    let written: Vec<_> = (0..10).filter(|index| outcomes[*index] != SliceOutcome::Stale).collect();
    assert_eq!(written.len(), 1);
    for (index, (_, run)) in slices.iter().enumerate() {
        let exists = stores.runs.get_run(HERE, *run).await.unwrap().is_some();
        assert_eq!(exists, written.contains(&index), "slice {index}");
    }
    assert_eq!(event_row(store, event.id).await.matched.workflows, 1);
    assert_eq!(results(store, event.id).await.len(), 1);
}

pub async fn slices_of_several_events_are_independent(stores: Stores) {
    let store = &*stores.topics;
    let node = member(&*stores.runs).await;
    let events: Vec<_> = (0..4).map(|n| topic_event("order.paid", json!(n), n)).collect();
    store.publish(&events, UnmatchedEvents::Open).await.unwrap();
    fan_out(store, node, &slice(&events[1])).await;
    let subscription = subscription("#", 0);
    // In any order of their events.
    let mut slices: Vec<_> = events.iter().rev().map(|event| starting(event, &subscription)).collect();
    let waiting = owned_run(&*stores.runs, node).await;
    slices[0].0.inputs = vec![event_input(waiting)];
    let batch: Vec<_> = slices.iter().map(|(slice, _)| slice.clone()).collect();
    let outcomes = store.fan_out(node, &batch).await.unwrap();
    for (index, (outcome, (_, run))) in outcomes.iter().zip(&slices).enumerate() {
        match outcome {
            SliceOutcome::Stale => assert_eq!(index, 2),
            SliceOutcome::Written { started, sent } => {
                assert_eq!((started.as_slice(), sent.len()), (&[*run][..], usize::from(index == 0)));
            }
        }
    }
    assert_eq!(store.open_events(much_later(), None, 10).await.unwrap(), []);
    assert_eq!(store.fan_out(node, &[]).await.unwrap(), []);
}

pub async fn a_key_starts_one_run(stores: Stores) {
    let store = &*stores.topics;
    let node = member(&*stores.runs).await;
    let (event, subscription) = (topic_event("a", json!({}), 0), subscription("a", 0));
    published(store, &event).await;
    let (mut first, run) = starting(&event, &subscription);
    first.next = Some(FanOutPosition::Waits(None));
    fan_out(store, node, &first).await;
    // A second start of the same event and subscription is a second guard.
    let (mut again, _) = starting(&event, &subscription);
    again.seen = FanOutPosition::Waits(None);
    assert_eq!(fan_out(store, node, &again).await, SliceOutcome::Written { started: vec![], sent: vec![] });
    let key = subscription.start_key(event.id);
    assert_eq!(row(&*stores.runs, run).await.key, Some(key));
}

pub async fn a_result_names_the_run_that_has_the_key(stores: Stores) {
    let store = &*stores.topics;
    let node = member(&*stores.runs).await;
    let (here, there) = (subscription("a", 0), subscription("a", 1));
    let events: Vec<_> = (0..3).map(|n| topic_event("a", json!({ "n": n }), n)).collect();
    for event in &events {
        published(store, event).await;
    }
    let with_key = |event: &TopicEvent, key: &str| {
        let (mut slice, run) = starting(event, &here);
        slice.starts[0].new.key = Some(("w".to_owned(), key.to_owned()));
        (slice, run)
    };
    let (first, run) = with_key(&events[0], "k");
    assert_eq!(fan_out(store, node, &first).await, SliceOutcome::Written { started: vec![run], sent: vec![] });
    // Two slices in one call have the key of a run, and share a key that no run has.
    let (mut second, _) = with_key(&events[1], "k");
    let (mut third, _) = with_key(&events[2], "k");
    for (slice, event) in [(&mut second, &events[1]), (&mut third, &events[2])] {
        let mut start = start_row(event, &there, None);
        start.new.key = Some(("w".to_owned(), "other".to_owned()));
        slice.results.push(EventResult::Run { subscription: there.id, run: start.run });
        slice.starts.push(start);
    }
    let outcomes = store.fan_out(node, &[second.clone(), third.clone()]).await.unwrap();
    let mut started: Vec<_> = outcomes.into_iter().flat_map(created).collect();
    assert_eq!(started.len(), 1, "{started:?}");
    let winner = started.remove(0);
    assert!([&second, &third].iter().any(|slice| slice.starts[1].run == winner));
    let expected =
        [EventResult::Run { subscription: here.id, run }, EventResult::Run { subscription: there.id, run: winner }];
    for event in &events[1..] {
        assert_eq!(results(store, event.id).await, expected);
        assert_eq!(store.event(HERE, event.id).await.unwrap().unwrap().matched.workflows, 2);
    }
    assert_eq!(results(store, events[0].id).await, expected[..1]);
}

pub async fn fan_out_rows_of_ended_runs_are_dropped(stores: Stores) {
    let store = &*stores.topics;
    let node = member(&*stores.runs).await;
    let (live, over) = (owned_run(&*stores.runs, node).await, owned_run(&*stores.runs, node).await);
    apply(&*stores.runs, node, &end(over, 2, at(1))).await;
    let event = topic_event("a", json!({}), 0);
    published(store, &event).await;
    let inputs = vec![event_input(over), event_input(live), event_input(new_run())];
    let outcome = fan_out(store, node, &EventSlice { inputs, ..slice(&event) }).await;
    let SliceOutcome::Written { sent, .. } = outcome else { panic!("it is not stale") };
    assert_eq!(sent.iter().map(|sent| sent.id.is_some()).collect::<Vec<_>>(), [false, true, false]);
    assert_eq!(stores.runs.arrivals(over).await.unwrap(), []);
    assert_eq!(stores.runs.arrivals(live).await.unwrap().len(), 1);
}

pub async fn only_members_fan_out(stores: Stores) {
    let store = &*stores.topics;
    let node = member(&*stores.runs).await;
    let (event, subscription) = (topic_event("a", json!({}), 0), subscription("a", 0));
    published(store, &event).await;
    let (slice, run) = starting(&event, &subscription);
    fence(&*stores.runs, node).await;
    for stranger in [node, new_node()] {
        assert!(matches!(store.fan_out(stranger, std::slice::from_ref(&slice)).await, Err(Error::Fenced(_))));
    }
    assert_eq!(stores.runs.get_run(HERE, run).await.unwrap(), None);
    assert_eq!(event_row(store, event.id).await.position, FanOutPosition::default());
}

pub async fn open_events_are_found_oldest_first(stores: Stores) {
    let store = &*stores.topics;
    let node = member(&*stores.runs).await;
    let mut events: Vec<_> = (0..4).map(|n| topic_event("a", json!(n), n)).collect();
    events[2].workspace = new_workspace();
    store.publish(&events, UnmatchedEvents::Open).await.unwrap();
    fan_out(store, node, &slice(&events[1])).await;
    let ids = |rows: Vec<everstep_store::EventRow>| rows.into_iter().map(|row| row.event.id).collect::<Vec<_>>();
    let open = ids(store.open_events(much_later(), None, 10).await.unwrap());
    assert_eq!(open, [events[0].id, events[2].id, events[3].id]);
    assert_eq!(ids(store.open_events(at(3), None, 10).await.unwrap()), [events[0].id, events[2].id]);
    assert_eq!(ids(store.open_events(much_later(), Some(open[0]), 1).await.unwrap()), [events[2].id]);
    assert_eq!(store.count_open_events().await.unwrap(), 3);
}

pub async fn results_are_read_in_pages(stores: Stores) {
    let store = &*stores.topics;
    let node = member(&*stores.runs).await;
    let event = topic_event("a", json!({}), 0);
    published(store, &event).await;
    let mut seen = FanOutPosition::default();
    let mut expected = Vec::new();
    for n in 0..5 {
        let subscription = subscription("a", n);
        let next = (n < 4).then_some(FanOutPosition::Subscriptions(Some(subscription.id)));
        let failed =
            EventResult::Failed { subscription: subscription.id, code: "NO".to_owned(), message: "ü ".repeat(3_000) };
        let results = vec![failed; 2];
        expected.extend(results.clone());
        let slice = EventSlice { seen: seen.clone(), next: next.clone(), results, ..slice(&event) };
        assert_ne!(fan_out(store, node, &slice).await, SliceOutcome::Stale);
        seen = next.unwrap_or_default();
    }
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let page = store.event_results(HERE, event.id, after, 3).await.unwrap();
        found.extend(page.results);
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    assert_eq!(found, expected);
    assert_eq!(event_row(store, event.id).await.matched.failed, 10);
}

pub async fn a_slice_has_its_dead_letters_or_none(stores: Stores) {
    let node = member(&*stores.runs).await;
    let event = topic_event("orders", json!(1), 1);
    published(&*stores.topics, &event).await;
    let subscription = subscription("orders", 0);
    let failure = Failure::fatal("WORKFLOW_NOT_FOUND", "no workflow orders");
    let letter = FailedStart::dead_letter(&subscription, &event, &failure, at(1));
    let written = EventSlice { dead_letters: vec![letter.clone()], ..slice(&event) };
    assert!(matches!(fan_out(&*stores.topics, node, &written).await, SliceOutcome::Written { .. }));
    let late = FailedStart::dead_letter(&subscription, &event, &failure, at(2));
    let stale = EventSlice { dead_letters: vec![late], ..slice(&event) };
    assert_eq!(fan_out(&*stores.topics, node, &stale).await, SliceOutcome::Stale);
    let rows = listed_letters(&stores, DeadLetterFilter::default()).await;
    assert_eq!(rows.len(), 1);
    assert_eq!(letter_row(&*stores.dead_letters, letter.id).await.letter, letter);
}
