//! Ops: applied once per key, each completely or not at all, in their order.

use std::sync::Arc;

use everstep_core::ids::StepKey;
use everstep_core::records::{ExpireRequest, Op, OpAction};
use everstep_store::{RecordKey, RecordStore, Stores};
use serde_json::json;

use crate::contract::fixtures::*;

type Store = Arc<dyn RecordStore>;

pub async fn an_op_key_is_applied_once(store: Store) {
    let once = keyed(increment("k"), "once");
    let first = applied_op(&*store, &once).await;
    assert_eq!(first, json!({"value": 1, "revision": 1, "change": 1}));
    // Another node has made the same op: its ids differ.
    let again = Op { random: 7, ..once.clone() };
    assert_eq!(applied_at(&*store, 50, &again).await, first);
    // In one batch, too.
    let twice = keyed(increment("k"), "twice");
    let outcomes = apply_ops(&*store, 50, &[twice.clone(), once, twice]).await;
    let values: Vec<_> = outcomes.into_iter().map(|outcome| outcome.unwrap().value()["value"].clone()).collect();
    assert_eq!(values, [json!(2), json!(1), json!(2)]);
    assert_eq!((counts(&*store).await.changes, value(&*store, "k").await), (2, Some(json!(2))));
}

pub async fn an_op_key_of_another_input_is_refused(store: Store) {
    applied_op(&*store, &keyed(set("k", 1), "once")).await;
    assert_eq!(failed_op(&*store, &keyed(set("k", 2), "once")).await.code, "IDEMPOTENCY_KEY_REUSED");
    // The input of a step is not compared: a retry may compute another one.
    let run = new_run();
    let first = applied_op(&*store, &of_step(increment("c"), run, "each[0].count")).await;
    assert_eq!(applied_op(&*store, &of_step(set("c", 9), run, "each[0].count")).await, first);
    assert_ne!(applied_op(&*store, &of_step(increment("c"), run, "each[1].count")).await, first);
}

pub async fn a_failed_op_leaves_nothing_and_may_be_tried_again(store: Store) {
    let create =
        keyed(record_op("store.set", &json!({"namespace": "n", "key": "k", "value": 1, "if_revision": 2})), "later");
    let failure = failed_op(&*store, &create).await;
    assert_eq!((failure.code, failure.revision), ("CONFLICT", Some(0)));
    assert_eq!(store.namespaces(HERE, &everstep_store::NamespaceQuery::default()).await.unwrap().namespaces, []);
    applied_op(&*store, &set("k", "a")).await;
    applied_op(&*store, &set("k", "b")).await;
    assert_eq!(applied_op(&*store, &create).await["revision"], json!(3));
    // An op that changes nothing is evaluated again as well.
    let delete = keyed(record_op("store.delete", &json!({"namespace": "n", "key": "other"})), "delete");
    assert_eq!(applied_op(&*store, &delete).await, json!({"deleted": false}));
    applied_op(&*store, &set("other", 1)).await;
    assert_eq!(applied_op(&*store, &delete).await, json!({"deleted": true}));
}

pub async fn the_output_is_stored_with_the_write(store: Store) {
    let op = keyed(link("1", "2"), "link");
    let output = applied_op(&*store, &op).await;
    applied_op(&*store, &record_op("links.delete", &json!({"namespace": "n", "from": task("1")}))).await;
    assert_eq!(applied_at(&*store, 9, &op).await, output, "a repeated op returns what it returned first");
    let change = all_changes(&*store, HERE, "n").await.remove(0);
    let stored = change.op.unwrap();
    assert_eq!((stored.key, stored.output.value()), (op.key, &output));
}

pub async fn a_failure_affects_no_other_op(store: Store) {
    let wrong = record_op("store.set", &json!({"namespace": "n", "key": "a", "value": 1, "if_revision": 5}));
    let text = set("t", "text");
    let ops = [set("a", 1), wrong, text, increment("t"), set("b", 2)];
    let outcomes = apply_ops(&*store, 0, &ops).await;
    let codes: Vec<_> = outcomes.iter().map(|outcome| outcome.as_ref().err().map(|failure| failure.code)).collect();
    assert_eq!(codes, [None, Some("CONFLICT"), None, Some("VALIDATION_ERROR"), None]);
    assert_eq!((value(&*store, "a").await, value(&*store, "b").await), (Some(json!(1)), Some(json!(2))));
    assert_eq!(counts(&*store).await.changes, 3);
}

