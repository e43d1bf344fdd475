//! Changes: numbered, with their authors, kept for a time.

use std::sync::Arc;

use everstep_core::payload::Payload;
use everstep_core::records::Author;
use everstep_store::{ChangeQuery, ChangeValue, RecordStore, Stores};
use serde_json::json;

use crate::contract::fixtures::*;

pub async fn changes_are_numbered_without_a_gap(store: Arc<dyn RecordStore>) {
    let run = new_run();
    let ttl = json!({"namespace": "n", "key": "k", "value": "v", "ttl_seconds": 5});
    let ops = [
        of_step(record_op("store.set", &ttl), run, "save"),
        record_op("store.set", &json!({"namespace": "n", "key": "k", "value": 1, "if_revision": 7})),
        record_op("store.set", &json!({"namespace": "other", "key": "k", "value": 1})),
        link("1", "2"),
        record_op("links.delete", &json!({"namespace": "n", "from": task("1")})),
        record_op("store.delete", &json!({"namespace": "n", "key": "k"})),
    ];
    let outcomes = apply_ops(&*store, 3, &ops).await;
    let changes = all_changes(&*store, HERE, "n").await;
    let facts: Vec<_> = changes.iter().map(|change| (change.number, change.action.as_str())).collect();
    let actions = ["store.set", "links.upsert", "links.delete", "store.delete"];
    assert_eq!(facts, (1..).zip(actions).collect::<Vec<_>>(), "a failed op has no number");
    let set = &changes[0];
    assert_eq!((set.subject.as_str(), set.revision, set.value_expires_at, set.at), ("k", Some(1), Some(at(8)), at(3)));
    assert_eq!(set.value, ChangeValue::Whole(Payload::from(json!("v"))));
    assert_eq!(set.author, Author { run: Some(run), step: Some("save".into()), actor: "key:1".to_owned() });
    let link_id = outcomes[3].as_ref().unwrap().value()["link_id"].clone();
    assert_eq!(json!(changes[1].subject), link_id);
    let edge = json!({"from": task("1"), "to": task("2"), "relation": "related"});
    assert_eq!(changes[2].value, ChangeValue::Whole(Payload::from(edge)));
    assert_eq!((changes[3].subject.as_str(), &changes[3].value), ("k", &ChangeValue::None));
    assert!(changes.iter().all(|change| change.op.is_some()), "each is the first of its op");
    assert_eq!(all_changes(&*store, HERE, "other").await.len(), 1);
}

pub async fn changes_are_filtered_and_read_in_pages(store: Arc<dyn RecordStore>) {
    let run = new_run();
    let ops: Vec<_> = (0..30)
        .map(|number| {
            let mut op = of_step(increment("k"), run, &format!("s{number}"));
            if number % 3 == 0 {
                op = set("k", number);
                op.author.actor = "person:7".to_owned();
            }
            op
        })
        .collect();
    apply_ops(&*store, 0, &ops).await;
    let numbers = async |query: ChangeQuery| {
        let page = store.changes(HERE, &ChangeQuery { namespace: "n".to_owned(), ..query }).await.unwrap();
        (page.changes.into_iter().map(|change| change.number).collect::<Vec<_>>(), page.next)
    };
    let all = ChangeQuery { limit: 4, ..ChangeQuery::default() };
    assert_eq!(numbers(all.clone()).await, (vec![1, 2, 3, 4], Some(4)));
    assert_eq!(numbers(ChangeQuery { after: 28, ..all.clone() }).await, (vec![29, 30], None));
    let person = ChangeQuery { actor: Some("person:7".to_owned()), ..all.clone() };
    assert_eq!(numbers(person).await, (vec![1, 4, 7, 10], Some(10)));
    let of_run = ChangeQuery { run: Some(run), action: Some("store.increment".to_owned()), after: 25, ..all.clone() };
    assert_eq!(numbers(of_run).await, (vec![26, 27, 29, 30], None));
    assert_eq!(numbers(ChangeQuery { action: Some("links.upsert".to_owned()), ..all }).await, (vec![], None));
}

pub async fn a_long_value_is_not_in_the_history(store: Arc<dyn RecordStore>) {
    let long = "x".repeat(20_000);
    applied_op(&*store, &set("k", long.clone())).await;
    let change = all_changes(&*store, HERE, "n").await.remove(0);
    let ChangeValue::Omitted { bytes, sha256 } = change.value else { panic!("{:?}", change.value) };
    assert_eq!((bytes, sha256.len()), (20_002, 64));
    assert_eq!(value(&*store, "k").await, Some(json!(long)));
}

pub async fn changes_are_kept_for_a_time_and_while_their_run_exists(stores: Stores) {
    let store = &*stores.records;
    let node = member(&*stores.runs).await;
    let run = owned_run(&*stores.runs, node).await;
    let of_run = of_step(increment("k"), run, "s");
    let plain = keyed(increment("k"), "once");
    store.apply(&[of_run.clone(), plain.clone()], at(0), at(100)).await.unwrap();
    assert_eq!(store.sweep_changes(at(99), 10).await.unwrap(), 0);
    assert_eq!(store.sweep_changes(at(100), 1).await.unwrap(), 1);
    assert_eq!(store.sweep_changes(at(100), 10).await.unwrap(), 1);
    let left = all_changes(store, HERE, "n").await;
    assert_eq!(left.iter().map(|change| change.number).collect::<Vec<_>>(), [1]);
    // The op of the run is known; the other one is forgotten, and applied again.
    assert_eq!(applied_op(store, &of_run).await["value"], json!(1));
    assert_eq!(applied_op(store, &plain).await, json!({"value": 3, "revision": 3, "change": 3}));

    apply(&*stores.runs, node, &end(run, 2, at(0))).await;
    assert_eq!(stores.runs.sweep(at(1_000 * 86_400), 10).await.unwrap(), 1);
    assert_eq!(store.sweep_changes(at(101), 10).await.unwrap(), 0, "it is kept for another day");
    assert_eq!(store.sweep_changes(at(100 + 86_400), 10).await.unwrap(), 2);
    assert_eq!(all_changes(store, HERE, "n").await, []);
    assert_eq!(applied_op(store, &increment("k")).await["change"], json!(4), "the numbers continue");
}
