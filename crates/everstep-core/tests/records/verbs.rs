//! Each verb, by example.

use everstep_core::ids::{RunId, StepKey};
use everstep_core::records::{ExpireRequest, GetOutput, OpAction, OpKey, RecordLimits, fold};
use serde_json::json;

use super::{Everything, at, identifier, op};

#[test]
fn a_set_creates_and_replaces() {
    let mut store = Everything::default();
    let first = store.done(0, "store.set", &json!({"namespace": " n ", "key": " k\t", "value": {"a": 1}}));
    assert_eq!(first, json!({"revision": 1, "change": 1, "created": true}));
    let second = store.done(1, "store.set", &json!({"namespace": "n", "key": "k", "value": "text"}));
    assert_eq!(second, json!({"revision": 2, "change": 2, "created": false}));
    let record = &store.contents().records["k"];
    assert_eq!((record.created_at, record.updated_at), (at(0), at(1)));
    assert_eq!(record.value_type.as_str(), "string");
    assert_eq!(store.counts().bytes, 6);
}

#[test]
fn a_set_expects_a_revision_or_a_change() {
    let mut store = Everything::default();
    let set = |conditions: serde_json::Value| {
        let mut input = json!({"namespace": "n", "key": "k", "value": 1});
        input.as_object_mut().unwrap().extend(conditions.as_object().unwrap().clone());
        input
    };
    let absent = store.failure(0, "store.set", &set(json!({"if_revision": 1})));
    assert_eq!((absent.code, absent.revision), ("CONFLICT", Some(0)));
    assert!(absent.message.contains("does not exist"), "{absent}");
    store.done(0, "store.set", &set(json!({"if_revision": 0})));
    let exists = store.failure(0, "store.set", &set(json!({"if_revision": 0})));
    assert_eq!((exists.message.as_str(), exists.revision), ("the record exists, with revision 1", Some(1)));
    store.done(0, "store.set", &set(json!({"if_revision": 1, "if_change": 1})));
    let old = store.failure(0, "store.set", &set(json!({"if_revision": 1})));
    assert_eq!(old.message, "the record has revision 2, and not 1");
    assert!(store.failure(0, "store.set", &set(json!({"if_change": 1}))).message.contains("has change 2"));
    store.done(0, "store.set", &set(json!({"if_change": 2})));
    assert_eq!(store.counts().changes, 3);
}

#[test]
fn a_deleted_record_is_created_again_under_a_new_change() {
    let mut store = Everything::default();
    let key = json!({"namespace": "n", "key": "k"});
    assert_eq!(store.done(0, "store.delete", &key), json!({"deleted": false}));
    assert_eq!(store.counts().changes, 0, "nothing was changed");
    store.done(0, "store.set", &json!({"namespace": "n", "key": "k", "value": 1}));
    let wrong = store.failure(0, "store.delete", &json!({"namespace": "n", "key": "k", "if_revision": 2}));
    assert_eq!((wrong.code, wrong.revision), ("CONFLICT", Some(1)));
    assert_eq!(store.done(0, "store.delete", &key), json!({"deleted": true}));
    assert_eq!((store.counts().keys, store.counts().bytes), (0, 0));
    let again = store.done(0, "store.set", &json!({"namespace": "n", "key": "k", "value": 1, "if_revision": 0}));
    assert_eq!(again, json!({"revision": 1, "change": 3, "created": true}));
}

