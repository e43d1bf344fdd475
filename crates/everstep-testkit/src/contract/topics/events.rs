//! Events: published once, read, and deleted when they are old.

use std::sync::Arc;

use everstep_core::ids::SubscriptionId;
use everstep_core::payload::Payload;
use everstep_core::topics::TopicEvent;
use everstep_store::{
    EVENT_PAGE_BYTES, EventPage, EventQuery, EventRow, Item, ListedEvent, PublishOutcome, SideWrites, Stores,
    TopicStore, UnmatchedEvents,
};
use futures_util::future::join_all;
use serde_json::json;

use crate::contract::fixtures::*;

type Store = Arc<dyn TopicStore>;

pub async fn an_event_id_is_published_once(store: Store) {
    let first = TopicEvent { event_id: "e1".to_owned(), ..topic_event("order.paid", json!({"id": 7}), 0) };
    let row = published(&*store, &first).await;
    assert_eq!(row, EventRow::open(first.clone()));
    // The same call again, because its outcome was unknown.
    assert_eq!(
        store.publish(std::slice::from_ref(&first), UnmatchedEvents::Open).await.unwrap(),
        [PublishOutcome::Published]
    );
    let again = TopicEvent { event_id: "e1".to_owned(), ..topic_event("order.paid", json!({"id": 7}), 5) };
    let other = TopicEvent { data: Payload::from(json!({"id": 8})), ..again.clone() };
    let elsewhere = TopicEvent { source: "other".to_owned(), ..topic_event("order.paid", json!({"id": 7}), 5) };
    let new = topic_event("order.paid", json!({}), 6);
    // In one batch, also twice within it.
    let batch = [
        again.clone(),
        other,
        elsewhere.clone(),
        new.clone(),
        TopicEvent { event_id: new.event_id.clone(), ..topic_event("order.paid", json!({}), 7) },
    ];
    let outcomes = store.publish(&batch, UnmatchedEvents::Open).await.unwrap();
    assert_eq!(outcomes[0], PublishOutcome::Known(Box::new(row)));
    assert_eq!(outcomes[1], PublishOutcome::Reused(first.id));
    assert_eq!(outcomes[2..4], [PublishOutcome::Published, PublishOutcome::Published]);
    assert_eq!(outcomes[4], PublishOutcome::Known(Box::new(event_row(&*store, new.id).await)));
    assert_eq!(store.event(HERE, again.id).await.unwrap(), None);
    assert_eq!(store.event(new_workspace(), first.id).await.unwrap(), None);
    let elsewhere = TopicEvent { workspace: new_workspace(), ..first };
    assert_eq!(store.publish(&[elsewhere], UnmatchedEvents::Open).await.unwrap(), [PublishOutcome::Published]);
}

pub async fn parallel_publishers_of_one_id_publish_it_once(store: Store) {
    let events: Vec<_> = (0..20)
        .map(|n| TopicEvent { event_id: "once".to_owned(), ..topic_event("order.paid", json!({"id": 7}), n) })
        .collect();
    let outcomes =
        join_all(events.iter().map(|event| store.publish(std::slice::from_ref(event), UnmatchedEvents::Open))).await;
    let outcomes: Vec<_> = outcomes.into_iter().map(|outcome| outcome.unwrap().remove(0)).collect();
    let is_first = |outcome: &&PublishOutcome| **outcome == PublishOutcome::Published;
    assert_eq!(outcomes.iter().filter(is_first).count(), 1);
    let all = EventQuery { limit: 100, ..EventQuery::default() };
    let listed = store.list_events(HERE, &all).await.unwrap();
    assert_eq!(listed.len(), 1);
    let stored = event_row(&*store, listed[0].id).await;
    for outcome in outcomes.iter().filter(|outcome| !is_first(outcome)) {
        assert_eq!(*outcome, PublishOutcome::Known(Box::new(stored.clone())));
    }
}

pub async fn an_event_comes_back_as_it_was_published(store: Store) {
    let long = json!({"text": "ünïcode ✓ ".repeat(2_000), "nul": "a\u{0}b"});
    let event = TopicEvent {
        subject: Some("order ✓'\"".to_owned()),
        extensions: Some(Payload::from(json!({"traceparent": "00-1"}))),
        depth: 31,
        replay_of: Some((topic_event("a", json!(1), 0).id, SubscriptionId::new(at(0), 1))),
        ..topic_event("a.b/c:d-e_f", long, 0)
    };
    let row = published(&*store, &event).await;
    assert_eq!(row.event, event);
    let all = EventQuery { limit: 10, ..EventQuery::default() };
    assert_eq!(store.list_events(HERE, &all).await.unwrap(), [ListedEvent::from(row)]);
}

pub async fn events_are_listed_newest_first_in_pages(store: Store) {
    let mut events = Vec::new();
    for n in 0..6 {
        let topic = if n % 2 == 0 { "order.paid" } else { "order.sent" };
        let event = topic_event(topic, json!(n), n);
        published(&*store, &event).await;
        events.push(event.id);
    }
    events.reverse();
    let ids = |events: Vec<ListedEvent>| events.into_iter().map(|event| event.id).collect::<Vec<_>>();
    let query = EventQuery { limit: 4, ..EventQuery::default() };
    let page = ids(store.list_events(HERE, &query).await.unwrap());
    assert_eq!(page, events[..4]);
    published(&*store, &topic_event("order.paid", json!(9), 9)).await;
    let next = EventQuery { before: Some(page[3]), ..query.clone() };
    assert_eq!(ids(store.list_events(HERE, &next).await.unwrap()), events[4..]);
    let paid = EventQuery { topic: Some("order.sent".to_owned()), limit: 10, ..EventQuery::default() };
    assert_eq!(ids(store.list_events(HERE, &paid).await.unwrap()), [events[0], events[2], events[4]]);
    let range = EventQuery { since: Some(at(1)), until: Some(at(3)), limit: 10, ..EventQuery::default() };
    assert_eq!(ids(store.list_events(HERE, &range).await.unwrap()), [events[3], events[4]]);
    assert_eq!(store.list_events(new_workspace(), &query).await.unwrap(), []);
}

