//! Pages of records and namespaces.

use std::sync::Arc;

use everstep_core::payload::Payload;
use everstep_core::records::{RecordQuery, SCANNED_ROWS_MAX};
use everstep_store::{NamespaceFilter, NamespaceQuery, RecordStore};
use serde_json::json;

use crate::contract::fixtures::*;

type Store = Arc<dyn RecordStore>;

async fn put(store: &dyn RecordStore, keys: &[&str]) {
    let ops: Vec<_> = keys.iter().map(|key| set(key, json!({"of": key}))).collect();
    for ops in ops.chunks(512) {
        apply_ops(store, 0, ops).await;
    }
}

pub async fn records_are_listed_by_key_in_pages(store: Store) {
    put(&*store, &["b", "é", "a", "B", "a/2", "a/10"]).await;
    applied_op(&*store, &record_op("store.set", &json!({"namespace": "other", "key": "b", "value": 1}))).await;
    let query = RecordQuery { limit: 4, ..RecordQuery::new("n") };
    let (first, next) = listed(&*store, &query).await;
    assert_eq!(first, ["B", "a", "a/10", "a/2"], "in the order of bytes");
    // Records that are added do not shift the next page.
    put(&*store, &["A", "c"]).await;
    let second = listed(&*store, &RecordQuery { after: next, ..query.clone() }).await;
    assert_eq!(second, (vec!["b".to_owned(), "c".to_owned(), "é".to_owned()], None));
    let prefixed = RecordQuery { prefix: Some("a/".to_owned()), limit: 1, ..query.clone() };
    assert_eq!(listed(&*store, &prefixed).await, (vec!["a/10".to_owned()], Some("a/10".to_owned())));
    let rest = RecordQuery { after: Some("a/10".to_owned()), ..prefixed };
    assert_eq!(listed(&*store, &rest).await, (vec!["a/2".to_owned()], None));
    let page = store.list(HERE, &RecordQuery { values: false, ..query.clone() }, at(0)).await.unwrap();
    assert!(page.records.iter().all(|record| record.value.is_none() && record.bytes > 0));
    assert_eq!(listed(&*store, &RecordQuery::new("missing")).await, (vec![], None));
    let nul = RecordQuery { after: Some("a\0b".to_owned()), ..query };
    assert_eq!(listed(&*store, &nul).await.0[0], "a/10");
}

pub async fn records_are_found_by_what_their_values_hold(store: Store) {
    let ops = [
        set("a", json!({"state": "open", "tags": ["x", "y"]})),
        set("b", json!({"state": "done", "tags": ["x"]})),
        set("c", json!({"state": "open"})),
        set("d", "open"),
    ];
    apply_ops(&*store, 0, &ops).await;
    let matching = |pattern| RecordQuery { pattern: Some(Payload::from(pattern)), ..RecordQuery::new("n") };
    assert_eq!(listed(&*store, &matching(json!({"state": "open"}))).await.0, ["a", "c"]);
    assert_eq!(listed(&*store, &matching(json!({"tags": ["y"]}))).await.0, ["a"]);
    assert_eq!(listed(&*store, &matching(json!("open"))).await.0, ["d"]);
    let hidden = RecordQuery { values: false, ..matching(json!({"tags": ["x"]})) };
    let page = store.list(HERE, &hidden, at(0)).await.unwrap();
    assert!(page.records.len() == 2 && page.records.iter().all(|record| record.value.is_none()));
}

pub async fn a_page_reads_ten_thousand_records(store: Store) {
    let keys: Vec<String> = (0..SCANNED_ROWS_MAX + 3).map(|number| format!("{number:06}")).collect();
    put(&*store, &keys.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let wanted = keys.last().unwrap();
    let mut query = RecordQuery { pattern: Some(Payload::from(json!({"of": wanted}))), ..RecordQuery::new("n") };
    let (found, next) = listed(&*store, &query).await;
    assert_eq!((found.len(), next.as_deref()), (0, Some("009999")), "a short page has a next one");
    query.after = next;
    assert_eq!(listed(&*store, &query).await, (vec![wanted.clone()], None));
}

pub async fn a_page_ends_at_half_a_mebibyte(store: Store) {
    let large = "x".repeat(200_000);
    let ops: Vec<_> = (0..6).map(|number| set(&number.to_string(), large.clone())).collect();
    apply_ops(&*store, 0, &ops).await;
    applied_op(&*store, &set("6", "x".repeat(700_000))).await;
    let mut query = RecordQuery::new("n");
    let mut pages = Vec::new();
    loop {
        let (keys, next) = listed(&*store, &query).await;
        pages.push(keys.len());
        query.after = next;
        if query.after.is_none() {
            break;
        }
    }
    assert_eq!(pages, [2, 2, 2, 1]);
    assert_eq!(listed(&*store, &RecordQuery { values: false, ..RecordQuery::new("n") }).await.0.len(), 7);
}

pub async fn emptied_namespaces_are_not_listed_and_keep_their_numbers(store: Store) {
    for name in ["b", "a", "empty", "c"] {
        let set = json!({"namespace": name, "key": "k", "value": name});
        applied_op(&*store, &record_op("store.set", &set)).await;
    }
    let linked = json!({"namespace": "linked", "from": task("1"), "to": task("2")});
    applied_op(&*store, &record_op("links.upsert", &linked)).await;
    applied_op(&*store, &record_op("store.delete", &json!({"namespace": "empty", "key": "k"}))).await;
    let names = async |query: NamespaceQuery| {
        let page = store.namespaces(HERE, &query).await.unwrap();
        let names: Vec<_> = page.namespaces.into_iter().map(|namespace| namespace.name).collect();
        (names, page.next)
    };
    let all = NamespaceQuery::default();
    assert_eq!(names(all.clone()).await.0, ["a", "b", "c", "linked"]);
    assert_eq!(names(NamespaceQuery { filter: NamespaceFilter::Records, ..all.clone() }).await.0, ["a", "b", "c"]);
    assert_eq!(names(NamespaceQuery { filter: NamespaceFilter::Links, ..all.clone() }).await.0, ["linked"]);
    let first = names(NamespaceQuery { limit: 2, ..all.clone() }).await;
    assert_eq!(first, (vec!["a".to_owned(), "b".to_owned()], Some("b".to_owned())));
    assert_eq!(
        names(NamespaceQuery { limit: 2, after: first.1, ..all }).await,
        (vec!["c".to_owned(), "linked".to_owned()], None)
    );
    let empty = store.namespaces(HERE, &NamespaceQuery::by_name("empty")).await.unwrap().namespaces.remove(0);
    assert_eq!((empty.counts.keys, empty.counts.bytes, empty.counts.changes), (0, 0, 2));
    let again = json!({"namespace": "empty", "key": "k", "value": 1});
    let again = applied_op(&*store, &record_op("store.set", &again)).await;
    assert_eq!(again, json!({"revision": 1, "change": 3, "created": true}));
    assert_eq!(names(NamespaceQuery::by_name("missing")).await.0, [""; 0]);
}