pub async fn a_later_op_of_a_batch_sees_the_earlier(store: Store) {
    let ops = [
        set("k", 1),
        record_op("store.set", &json!({"namespace": "n", "key": "k", "value": 2, "if_revision": 1})),
        increment("k"),
        record_op("store.delete", &json!({"namespace": "n", "key": "k"})),
        increment("k"),
        link("1", "2"),
        record_op("links.delete", &json!({"namespace": "n", "to": task("2")})),
        link("1", "2"),
    ];
    let outcomes = apply_ops(&*store, 0, &ops).await;
    let outputs: Vec<_> = outcomes.into_iter().map(|outcome| outcome.unwrap().value().clone()).collect();
    assert_eq!(outputs[2], json!({"value": 3, "revision": 3, "change": 3}));
    assert_eq!(outputs[4], json!({"value": 1, "revision": 1, "change": 5}));
    assert_eq!(outputs[6], json!({"deleted_count": 1}));
    assert_eq!(outputs[7]["created"], json!(true));
    assert_ne!(outputs[5]["link_id"], outputs[7]["link_id"], "a deleted link does not come back");
    let counts = counts(&*store).await;
    assert_eq!((counts.changes, counts.keys, counts.links, counts.bytes), (8, 1, 1, 3));
}

pub async fn a_transaction_is_whole_or_not_at_all(store: Store) {
    applied_op(&*store, &set("stock", 1)).await;
    let transact = |expected: u64| {
        let from = task("1");
        record_op(
            "store.transact",
            &json!({
                "namespace": "n",
                "checks": [{"key": "stock", "equals": 1.0}, {"key": "order", "exists": false}],
                "writes": [
                    {"increment": {"key": "stock", "by": -1}}, {"set": {"key": "order", "value": {"of": "stock"}}},
                    {"upsert": {"from": from, "to": task("2")}}, {"unlink": {"from": from}}, {"delete": {"key": "cart"}},
                    {"set": {"key": "count", "value": 1, "if_revision": expected}}
                ]
            }),
        )
    };
    let failure = failed_op(&*store, &transact(4)).await;
    assert!(failure.message.starts_with("write 5: the record does not exist"), "{failure}");
    assert_eq!((counts(&*store).await.changes, value(&*store, "order").await), (1, None));
    let output = applied_op(&*store, &transact(0)).await;
    assert_eq!(output["changes"], json!([2, 6]));
    assert_eq!(output["results"][0], json!({"value": 0, "revision": 2, "change": 2}));
    assert_eq!(output["results"][4], json!({"deleted": false}));
    let conflict = failed_op(&*store, &transact(0)).await;
    assert!(conflict.code == "CONFLICT" && conflict.message.starts_with("check 0"), "{conflict}");
}

pub async fn an_expired_record_is_absent_for_every_op(store: Store) {
    let set = record_op("store.set", &json!({"namespace": "n", "key": "k", "value": 7, "ttl_seconds": 10}));
    applied_op(&*store, &set).await;
    assert!(get_at(&*store, 9, "k").await.found && !get_at(&*store, 10, "k").await.found);
    let query = everstep_core::records::RecordQuery::new("n");
    assert_eq!(store.list(HERE, &query, at(9)).await.unwrap().records.len(), 1);
    assert_eq!(store.list(HERE, &query, at(10)).await.unwrap().records.len(), 0);
    let delete = record_op("store.delete", &json!({"namespace": "n", "key": "k"}));
    assert_eq!(applied_at(&*store, 10, &delete).await, json!({"deleted": false}));
    assert_eq!(counts(&*store).await.keys, 1, "it counts until it is swept");
    let check = json!({"namespace": "n", "checks": [{"key": "k", "exists": false}]});
    applied_at(&*store, 10, &record_op("store.transact", &check)).await;
    let created = applied_at(&*store, 10, &increment("k")).await;
    assert_eq!(created, json!({"value": 1, "revision": 1, "change": 2}));
    assert_eq!((get_at(&*store, 99, "k").await.expires_at, counts(&*store).await.keys), (None, 1));
}

/// The op with which the sweeper deletes a record that `expired` has returned.
fn expire(change: u64) -> Op {
    let op = record_op("store.delete", &json!({"namespace": "n", "key": "k"}));
    let action = OpAction::Expire(ExpireRequest { key: "k".to_owned(), change });
    Op { action, ..op }
}

pub async fn a_record_that_was_set_again_is_not_swept(store: Store) {
    let set = |ttl: u64| record_op("store.set", &json!({"namespace": "n", "key": "k", "value": 1, "ttl_seconds": ttl}));
    applied_op(&*store, &set(10)).await;
    applied_op(&*store, &record_op("store.set", &json!({"namespace": "n", "key": "forever", "value": 1}))).await;
    assert_eq!(store.expired(at(9), 10).await.unwrap(), []);
    let expired = store.expired(at(10), 10).await.unwrap();
    assert_eq!(expired.len(), 1);
    assert_eq!(expired[0].key, RecordKey { workspace: HERE, namespace: "n".to_owned(), key: "k".to_owned() });
    applied_at(&*store, 11, &set(10)).await;
    assert_eq!(applied_at(&*store, 12, &expire(expired[0].change)).await, json!({"deleted": false}));
    assert!(get_at(&*store, 12, "k").await.found);
    let expired = store.expired(at(21), 10).await.unwrap();
    assert_eq!(applied_at(&*store, 21, &expire(expired[0].change)).await, json!({"deleted": true}));
    assert_eq!(store.expired(at(99), 10).await.unwrap(), []);
    assert_eq!(counts(&*store).await.keys, 1);
}

