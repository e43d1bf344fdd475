//! Waits: found by an event without reading all of them.

use everstep_core::contains;
use everstep_core::ids::{NodeId, RunId};
use everstep_core::payload::Payload;
use everstep_store::{Item, RunStore, Stores, Wait, WaitChange};
use serde_json::{Value, json};

use crate::contract::fixtures::*;

/// A run with an open wait.
async fn waiting(store: &dyn RunStore, node: NodeId, wait: Wait) -> RunId {
    let run = owned_run(store, node).await;
    apply(store, node, &Item { waits: vec![WaitChange::Open(wait)], ..step(run, 2) }).await;
    run
}

pub async fn waits_are_found_by_their_shape(stores: Stores) {
    let node = member(&*stores.runs).await;
    let patterns = [
        json!({}),
        json!({"id": 7}),
        json!({"id": 8}),
        json!({"id": "7"}),
        json!({"customer": {"id": 7}}),
        json!({"id": 7, "customer": {"plan": "pro"}}),
        json!({"tags": ["b"]}),
        json!({"id": 7, "tags": ["x"]}),
        json!({"empty": {}}),
        json!({"missing": null}),
        json!({"nothing": null}),
        json!([1]),
        json!(5),
    ];
    let mut runs = Vec::new();
    for pattern in &patterns {
        runs.push(waiting(&*stores.runs, node, wait_for("s", "order.paid", pattern.clone())).await);
        waiting(&*stores.runs, node, wait_for("s", "order.sent", pattern.clone())).await;
    }
    // A wait that does not name an event is for signals.
    let signal = Wait { by_topic: false, ..wait_for("s", "order.paid", json!({})) };
    waiting(&*stores.runs, node, signal).await;
    let documents = [
        json!({"id": 7, "customer": {"id": 7, "plan": "pro"}, "tags": ["a", "b"], "empty": {"x": 1}, "nothing": null}),
        json!({"id": 7.0}),
        json!({"id": 8}),
        json!({}),
        json!([1, 2]),
        json!(5.0),
        json!("text"),
    ];
    for data in documents {
        let event = topic_event("order.paid", data, 0);
        let expected = || {
            let matching = patterns
                .iter()
                .zip(&runs)
                .filter(|(pattern, _)| contains::matches(&event.data, &Payload::from((*pattern).clone())));
            let mut expected: Vec<_> = matching.map(|(_, run)| (*run, "s".to_owned())).collect();
            expected.sort();
            expected
        };
        for limit in [1, 2, 500] {
            assert_eq!(all_waits(&*stores.topics, &event, limit).await, expected(), "{}", event.data.json());
        }
    }
    let elsewhere = everstep_core::topics::TopicEvent {
        workspace: new_workspace(),
        ..topic_event("order.paid", json!({"id": 7}), 0)
    };
    assert_eq!(all_waits(&*stores.topics, &elsewhere, 10).await, []);
}

pub async fn numbers_that_are_equal_have_one_hash(stores: Stores) {
    let node = member(&*stores.runs).await;
    let big = 9_007_199_254_740_993_u64;
    for (pattern, data, is_match) in [
        (json!(1), json!(1.0), true),
        (json!(1.0), json!(1), true),
        (json!(0), json!(-0.0), true),
        (json!(-3), json!(-3.0), true),
        (json!(big), json!(big), true),
        (json!(big), json!(big - 1), false),
        (json!(big - 1), json!(9_007_199_254_740_992.0), true),
        (json!(1), json!("1"), false),
    ] {
        let topic = format!("n{}", new_run().uuid().simple());
        let run = waiting(&*stores.runs, node, wait_for("s", &topic, json!({"n": pattern.clone()}))).await;
        let event = topic_event(&topic, json!({"n": data.clone()}), 0);
        let expected: Vec<_> = is_match.then(|| (run, "s".to_owned())).into_iter().collect();
        assert_eq!(all_waits(&*stores.topics, &event, 10).await, expected, "{pattern} and {data}");
    }
}

pub async fn closed_waits_are_not_found_by_an_event(stores: Stores) {
    let node = member(&*stores.runs).await;
    let run = waiting(&*stores.runs, node, wait_for("s", "a", json!({"id": 7}))).await;
    let event = topic_event("a", json!({"id": 7}), 0);
    assert_eq!(all_waits(&*stores.topics, &event, 10).await, [(run, "s".to_owned())]);
    apply(&*stores.runs, node, &Item { waits: vec![WaitChange::Close("s".into())], ..step(run, 4) }).await;
    assert_eq!(all_waits(&*stores.topics, &event, 10).await, []);
}

pub async fn waits_with_very_many_shapes_are_read_by_pages(stores: Stores) {
    let node = member(&*stores.runs).await;
    let run = owned_run(&*stores.runs, node).await;
    // Two waits with different values for each shape: a page may end between them.
    let open = |n: usize| {
        ["1", "2"].map(|value| {
            let pattern = json!({format!("f{n}"): value});
            WaitChange::Open(wait_for(&format!("s{n}-{value}"), "a", pattern))
        })
    };
    apply(&*stores.runs, node, &Item { waits: (0..300).flat_map(open).collect(), ..step(run, 2) }).await;
    let data: Value =
        (0..300).step_by(7).map(|n| (format!("f{n}"), json!("1"))).collect::<serde_json::Map<_, _>>().into();
    let event = topic_event("a", data, 0);
    let mut expected: Vec<_> = (0..300).step_by(7).map(|n| (run, format!("s{n}-1"))).collect();
    expected.sort();
    for limit in [1, 40, 1_000] {
        assert_eq!(all_waits(&*stores.topics, &event, limit).await, expected);
    }
}

pub async fn waits_of_an_earlier_release_are_candidates(fresh: (Stores, Tables)) {
    let (stores, tables) = fresh;
    let node = member(&*stores.runs).await;
    let mut runs = Vec::new();
    for n in 0..5 {
        let pattern = json!({"id": if n == 3 { 8 } else { 7 }});
        runs.push(waiting(&*stores.runs, node, wait_for("s", "a", pattern)).await);
    }
    tables.forget_hashes(&runs[..4]).await;
    let event = topic_event("a", json!({"id": 7}), 0);
    let mut expected: Vec<_> = [0, 1, 2, 4].map(|index| (runs[index], "s".to_owned())).into();
    expected.sort();
    for limit in [1, 2, 3, 100] {
        assert_eq!(all_waits(&*stores.topics, &event, limit).await, expected);
    }
}