#[test]
fn increments_are_exact_for_integers() {
    let mut store = Everything::default();
    let by = |by: serde_json::Value| json!({"namespace": "n", "key": "k", "by": by, "initial": 40});
    assert_eq!(store.done(0, "store.increment", &by(json!(2))), json!({"value": 42, "revision": 1, "change": 1}));
    let most = store.done(0, "store.increment", &by(json!(i64::MAX - 42)));
    assert_eq!(most["value"], json!(i64::MAX));
    let overflow = store.failure(0, "store.increment", &by(json!(1)));
    assert_eq!(overflow.code, "VALIDATION_ERROR");
    assert!(overflow.message.contains("exceeds the integers of 64 bits"), "{overflow}");
    assert!(store.failure(0, "store.increment", &by(json!(u64::MAX))).message.contains("exceeds"));
    assert_eq!(store.done(0, "store.increment", &by(json!(-1)))["value"], json!(i64::MAX - 1));
    store.done(0, "store.set", &json!({"namespace": "n", "key": "k", "value": 1}));
    assert_eq!(store.done(0, "store.increment", &by(json!(0.5)))["value"], json!(1.5));
    store.done(0, "store.set", &json!({"namespace": "n", "key": "k", "value": 1e308}));
    let infinite = store.failure(0, "store.increment", &by(json!(1e308)));
    assert!(infinite.message.contains("not a finite number"), "{infinite}");
    for value in [json!("1"), json!(null), json!([1])] {
        store.done(0, "store.set", &json!({"namespace": "n", "key": "k", "value": value}));
        assert_eq!(store.failure(0, "store.increment", &by(json!(1))).code, "VALIDATION_ERROR");
    }
}

#[test]
fn an_expired_record_is_absent_for_every_verb() {
    let mut store = Everything::default();
    let set = json!({"namespace": "n", "key": "k", "value": 7, "ttl_seconds": 10});
    store.done(0, "store.set", &set);
    let record = store.contents().records["k"].clone();
    assert!(GetOutput::of_record(Some(&record), at(9)).found);
    assert_eq!(GetOutput::of_record(Some(&record), at(10)), GetOutput::default());
    assert_eq!(store.done(10, "store.delete", &json!({"namespace": "n", "key": "k"})), json!({"deleted": false}));
    assert_eq!(
        store.failure(10, "store.set", &json!({"namespace": "n", "key": "k", "value": 1, "if_revision": 1})).revision,
        Some(0)
    );
    let counted = store.done(10, "store.increment", &json!({"namespace": "n", "key": "k"}));
    assert_eq!(counted, json!({"value": 1, "revision": 1, "change": 2}));
    assert_eq!(store.contents().records["k"].expires_at, None, "it has not the old expiry");
    assert_ne!(store.contents().records["k"].id, record.id);
    assert_eq!(store.counts().keys, 1, "it was counted until it was replaced");
    let check = json!({"namespace": "n", "checks": [{"key": "k", "exists": false}], "writes": []});
    store.done(11, "store.set", &set);
    store.done(21, "store.transact", &check);
    assert_eq!(store.failure(20, "store.transact", &check).code, "CONFLICT");
}

#[test]
fn an_expiry_of_an_increment_begins_with_the_record() {
    let mut store = Everything::default();
    let window = json!({"namespace": "n", "key": "k", "ttl_seconds": 60});
    store.done(0, "store.increment", &window);
    store.done(59, "store.increment", &window);
    assert_eq!(store.contents().records["k"].expires_at, Some(at(60)));
    assert_eq!(store.done(60, "store.increment", &window)["value"], json!(1));
    // A set without an expiry removes it.
    store.done(61, "store.set", &json!({"namespace": "n", "key": "k", "value": 5}));
    store.done(62, "store.increment", &window);
    assert_eq!(store.contents().records["k"].expires_at, None);
}

#[test]
fn a_swept_record_is_deleted_unless_it_was_written_again() {
    let mut store = Everything::default();
    store.done(0, "store.set", &json!({"namespace": "n", "key": "k", "value": 7, "ttl_seconds": 10}));
    let mut expire = |second, change| {
        let mut op = op(1_000 + change as u128, "store.delete", &json!({"namespace": "n", "key": "k"}));
        op.action = OpAction::Expire(ExpireRequest { key: "k".to_owned(), change });
        op.check(&RecordLimits::default()).unwrap();
        fold(&mut store.picture, &op, at(second)).unwrap().value()["deleted"] == json!(true)
    };
    assert!(!expire(9, 1), "it has not expired");
    assert!(!expire(10, 2), "another change wrote it");
    assert!(expire(10, 1));
    assert_eq!((store.counts().keys, store.counts().changes), (0, 2));
}