pub async fn another_workspace_sees_nothing(store: Store) {
    let there = new_workspace();
    let here = [keyed(set("k", "here"), "once"), link("1", "2")];
    apply_ops(&*store, 0, &here).await;
    let page = store.links(HERE, &all_links(json!({"namespace": "n"}))).await.unwrap();
    let id = page.matches[0].link.id;
    let key = RecordKey { workspace: there, namespace: "n".to_owned(), key: "k".to_owned() };
    assert_eq!(store.get(&[key]).await.unwrap(), [None]);
    let query = everstep_core::records::RecordQuery::new("n");
    assert_eq!(store.list(there, &query, at(0)).await.unwrap().records, []);
    for query in [
        all_links(json!({"namespace": "n"})),
        lookup(json!({"namespace": "n", "from": task("1"), "direction": "either"})),
        everstep_core::records::LinkQuery::by_id("n", id),
    ] {
        assert_eq!(store.links(there, &query).await.unwrap().matches, []);
    }
    let query = everstep_store::NamespaceQuery::default();
    assert_eq!(store.namespaces(there, &query).await.unwrap().namespaces, []);
    assert_eq!(all_changes(&*store, there, "n").await, []);
    // The same key, the same record and the same link of another workspace are others.
    let elsewhere = here.map(|op| Op { workspace: there, ..op });
    let outcomes = apply_ops(&*store, 0, &elsewhere).await;
    assert!(outcomes.iter().all(|outcome| outcome.as_ref().unwrap().value()["created"] == json!(true)));
    let unlink = record_op("links.delete", &json!({"namespace": "n", "from": task("1")}));
    applied_op(&*store, &Op { workspace: there, ..unlink }).await;
    assert_eq!(counts(&*store).await.links, 1);
}

pub async fn values_come_back_as_they_were_written(store: Store) {
    let long = format!("\"{}\"", "x".repeat(700_000));
    let noise: String =
        (0..40_000_u32).map(|n| char::from(b'!' + (n.wrapping_mul(2_654_435_761) >> 25) as u8 % 90)).collect();
    let noise = json!(noise).to_string();
    let values = [
        ("a", r#"{ "b":1,  "a": [1.0e2, -0.0] }"#),
        ("b", "null"),
        ("c", "\"\\u0000 ✓\""),
        ("d", &long),
        ("e", &noise),
    ];
    for (key, json) in values {
        let input = format!(r#"{{"namespace": "n", "key": "{key}", "value": {json}}}"#);
        let input = OpAction::read(everstep_core::records::Verb::Set, &input).unwrap();
        applied_op(&*store, &Op { action: input.action, ..set(key, 0) }).await;
    }
    for (key, json) in values {
        assert_eq!(get_at(&*store, 0, key).await.value.unwrap().json(), json, "{key}");
    }
    let sizes: usize = values.iter().map(|(_, json)| json.len()).sum();
    assert_eq!(counts(&*store).await.bytes, sizes as u64);
    let keys = ["a", "missing", "a", "e\0"].map(|key| RecordKey {
        workspace: HERE,
        namespace: "n".to_owned(),
        key: key.to_owned(),
    });
    let found: Vec<_> = store.get(&keys).await.unwrap().into_iter().map(|record| record.is_some()).collect();
    assert_eq!(found, [true, false, true, false]);
    assert_eq!(store.get(&[]).await.unwrap(), []);
    assert_eq!(apply_ops(&*store, 0, &[]).await, []);
}

pub async fn a_deleted_run_leaves_its_records(stores: Stores) {
    let node = member(&*stores.runs).await;
    let run = owned_run(&*stores.runs, node).await;
    let op = of_step(set("k", "kept"), run, "save");
    applied_op(&*stores.records, &op).await;
    apply(&*stores.runs, node, &end(run, 2, at(0))).await;
    assert_eq!(stores.runs.sweep(at(1_000 * 86_400), 10).await.unwrap(), 1);
    assert_eq!(value(&*stores.records, "k").await, Some(json!("kept")));
    let record = stores.records.list(HERE, &everstep_core::records::RecordQuery::new("n"), at(0)).await.unwrap();
    let record = &record.records[0];
    assert_eq!((record.run, record.step.as_ref().map(StepKey::as_str)), (Some(run), Some("save")));
}
