//! Links: one per pair and relation, found from both sides.

use std::sync::Arc;

use everstep_core::records::{LinkPage, LinkQuery, Op, OpAction, UnlinkRequest};
use everstep_store::RecordStore;
use serde_json::{Value, json};

use crate::contract::fixtures::*;

type Store = Arc<dyn RecordStore>;

fn typed(from: &str, to: &str, relation: &str) -> Op {
    record_op("links.upsert", &json!({"namespace": "n", "from": task(from), "to": task(to), "relation": relation}))
}

/// Relations and far ids of all pages.
async fn found(store: &dyn RecordStore, input: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut input = input.clone();
    loop {
        let page = store.links(HERE, &lookup(input.clone())).await.unwrap();
        found.extend(page.matches.iter().map(|it| format!("{}:{}", it.link.key.relation, it.far_side().id)));
        let Some(next) = page.next else { return found };
        input["cursor"] = json!(next.to_cursor());
    }
}

pub async fn a_link_keeps_its_id_and_replaces_its_attributes(store: Store) {
    let link = |attributes| {
        let input = json!({"namespace": "n", "from": task("1"), "to": task("2"), "attributes": attributes});
        record_op("links.upsert", &input)
    };
    let first = applied_op(&*store, &link(json!({"a": 1}))).await;
    let second = applied_at(&*store, 5, &link(json!({"b": [2]}))).await;
    assert_eq!((&first["created"], &second["created"]), (&json!(true), &json!(false)));
    assert_eq!(first["link_id"], second["link_id"]);
    let id = first["link_id"].as_str().unwrap().parse().unwrap();
    let LinkPage { matches, next } = store.links(HERE, &LinkQuery::by_id("n", id)).await.unwrap();
    let found = &matches[0].link;
    assert_eq!(found.attributes.as_ref().unwrap().json(), r#"{"b":[2]}"#);
    assert_eq!((found.created_at, found.updated_at, found.change, next), (at(0), at(5), 2, None));
    assert_eq!(store.links(HERE, &LinkQuery::by_id("other", id)).await.unwrap().matches, []);
    assert_eq!(counts(&*store).await.bytes, 9);
}

pub async fn links_are_looked_up_from_both_sides_in_pages(store: Store) {
    let ops = [
        typed("1", "2", "mirrors"),
        typed("1", "3", "blocks"),
        typed("1", "3", "mirrors"),
        typed("1", "1", "self"),
        typed("2", "1", "mirrors"),
        typed("3", "1", "blocks"),
    ];
    apply_ops(&*store, 0, &ops).await;
    for limit in [1, 2, 200] {
        let look = |more: Value| {
            let mut input = json!({"namespace": "n", "from": task("1"), "limit": limit});
            input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            input
        };
        assert_eq!(found(&*store, &look(json!({}))).await, ["self:1", "mirrors:2", "blocks:3", "mirrors:3"]);
        let reverse = found(&*store, &look(json!({"direction": "reverse"}))).await;
        assert_eq!(reverse, ["blocks:3", "mirrors:2", "self:1"]);
        let either = found(&*store, &look(json!({"direction": "either", "relation": "mirrors"}))).await;
        assert_eq!(either, ["mirrors:2", "mirrors:3", "mirrors:2"]);
        assert_eq!(found(&*store, &look(json!({"to_type": "ticket"}))).await, [""; 0]);
        let page = store.links(HERE, &all_links(json!({"namespace": "n", "limit": limit, "relation": "blocks"}))).await;
        assert_eq!(page.unwrap().matches.len(), if limit == 1 { 1 } else { 2 });
    }
    let all = store.links(HERE, &all_links(json!({"namespace": "n", "left_type": "task"}))).await.unwrap();
    let ids: Vec<_> = all.matches.iter().map(|it| it.link.key.from.id.as_str()).collect();
    assert_eq!(ids, ["1", "1", "1", "1", "2", "3"]);
}

pub async fn a_page_of_links_ends_at_half_a_mebibyte(store: Store) {
    for number in 0..12 {
        let attributes = json!({"text": "x".repeat(60_000)});
        let input =
            json!({"namespace": "n", "from": task("1"), "to": task(&format!("{number:02}")), "attributes": attributes});
        applied_op(&*store, &record_op("links.upsert", &input)).await;
    }
    let page = store.links(HERE, &lookup(json!({"namespace": "n", "from": task("1")}))).await.unwrap();
    assert_eq!(page.matches.len(), 8);
    let rest = json!({"namespace": "n", "from": task("1"), "cursor": page.next.unwrap().to_cursor()});
    assert_eq!(store.links(HERE, &lookup(rest)).await.unwrap().matches.len(), 4);
}

pub async fn links_are_deleted_by_their_sides(store: Store) {
    let mut ops = Vec::new();
    for to in ["a", "b", "c"] {
        ops.extend([typed("1", to, "related"), typed("2", to, "blocks"), typed("2", to, "related")]);
    }
    apply_ops(&*store, 0, &ops).await;
    let delete = |input: Value| {
        let mut input = input;
        input["namespace"] = json!("n");
        record_op("links.delete", &input)
    };
    let deleted = async |input: Value| applied_op(&*store, &delete(input)).await["deleted_count"].as_u64().unwrap();
    assert_eq!(deleted(json!({"from": task("1"), "to": task("a"), "relation": "blocks"})).await, 0);
    assert_eq!(deleted(json!({"from": task("2"), "to": task("a")})).await, 2);
    assert_eq!(deleted(json!({"to": task("a")})).await, 1);
    assert_eq!(deleted(json!({"from": task("2"), "relation": "blocks"})).await, 2);
    let page = store.links(HERE, &all_links(json!({"namespace": "n", "limit": 1}))).await.unwrap();
    let by_id = UnlinkRequest { id: Some(page.matches[0].link.id), ..UnlinkRequest::default() };
    let op = Op { action: OpAction::Unlink(by_id), ..delete(json!({"to": task("a")})) };
    let elsewhere = Op { namespace: "other".to_owned(), ..op.clone() };
    assert_eq!(applied_op(&*store, &elsewhere).await, json!({"deleted_count": 0}));
    assert_eq!(applied_op(&*store, &op).await, json!({"deleted_count": 1}));
    assert_eq!(counts(&*store).await.links, 3);
    assert_eq!(found(&*store, &json!({"namespace": "n", "from": task("2")})).await, ["related:b", "related:c"]);
}

pub async fn one_op_deletes_at_most_ten_thousand_links(store: Store) {
    let ops: Vec<_> = (0..10_001).map(|number| link("1", &number.to_string())).collect();
    for ops in ops.chunks(1_000) {
        apply_ops(&*store, 0, ops).await;
    }
    let all = || record_op("links.delete", &json!({"namespace": "n", "from": task("1")}));
    let failure = failed_op(&*store, &all()).await;
    assert!(failure.message.contains("more than 10000 links"), "{failure}");
    assert_eq!(counts(&*store).await.links, 10_001);
    // The same op succeeds after an earlier one of its batch has deleted a link.
    let one = record_op("links.delete", &json!({"namespace": "n", "from": task("1"), "to": task("7")}));
    let outcomes = apply_ops(&*store, 0, &[one, all(), set("k", 1)]).await;
    let outputs: Vec<_> = outcomes.into_iter().map(|outcome| outcome.unwrap().value().clone()).collect();
    assert_eq!(outputs[..2], [json!({"deleted_count": 1}), json!({"deleted_count": 10_000})]);
    assert_eq!(outputs[2]["change"], json!(20_003), "one change per link");
    assert_eq!(counts(&*store).await.links, 0);
}