#[test]
fn a_link_keeps_its_id_and_replaces_its_attributes() {
    let mut store = Everything::default();
    let link = |attributes| json!({"namespace": "n", "from": identifier("1"), "to": identifier("2"), "attributes": attributes});
    let first = store.done(0, "links.upsert", &link(json!({"a": 1, "b": 2})));
    let second = store.done(5, "links.upsert", &link(json!({"c": 3})));
    assert_eq!((&first["created"], &second["created"]), (&json!(true), &json!(false)));
    assert_eq!(first["link_id"], second["link_id"]);
    let contents = store.contents();
    let found = contents.links.values().next().unwrap();
    assert_eq!((found.attributes.as_ref().unwrap().json(), found.created_at), (r#"{"c":3}"#, at(0)));
    assert_eq!(found.key.relation, "related");
    // Another relation, and the other direction, are other links.
    let blocks = json!({"namespace": "n", "from": identifier("1"), "to": identifier("2"), "relation": "blocks"});
    assert_eq!(store.done(5, "links.upsert", &blocks)["created"], json!(true));
    let back = json!({"namespace": "n", "from": identifier("2"), "to": identifier("1")});
    assert_eq!(store.done(5, "links.upsert", &back)["created"], json!(true));
    assert_eq!((store.counts().links, store.counts().bytes), (3, 11));
}

#[test]
fn links_are_deleted_by_their_sides() {
    let mut store = Everything::default();
    for to in ["a", "b", "c"] {
        store.done(0, "links.upsert", &json!({"namespace": "n", "from": identifier("1"), "to": identifier(to)}));
        let other = json!({"namespace": "n", "from": identifier("2"), "to": identifier(to), "relation": "blocks"});
        store.done(0, "links.upsert", &other);
    }
    let none = store.failure(0, "links.delete", &json!({"namespace": "n", "relation": "blocks"}));
    assert!(none.message.contains("neither from nor to"), "{none}");
    let both = json!({"namespace": "n", "from": identifier("1"), "to": identifier("a"), "relation": "blocks"});
    assert_eq!(store.done(0, "links.delete", &both), json!({"deleted_count": 0}));
    let to = json!({"namespace": "n", "to": identifier("a")});
    assert_eq!(store.done(0, "links.delete", &to), json!({"deleted_count": 2}));
    let from = json!({"namespace": "n", "from": identifier("2"), "relation": "blocks"});
    assert_eq!(store.done(0, "links.delete", &from), json!({"deleted_count": 2}));
    assert_eq!((store.counts().links, store.counts().changes), (2, 10), "one change per link");
}

#[test]
fn one_op_deletes_at_most_ten_thousand_links() {
    let mut store = Everything::default();
    for number in 0..10_001 {
        let link = json!({"namespace": "n", "from": identifier("1"), "to": identifier(&number.to_string())});
        store.done(0, "links.upsert", &link);
    }
    let all = json!({"namespace": "n", "from": identifier("1")});
    let failure = store.failure(0, "links.delete", &all);
    assert_eq!(failure.code, "VALIDATION_ERROR");
    assert!(failure.message.contains("more than 10000 links"), "{failure}");
    assert_eq!(store.counts().links, 10_001);
    // In a transaction, the limit counts for all its parts.
    let parts = json!({"namespace": "n", "writes": [
        {"unlink": {"from": identifier("1"), "to": identifier("7")}}, {"unlink": {"from": identifier("1")}}
    ]});
    assert!(store.failure(0, "store.transact", &parts).message.starts_with("write 1: more than"));
    assert_eq!(store.counts().links, 10_001);
    store.done(0, "links.delete", &json!({"namespace": "n", "from": identifier("1"), "to": identifier("7")}));
    assert_eq!(store.done(0, "links.delete", &all), json!({"deleted_count": 10_000}));
}

#[test]
fn a_transaction_is_whole_or_not_at_all() {
    let mut store = Everything::default();
    store.done(0, "store.set", &json!({"namespace": "n", "key": "a", "value": {"x": 1, "y": [2]}}));
    let transact = |checks, writes| json!({"namespace": "n", "checks": checks, "writes": writes});
    let writes = json!([
        {"set": {"key": "b", "value": "new"}}, {"increment": {"key": "c", "by": 2}}, {"increment": {"key": "c", "by": 3}},
        {"upsert": {"from": identifier("1"), "to": identifier("2")}}, {"delete": {"key": "a"}},
        {"unlink": {"from": identifier("1")}}, {"delete": {"key": "missing"}}
    ]);
    let before = store.counts();
    for (checks, reason) in [
        (json!([{"key": "b", "exists": false}, {"key": "a", "revision": 2}]), "check 1: the record has revision 1"),
        (json!([{"key": "a", "equals": {"x": 2, "y": [2]}}]), "check 0: key \"a\" has another value"),
        (json!([{"key": "b", "equals": null}]), "check 0: key \"b\" has another value"),
        (json!([{"key": "b", "exists": true}]), "check 0: key \"b\" does not exist"),
        (json!([{"key": "a", "exists": false}]), "check 0: key \"a\" exists"),
        (json!([{"key": "a", "change": 0}]), "check 0: the record exists"),
    ] {
        let failure = store.failure(1, "store.transact", &transact(checks, writes.clone()));
        assert_eq!(failure.code, "CONFLICT");
        assert!(failure.message.starts_with(reason), "{failure}");
    }
    let failing = json!([{"set": {"key": "b", "value": 1}}, {"upsert": {"from": identifier("1"), "to": identifier("2")}},
        {"delete": {"key": "a"}}, {"increment": {"key": "b", "by": 1}}, {"set": {"key": "z", "value": 1, "if_revision": 4}}]);
    let failure = store.failure(1, "store.transact", &transact(json!([]), failing));
    assert!(failure.message.starts_with("write 4: the record does not exist"), "{failure}");
    assert_eq!(store.counts(), before, "nothing was written");
    assert_eq!(store.value("a").as_deref(), Some(r#"{"x":1,"y":[2]}"#));

    let checks = json!([{"key": "a", "equals": {"y": [2.0], "x": 1}}, {"key": "a", "revision": 1}, {"key": "b", "exists": false}]);
    let output = store.done(1, "store.transact", &transact(checks, writes));
    assert_eq!(output["changes"], json!([2, 7]));
    let results = output["results"].as_array().unwrap();
    assert_eq!(results[2], json!({"value": 5, "revision": 2, "change": 4}));
    assert_eq!(results[5], json!({"deleted_count": 1}));
    assert_eq!(results[6], json!({"deleted": false}));
    assert_eq!(store.value("a"), None);
    // A transaction without an effect has no changes.
    let nothing = transact(json!([{"key": "b", "exists": true}]), json!([{"delete": {"key": "a"}}]));
    assert_eq!(store.done(1, "store.transact", &nothing)["changes"], json!(null));
}

#[test]
fn a_known_op_returns_its_first_output() {
    let mut store = Everything::default();
    let add = |key: &str, by| json!({"namespace": "n", "key": "k", "by": by, "idempotency_key": key});
    let first = store.done(0, "store.increment", &add("once", 1));
    assert_eq!(store.done(50, "store.increment", &add(" once ", 1)), first);
    assert_eq!(store.done(50, "store.increment", &add("twice", 1))["value"], json!(2));
    let reused = store.failure(50, "store.increment", &add("once", 2));
    assert_eq!(reused.code, "IDEMPOTENCY_KEY_REUSED");
    // An op that failed, or that changed nothing, is evaluated again.
    let set = json!({"namespace": "n", "key": "k", "value": 1, "if_revision": 9, "idempotency_key": "later"});
    assert_eq!(store.failure(50, "store.set", &set).code, "CONFLICT");
    for _ in 0..7 {
        store.done(50, "store.increment", &json!({"namespace": "n", "key": "k"}));
    }
    assert_eq!(store.done(50, "store.set", &set)["revision"], json!(10));
    let delete = json!({"namespace": "n", "key": "other", "idempotency_key": "gone"});
    assert_eq!(store.done(50, "store.delete", &delete), json!({"deleted": false}));
    store.done(50, "store.set", &json!({"namespace": "n", "key": "other", "value": 1}));
    assert_eq!(store.done(50, "store.delete", &delete), json!({"deleted": true}));
    assert_eq!(store.done(50, "store.delete", &delete), json!({"deleted": true}));
}

#[test]
fn the_input_of_a_step_is_not_compared() {
    let mut store = Everything::default();
    let key = OpKey::of_step(RunId::new(at(0), 7), &StepKey::from("each[3].count"));
    assert!(key.as_str().ends_with(":each[3].count") && !key.is_chosen());
    let mut outputs = Vec::new();
    for by in [1, 2] {
        let mut op = op(by, "store.increment", &json!({"namespace": "n", "key": "k", "by": by as u64}));
        (op.key, op.digest) = (key.clone(), Some([by as u8; 32]));
        op.check(&RecordLimits::default()).unwrap();
        outputs.push(fold(&mut store.picture, &op, at(0)).unwrap());
    }
    assert_eq!(outputs[0], outputs[1]);
}

#[test]
fn data_beyond_a_limit_names_the_field_and_the_limit() {
    let mut store = Everything::default();
    let long = "x".repeat(257);
    let set = |key: &str, value: serde_json::Value| json!({"namespace": "n", "key": key, "value": value});
    let with = |input: serde_json::Value, name: &str, value: serde_json::Value| {
        let mut input = input;
        input[name] = value;
        input
    };
    let deep = (0..101).fold(json!(1), |value, _| json!([value]));
    let wide = "é".repeat(256);
    let link = |id: &str| json!({"namespace": "n", "from": {"type": id, "id": id}, "to": {"type": id, "id": id}, "relation": id});
    for (verb, input, reason) in [
        ("store.set", set(&long, json!(1)), "key has 257 characters; at most 256 are allowed"),
        ("store.set", with(set("k", json!(1)), "namespace", json!("..")), "namespace is \"..\""),
        ("store.set", set("k", json!("x".repeat(262_143))), "value has 262145 bytes; at most 262144 are allowed"),
        ("store.set", set("k", deep), "value is nested deeper than 100 levels"),
        (
            "store.set",
            with(set("k", json!(1)), "ttl_seconds", json!(0)),
            "ttl_seconds is 0; it must be from 1 to 31536000",
        ),
        ("store.set", with(set("k", json!(1)), "ttl_seconds", json!(31_536_001)), "ttl_seconds is 31536001"),
        (
            "store.set",
            with(set("k", json!(1)), "value_type", json!("string")),
            "value_type is \"string\" and the value is",
        ),
        (
            "store.increment",
            json!({"namespace": "n", "key": "k", "ttl_seconds": 31_536_001}),
            "ttl_seconds is 31536001",
        ),
        ("links.upsert", with(link("1"), "attributes", json!([1])), "attributes must be a JSON object"),
        (
            "links.upsert",
            with(link("1"), "attributes", json!({"a": "x".repeat(65_536)})),
            "attributes has 65544 bytes; at most 65536",
        ),
        ("links.upsert", with(link("1"), "from", json!({"type": "", "id": "1"})), "from.type is empty"),
        ("links.upsert", link(&wide), "namespace, types, ids and relation of the link have 2561 bytes together"),
        ("store.transact", json!({"namespace": "n"}), "the transaction has 0 checks and writes; it needs 1 to 64"),
        (
            "store.transact",
            json!({"namespace": "n", "checks": [{"key": "k"}]}),
            "check 0: a check needs exactly one of",
        ),
        (
            "store.transact",
            json!({"namespace": "n", "writes": vec![json!({"delete": {"key": "k"}}); 65]}),
            "the transaction has 65",
        ),
        (
            "store.transact",
            json!({"namespace": "n", "writes": vec![json!({"set": {"key": "k", "value": "x".repeat(262_100)}}); 5]}),
            "the checks and writes have 1310515 bytes together; at most 1048576",
        ),
    ] {
        let failure = store.failure(0, verb, &input);
        assert_eq!(failure.code, "VALIDATION_ERROR");
        assert!(failure.message.starts_with(reason), "{failure}");
    }
    assert!(store.picture.namespaces().all(|(_, _, namespace)| namespace.changes().is_empty()));
    // The same texts in characters of one byte fit.
    store.done(0, "links.upsert", &link(&"x".repeat(256)));
}
