//! Subscriptions: found by the heads of a topic.

use std::sync::Arc;

use everstep_core::payload::Payload;
use everstep_core::topics::{Filter, Pattern, Subscription, Target};
use everstep_store::{SubscriptionOutcome, SubscriptionQuery, TopicStore};
use futures_util::future::join_all;
use serde_json::json;

use crate::contract::fixtures::*;

type Store = Arc<dyn TopicStore>;

const QUOTA: usize = 10_000;

async fn added(store: &dyn TopicStore, subscription: &Subscription) {
    assert_eq!(store.add_subscription(subscription, QUOTA).await.unwrap(), SubscriptionOutcome::Added);
}

pub async fn a_subscription_comes_back_as_it_was_added(store: Store) {
    let filter = Filter::from_stored(&Payload::from(json!({"plan": "pro ✓", "$expr": "payload.n > 1"}))).unwrap();
    let subscription = Subscription {
        filter: Some(filter),
        input: Some(Payload::from(json!({"user": "{{payload.id}}"}))),
        target: Target::Workflow {
            name: "onboard".to_owned(),
            version: Some(3),
            retention_days: Some(9),
            key: Some("{{payload.id}}".to_owned()),
        },
        ..subscription("user.*.#", 0)
    };
    added(&*store, &subscription).await;
    let id = subscription.id;
    assert_eq!(store.subscription(HERE, id).await.unwrap().unwrap(), subscription);
    assert_eq!(store.subscription(new_workspace(), id).await.unwrap(), None);
    let changed =
        Subscription { pattern: Pattern::parse("order.paid").unwrap(), filter: None, input: None, ..subscription };
    assert!(store.change_subscription(&changed).await.unwrap());
    assert_eq!(store.subscription(HERE, id).await.unwrap().unwrap(), changed);
    assert_eq!(store.subscriptions_of(HERE, "order.paid", None, 10).await.unwrap(), std::slice::from_ref(&changed));
    assert_eq!(store.subscriptions_of(HERE, "user.a", None, 10).await.unwrap(), []);
    assert!(!store.change_subscription(&Subscription { workspace: new_workspace(), ..changed }).await.unwrap());
    assert!(!store.delete_subscription(new_workspace(), id).await.unwrap());
    assert!(store.delete_subscription(HERE, id).await.unwrap());
    assert!(!store.delete_subscription(HERE, id).await.unwrap());
    assert_eq!(store.subscription(HERE, id).await.unwrap(), None);
}

pub async fn a_paused_subscription_is_not_found_by_topics(store: Store) {
    let subscription = subscription("user.#", 0);
    added(&*store, &subscription).await;
    let paused = store.pause_subscription(HERE, subscription.id, Some(at(5))).await.unwrap().unwrap();
    assert_eq!(paused.paused_at, Some(at(5)));
    let again = store.pause_subscription(HERE, subscription.id, Some(at(9))).await.unwrap().unwrap();
    assert_eq!(again.paused_at, Some(at(5)), "it keeps the time at which it was paused");
    assert_eq!(store.subscriptions_of(HERE, "user.a", None, 10).await.unwrap(), []);
    let resumed = store.pause_subscription(HERE, subscription.id, None).await.unwrap().unwrap();
    assert_eq!(resumed, subscription);
    assert_eq!(store.subscriptions_of(HERE, "user.a", None, 10).await.unwrap(), [resumed]);
    assert_eq!(store.pause_subscription(new_workspace(), subscription.id, None).await.unwrap(), None);
}

pub async fn subscriptions_are_found_by_the_heads_of_a_topic(store: Store) {
    let patterns = ["#", "*", "a", "a.*", "a.#", "a.b", "a.b.#", "a.*.c", "b", "a.b.c", "#.c", "ab"];
    let mut subscriptions = Vec::new();
    for (pattern, seconds) in patterns.iter().zip(0..) {
        let subscription = subscription(pattern, seconds);
        added(&*store, &subscription).await;
        subscriptions.push(subscription);
    }
    added(&*store, &Subscription { workspace: new_workspace(), ..subscription("a", 99) }).await;
    for topic in ["a", "a.b", "a.b.c", "b.c", "ab", "z"] {
        let mut found = Vec::new();
        let mut after = None;
        loop {
            let page = store.subscriptions_of(HERE, topic, after, 2).await.unwrap();
            let Some(last) = page.last() else { break };
            after = Some(last.id);
            found.extend(page);
        }
        let matching = |list: &[Subscription]| {
            list.iter().filter(|one| one.pattern.matches(topic)).map(|one| one.id).collect::<Vec<_>>()
        };
        assert_eq!(matching(&found), matching(&subscriptions), "{topic}");
        assert!(found.is_sorted_by_key(|subscription| subscription.id));
    }
}

pub async fn subscriptions_are_listed_by_id_in_pages(store: Store) {
    let mut ids = Vec::new();
    for seconds in 0..5 {
        let subscription = subscription(if seconds % 2 == 0 { "a.*" } else { "a.b" }, seconds);
        added(&*store, &subscription).await;
        ids.push(subscription.id);
    }
    let list = |query: SubscriptionQuery| {
        let store = Arc::clone(&store);
        async move {
            let found = store.list_subscriptions(HERE, &query).await.unwrap();
            found.into_iter().map(|subscription| subscription.id).collect::<Vec<_>>()
        }
    };
    let query = SubscriptionQuery { limit: 3, ..SubscriptionQuery::default() };
    assert_eq!(list(query.clone()).await, ids[..3]);
    assert_eq!(list(SubscriptionQuery { after: Some(ids[2]), ..query.clone() }).await, ids[3..]);
    let pattern = Some(Pattern::parse("a.*").unwrap());
    assert_eq!(list(SubscriptionQuery { pattern, ..query }).await, [ids[0], ids[2], ids[4]]);
}

pub async fn a_workspace_has_a_number_of_subscriptions(store: Store) {
    let all: Vec<_> = (0..12).map(|seconds| subscription("a", seconds)).collect();
    let outcomes = join_all(all.iter().map(|subscription| store.add_subscription(subscription, 5))).await;
    let added = outcomes.iter().filter(|outcome| matches!(outcome, Ok(SubscriptionOutcome::Added))).count();
    assert_eq!(added, 5);
    let refused = store.add_subscription(&all[11], 5).await.unwrap();
    assert_eq!(refused, SubscriptionOutcome::QuotaReached(5));
    let elsewhere = Subscription { workspace: new_workspace(), ..subscription("a", 20) };
    assert_eq!(store.add_subscription(&elsewhere, 5).await.unwrap(), SubscriptionOutcome::Added);
}
