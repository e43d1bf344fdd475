//! Ops at the same time: none is lost, and none is applied twice.

use std::sync::Arc;

use everstep_core::records::Op;
use everstep_store::RecordStore;
use serde_json::json;
use tokio::task::JoinSet;

use crate::contract::fixtures::*;

type Store = Arc<dyn RecordStore>;

pub async fn fifty_parallel_creations_have_one_winner(store: Store) {
    let mut creations = JoinSet::new();
    for number in 0..50 {
        let store = Arc::clone(&store);
        let create = json!({"namespace": "n", "key": "k", "value": number, "if_revision": 0});
        let op = record_op("store.set", &create);
        creations.spawn(async move { apply_ops(&*store, 0, &[op]).await.remove(0) });
    }
    let outcomes = creations.join_all().await;
    let created = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    assert_eq!(created, 1);
    assert!(outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).all(|failure| failure.code == "CONFLICT"));
    assert_eq!(counts(&*store).await.changes, 1);
}

pub async fn parallel_increments_are_all_counted(store: Store) {
    let mut batches = JoinSet::new();
    for caller in 0..8 {
        let store = Arc::clone(&store);
        batches.spawn(async move {
            for batch in 0..5 {
                let key = |number: usize| format!("{caller}/{batch}/{number}");
                let ops: Vec<_> = (0..10).map(|number| keyed(increment("k"), &key(number))).collect();
                // Each batch is sent twice, as after a lost reply.
                for _ in 0..2 {
                    let outcomes = apply_ops(&*store, 0, &ops).await;
                    assert!(outcomes.iter().all(Result::is_ok));
                }
            }
        });
    }
    batches.join_all().await;
    assert_eq!((value(&*store, "k").await, counts(&*store).await.changes), (Some(json!(400)), 400));
}

pub async fn the_same_ops_at_the_same_time_are_applied_once(store: Store) {
    let ops: Vec<_> = (0..20).map(|number| keyed(increment("k"), &number.to_string())).collect();
    let mut copies = JoinSet::new();
    for copy in 0..6_usize {
        let (store, mut ops) = (Arc::clone(&store), ops.clone());
        ops.rotate_left(copy * 3);
        copies.spawn(async move {
            let outcomes = apply_ops(&*store, 0, &ops).await;
            let mut outputs: Vec<_> = ops.iter().map(|op| op.key.to_string()).zip(outcomes).collect();
            outputs.sort_by(|one, other| one.0.cmp(&other.0));
            outputs
        });
    }
    let outputs = copies.join_all().await;
    assert!(outputs.iter().all(|copy| *copy == outputs[0]), "all callers receive the same outputs");
    assert_eq!((value(&*store, "k").await, counts(&*store).await.changes), (Some(json!(20)), 20));
}

/// One op key in two namespaces: the answer to the second op depends on the write of the first one.
pub async fn one_key_in_two_namespaces_is_applied_in_one(store: Store) {
    for round in 0..10 {
        let mut callers = JoinSet::new();
        for caller in 0..4 {
            let store = Arc::clone(&store);
            let run = of_step(increment("k"), new_run(), "s");
            let op = |namespace: &str| Op { namespace: namespace.to_owned(), random: caller, ..run.clone() };
            let key = everstep_core::records::OpKey::from_stored(&format!("r:{round}:s"));
            let ops = ["n", "m"].map(|namespace| Op { key: key.clone(), ..op(namespace) });
            callers.spawn(async move { apply_ops(&*store, 0, &ops).await });
        }
        let outcomes: Vec<_> = callers.join_all().await.into_iter().flatten().collect();
        assert!(outcomes.iter().all(|outcome| *outcome == outcomes[0]), "{outcomes:?}");
    }
    let changes = all_changes(&*store, HERE, "n").await.len() + all_changes(&*store, HERE, "m").await.len();
    assert_eq!(changes, 10);
}

/// Batches of several callers over the same namespaces, with all verbs: the law holds for each namespace.
pub async fn contents_are_the_fold_of_their_changes(store: Store) {
    let mut callers = JoinSet::new();
    for caller in 0..4_u64 {
        let store = Arc::clone(&store);
        callers.spawn(async move {
            let mut state = caller;
            let mut below = |bound: u64| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) % bound
            };
            for second in 0..15 {
                let ops: Vec<_> = (0..12).map(|_| random_op(&mut below)).collect();
                apply_ops(&*store, second, &ops).await;
            }
        });
    }
    callers.join_all().await;
    for namespace in ["n", "m"] {
        let changes = all_changes(&*store, HERE, namespace).await;
        let numbers: Vec<_> = changes.iter().map(|change| change.number).collect();
        assert_eq!(numbers, (1..=changes.len() as u64).collect::<Vec<_>>());
        let stored = stored_contents(&*store, HERE, namespace).await;
        assert_eq!(replay_changes(&changes), stored);
        let page = store.namespaces(HERE, &everstep_store::NamespaceQuery::by_name(namespace)).await.unwrap();
        let counts = page.namespaces[0].counts;
        assert_eq!((counts.keys, counts.links), (stored.0.len() as u64, stored.1.len() as u64));
        let values: u64 = stored.0.values().map(|(value, ..)| value.size() as u64).sum();
        let attributes: u64 = stored.1.values().map(|link| link["attributes"].to_string().len() as u64).sum();
        assert_eq!(counts.bytes, values + attributes);
    }
}

fn random_op(below: &mut impl FnMut(u64) -> u64) -> Op {
    let namespace = ["n", "m"][below(2) as usize];
    let key = ["a", "b", "c"][below(3) as usize];
    let (one, other) = (task(&below(3).to_string()), task(&below(3).to_string()));
    let (verb, mut input) = match below(7) {
        0 => ("store.set", json!({"key": key, "value": below(9), "ttl_seconds": 1 + below(9)})),
        1 => ("store.set", json!({"key": key, "value": {"n": below(9)}, "if_revision": below(3)})),
        2 => ("store.delete", json!({"key": key})),
        3 => ("store.increment", json!({"key": key, "by": 2})),
        4 => ("links.upsert", json!({"from": one, "to": other, "attributes": {"n": below(99)}})),
        5 => ("links.delete", json!({"from": one})),
        _ => {
            let writes =
                json!([{"increment": {"key": key}}, {"upsert": {"from": other, "to": one}}, {"unlink": {"to": other}}]);
            ("store.transact", json!({"checks": [{"key": key, "exists": true}], "writes": writes}))
        }
    };
    input["namespace"] = json!(namespace);
    record_op(verb, &input)
}