pub async fn a_wait_looks_back_over_the_events_of_its_topic(store: Store) {
    let mut events = Vec::new();
    for n in 0..5 {
        let event = topic_event("order.paid", json!(n), n);
        published(&*store, &event).await;
        published(&*store, &topic_event("order.sent", json!(n), n)).await;
        events.push(event);
    }
    let since = async |topic, at, after, limit| store.events_since(HERE, topic, at, after, limit).await.unwrap();
    let page = since("order.paid", at(1), None, 2).await;
    assert_eq!((&page.events[..], page.has_more), (&events[1..3], true));
    let rest = since("order.paid", at(1), Some(events[2].id), 10).await;
    assert_eq!((&rest.events[..], rest.has_more), (&events[3..], false));
    assert_eq!(since("order.lost", at(0), None, 10).await, EventPage::default());
    let count = async |topic, period, limit| store.count_events(HERE, topic, period, limit).await.unwrap();
    assert_eq!(count("order.paid", (at(1), at(4)), 10).await, 3);
    assert_eq!(count("order.paid", (at(0), at(9)), 4).await, 4);
    assert_eq!(count("order.lost", (at(0), at(9)), 10).await, 0);
    assert_eq!(store.count_events(new_workspace(), "order.paid", (at(0), at(9)), 10).await.unwrap(), 0);
}

pub async fn a_page_of_events_ends_at_a_number_of_bytes(store: Store) {
    // Compressed, all texts have fewer bytes than one of them; the numbers have more than a page.
    let texts = (0..5).map(|n| json!(n.to_string().repeat(EVENT_PAGE_BYTES * 2 / 3)));
    let mut state = 1_u64;
    let mut number = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state
    };
    let numbers = (0..5).map(|_| json!((0..40_000).map(|_| number()).collect::<Vec<_>>()));
    for (topic, data) in [("order.texts", texts.collect::<Vec<_>>()), ("order.numbers", numbers.collect())] {
        let mut events = Vec::new();
        for (n, data) in (0..).zip(data) {
            let event = topic_event(topic, data, n);
            published(&*store, &event).await;
            events.push(event);
        }
        let (mut after, mut found, mut has_more) = (None, Vec::new(), true);
        while has_more {
            let page = store.events_since(HERE, topic, at(0), after, 200).await.unwrap();
            // With the second event the size of a page is reached.
            assert!(page.events.len() <= 2, "{topic}: {} events", page.events.len());
            (after, has_more) = (page.events.last().map(|event| event.id), page.has_more);
            found.extend(page.events);
        }
        assert_eq!(found, events);
    }
}

pub async fn old_events_are_deleted_when_their_fan_out_is_done(stores: Stores) {
    let store = &*stores.topics;
    let node = member(&*stores.runs).await;
    let (old, open, young) =
        (topic_event("a", json!(1), 0), topic_event("a", json!(2), 0), topic_event("a", json!(3), 100));
    store.publish(&[old.clone(), open.clone(), young.clone()], UnmatchedEvents::Open).await.unwrap();
    for event in [&old, &young] {
        fan_out(store, node, &slice(event)).await;
    }
    assert_eq!(store.sweep_events(at(50), 10).await.unwrap(), 1);
    assert_eq!(store.event(HERE, old.id).await.unwrap(), None);
    assert_eq!(event_row(store, open.id).await.fanned_at, None);
    assert!(event_row(store, young.id).await.fanned_at.is_some());
    // Its id may be published again.
    let again = TopicEvent { event_id: old.event_id, ..topic_event("a", json!(9), 200) };
    published(store, &again).await;
}

pub async fn a_run_publishes_with_its_item_or_not_at_all(stores: Stores) {
    let (runs, store) = (&*stores.runs, &*stores.topics);
    let node = member(runs).await;
    let run = owned_run(runs, node).await;
    let event = Arc::new(TopicEvent { source: format!("run:{run}"), ..topic_event("order.paid", json!({"n": 1}), 0) });
    let with = |item: Item| {
        let side = SideWrites { published: vec![Arc::clone(&event)], ..SideWrites::default() };
        Item { side: Some(Box::new(side)), ..item }
    };
    // Another item has its seq: the event is not published.
    apply(runs, node, &step(run, 2)).await;
    let refused = runs.commit(node, &[with(step(run, 2))]).await.unwrap();
    assert_ne!(refused[0], applied());
    assert_eq!(store.event(HERE, event.id).await.unwrap(), None);
    let item = with(step(run, 4));
    apply(runs, node, &item).await;
    assert_eq!(event_row(store, event.id).await, EventRow::open(TopicEvent::clone(&event)));
    // The resent item, and a later one with the same event, publish nothing more.
    runs.commit(node, &[item]).await.unwrap();
    apply(runs, node, &with(step(run, 6))).await;
    let all = EventQuery { limit: 10, ..EventQuery::default() };
    assert_eq!(store.list_events(HERE, &all).await.unwrap().len(), 1);
}
