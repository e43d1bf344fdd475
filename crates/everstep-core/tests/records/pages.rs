//! Pages of records and links.

use everstep_core::records::{
    Link, LinkId, LinkKey, LinkPage, LinkPosition, LinkQuery, LinkRange, LinkScan, LinksRequest, ListOutput,
    ListRequest, LookupOutput, LookupRequest, NamespacesRequest, Record, RecordId, RecordQuery, RecordScan, ValueType,
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{at, identifier, payload};

fn record(key: &str, value: &str, expires: Option<i64>) -> Record {
    Record {
        key: key.to_owned(),
        id: RecordId(Uuid::nil()),
        value: Some(payload(value)),
        bytes: value.len(),
        value_type: ValueType::of_value(&payload(value)),
        revision: 1,
        change: 1,
        expires_at: expires.map(at),
        run: None,
        step: None,
        created_at: at(0),
        updated_at: at(0),
    }
}

fn query(input: Value) -> RecordQuery {
    serde_json::from_value::<ListRequest>(input).unwrap().into_query().unwrap()
}

/// The page of a query over records in the order of their keys.
fn page(query: &RecordQuery, records: &[Record]) -> Value {
    let mut scan = RecordScan::new(query, at(0));
    let after = query.after.as_deref().unwrap_or_default();
    let prefix = query.prefix.as_deref().unwrap_or_default();
    let following = records.iter().filter(|record| record.key.as_str() > after && record.key.as_str() >= prefix);
    for record in following {
        if !scan.offer(record.clone()) {
            break;
        }
    }
    ListOutput::of_page(&scan.finish()).to_payload().value().clone()
}

fn keys(page: &Value) -> Vec<&str> {
    page["items"].as_array().unwrap().iter().map(|item| item["key"].as_str().unwrap()).collect()
}

#[test]
fn a_page_ends_when_its_comparisons_have_used_their_fuel() {
    let numbers = json!((0..1_000).collect::<Vec<_>>()).to_string();
    let records: Vec<_> = (0..9).map(|n| record(&n.to_string(), &numbers, None)).collect();
    // Half a million comparisons per record: the last number is missing.
    let pattern: Vec<_> = (0..1_000).chain([5_000]).collect();
    let first = page(&query(json!({"namespace": "n", "match": pattern})), &records);
    assert_eq!((keys(&first), &first["next_cursor"]), (vec![], &json!("after:1")), "two records are a decision's fuel");
    let found = page(&query(json!({"namespace": "n", "match": [1, 2, 3]})), &records);
    assert_eq!((keys(&found).len(), &found["next_cursor"]), (9, &json!(null)));
}

#[test]
fn a_match_of_null_is_a_match() {
    let records = [record("a", "1", None), record("b", "null", None), record("c", r#"{"x":null}"#, None)];
    assert_eq!(keys(&page(&query(json!({"namespace": "n", "match": null})), &records)), ["b"]);
    assert_eq!(keys(&page(&query(json!({"namespace": "n", "match": {"x": null}})), &records)), ["c"]);
    assert_eq!(keys(&page(&query(json!({"namespace": "n"})), &records)), ["a", "b", "c"]);
}

#[test]
fn records_are_listed_by_prefix_and_content() {
    let records = [
        record("a", "1", None),
        record("b/1", r#"{"x":1,"y":2}"#, None),
        record("b/2", r#"{"x":2}"#, Some(5)),
        record("b/3", r#"{"x":1}"#, Some(0)),
        record("c", r#"{"x":1}"#, None),
    ];
    let all = page(&query(json!({"namespace": "n"})), &records);
    assert_eq!(keys(&all), ["a", "b/1", "b/2", "c"], "an expired record is absent");
    assert_eq!(all["next_cursor"], json!(null));
    let item = json!({"key": "b/2", "value": {"x": 2}, "value_type": "json", "revision": 1, "change": 1,
        "expires_at": "2025-06-15T15:06:45Z"});
    assert_eq!(all["items"][2], item);
    let prefixed =
        page(&query(json!({"namespace": "n", "prefix": "b/", "match": {"x": 1}, "values": false})), &records);
    assert_eq!(keys(&prefixed), ["b/1"]);
    assert_eq!(prefixed["items"][0].get("value"), None);
    let first = page(&query(json!({"namespace": "n", "limit": 2})), &records);
    assert_eq!((keys(&first), &first["next_cursor"]), (vec!["a", "b/1"], &json!("after:b/1")));
    let second = page(&query(json!({"namespace": "n", "limit": 2, "cursor": "after:b/1"})), &records);
    assert_eq!((keys(&second), &second["next_cursor"]), (vec!["b/2", "c"], &json!(null)));
}

#[test]
fn a_page_ends_at_half_a_mebibyte_of_shown_values() {
    let large = format!("\"{}\"", "x".repeat(200_000));
    let records: Vec<_> = (0..5).map(|number| record(&number.to_string(), &large, None)).collect();
    let first = page(&query(json!({"namespace": "n"})), &records);
    assert_eq!((keys(&first), &first["next_cursor"]), (vec!["0", "1"], &json!("after:1")));
    let hidden = page(&query(json!({"namespace": "n", "values": false})), &records);
    assert_eq!(keys(&hidden).len(), 5);
    let matched = page(&query(json!({"namespace": "n", "values": false, "match": "no"})), &records);
    assert_eq!((keys(&matched).len(), &matched["next_cursor"]), (0, &json!(null)));
}

#[test]
fn limits_of_a_page_are_checked() {
    for limit in [json!(0), json!(201)] {
        let request: ListRequest = serde_json::from_value(json!({"namespace": "n", "limit": limit})).unwrap();
        assert!(request.into_query().unwrap_err().message.contains("must be from 1 to 200"));
    }
    assert!(serde_json::from_value::<ListRequest>(json!({"namespace": "n", "unknown": 1})).is_err());
}

#[test]
fn a_text_that_is_no_cursor_is_refused() {
    for cursor in ["", "zork", "b/1", "after:"] {
        let request: ListRequest = serde_json::from_value(json!({"namespace": "n", "cursor": cursor})).unwrap();
        assert!(request.into_query().unwrap_err().message.contains("cursor is not valid"), "{cursor}");
        let request: NamespacesRequest = serde_json::from_value(json!({"cursor": cursor})).unwrap();
        assert!(request.check().unwrap_err().message.contains("cursor is not valid"), "{cursor}");
    }
}

fn link(from: &str, to: &str, relation: &str) -> Link {
    Link {
        id: LinkId(Uuid::nil()),
        key: LinkKey { from: identifier(from), to: identifier(to), relation: relation.to_owned() },
        attributes: Some(payload("{}")),
        bytes: 2,
        change: 1,
        run: None,
        step: None,
        created_at: at(0),
        updated_at: at(0),
    }
}

/// The links of a range in its order, as an index has them.
fn read(range: &LinkRange, links: &[Link]) -> Vec<Link> {
    let mut found: Vec<_> = links.to_vec();
    match range {
        LinkRange::Forward { from, after } => {
            let order = |link: &Link| (link.key.to.kind.clone(), link.key.to.id.clone(), link.key.relation.clone());
            found.retain(|link| link.key.from == *from && order(link) > *after);
            found.sort_by_key(order);
        }
        LinkRange::Reverse { to, after } => {
            let order = |link: &Link| (link.key.relation.clone(), link.key.from.kind.clone(), link.key.from.id.clone());
            found.retain(|link| link.key.to == *to && order(link) > *after);
            found.sort_by_key(order);
        }
        LinkRange::All { after } => {
            found.retain(|link| link.key > *after);
            found.sort_by(|one, other| one.key.cmp(&other.key));
        }
    }
    found
}

fn find(query: &LinkQuery, links: &[Link]) -> LinkPage {
    let mut scan = LinkScan::new(query);
    for range in query.ranges() {
        for link in read(&range, links) {
            if !scan.offer(&range, link) {
                break;
            }
        }
        if scan.is_full() {
            break;
        }
    }
    scan.finish()
}

/// All far ids of a lookup, page by page.
fn lookup(input: &Value, links: &[Link]) -> Vec<String> {
    let mut found = Vec::new();
    let mut cursor = None::<String>;
    loop {
        let mut request: LookupRequest = serde_json::from_value(input.clone()).unwrap();
        request.cursor = cursor;
        let page = find(&request.into_query().unwrap(), links);
        let output = LookupOutput::of_page(&page);
        found.extend(output.matches.iter().map(|item| format!("{}:{}", item.relation, item.id)));
        cursor = output.next_cursor.clone();
        if cursor.is_none() {
            return found;
        }
    }
}

#[test]
fn links_are_looked_up_in_both_directions() {
    let mut links = vec![
        link("1", "2", "mirrors"),
        link("1", "3", "blocks"),
        link("1", "3", "mirrors"),
        link("1", "1", "self"),
        link("2", "1", "mirrors"),
        link("3", "1", "blocks"),
        link("3", "2", "mirrors"),
    ];
    let mut other = link("1", "9", "mirrors");
    other.key.to.kind = "ticket".to_owned();
    links.push(other);
    for limit in [1, 2, 200] {
        let ask = |more: Value| {
            let mut input = json!({"namespace": "n", "from": identifier("1"), "limit": limit});
            input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            lookup(&input, &links)
        };
        assert_eq!(ask(json!({})), ["self:1", "mirrors:2", "blocks:3", "mirrors:3", "mirrors:9"]);
        assert_eq!(ask(json!({"direction": "reverse"})), ["blocks:3", "mirrors:2", "self:1"]);
        assert_eq!(
            ask(json!({"direction": "either", "relation": "mirrors"})),
            ["mirrors:2", "mirrors:3", "mirrors:9", "mirrors:2"]
        );
        assert_eq!(ask(json!({"direction": "either", "relation": "self"})), ["self:1", "self:1"]);
        assert_eq!(ask(json!({"to_type": "ticket"})), ["mirrors:9"]);
        assert_eq!(ask(json!({"right_type": "task", "relation": "blocks"})), ["blocks:3"]);
        assert_eq!(ask(json!({"direction": "reverse", "to_type": "task", "relation": "blocks"})), ["blocks:3"]);
        assert_eq!(ask(json!({"direction": "reverse", "to_type": "ticket"})), [""; 0]);
    }
}

#[test]
fn links_of_a_namespace_are_listed() {
    let links = [link("1", "2", "a"), link("1", "2", "b"), link("2", "1", "a"), link("3", "1", "b")];
    let list = |input: Value| {
        let request: LinksRequest = serde_json::from_value(input).unwrap();
        find(&request.into_query().unwrap(), &links)
    };
    let first = list(json!({"namespace": "n", "limit": 3}));
    assert_eq!(first.matches.len(), 3);
    let cursor = first.next.as_ref().map(LinkPosition::to_cursor);
    let second = list(json!({"namespace": "n", "limit": 3, "cursor": cursor}));
    assert_eq!((second.matches[0].link.key.from.id.as_str(), second.next), ("3", None));
    assert_eq!(list(json!({"namespace": "n", "relation": "b"})).matches.len(), 2);
    assert_eq!(list(json!({"namespace": "n", "left_type": "ticket"})).matches.len(), 0);
    assert_eq!(list(json!({"namespace": "n", "right_type": "task"})).matches.len(), 4);
    for cursor in ["", "x", "[\"forward\"]", "[\"up\",\"\",\"\",\"\",\"\",\"\"]"] {
        let request: LinksRequest = serde_json::from_value(json!({"namespace": "n", "cursor": cursor})).unwrap();
        assert!(request.into_query().unwrap_err().message.contains("cursor is not valid"));
    }
}
