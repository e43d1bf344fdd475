//! Random op lists: the fold and a naive map agree, and the contents follow from the changes.

use std::collections::{BTreeMap, BTreeSet};

use everstep_core::records::{
    Change, Contents, Effect, Identifier, KnownOp, NamespaceCounts, Op, OpKey, Picture, PictureRequest, RecordLimits,
    fold_all, replay,
};
use everstep_core::time::Timestamp;
use serde_json::{Value, json};

use super::model::Model;
use super::{HERE, at, digest, identifier, op};
use crate::support::{Random, often};

const KEYS: [&str; 4] = ["a", "b", "c", "ä/1"];
const IDS: [&str; 3] = ["1", "2", "3"];

/// A database in memory: it reads pictures that hold only what a batch touches, and writes the differences.
#[derive(Default)]
struct Store {
    namespaces: BTreeMap<String, (NamespaceCounts, Contents)>,
    changes: BTreeMap<String, Vec<Change>>,
    known: BTreeMap<OpKey, KnownOp>,
}

impl Store {
    fn read(&self, request: &PictureRequest<'_>) -> Picture {
        let mut picture = Picture::default();
        for (workspace, name) in &request.namespaces {
            if let Some((counts, _)) = self.namespaces.get(*name) {
                picture.add_namespace(*workspace, name, *counts);
            }
        }
        for (workspace, key) in &request.ops {
            if let Some(known) = self.known.get(*key) {
                picture.add_known(*workspace, (*key).clone(), known.clone());
            }
        }
        for ((workspace, namespace, key), bytes) in &request.records {
            let record = self.namespaces.get(*namespace).and_then(|(_, contents)| contents.records.get(*key));
            if let Some(mut record) = record.cloned() {
                record.value = record.value.filter(|value| value.size() <= *bytes);
                picture.add_record(*workspace, namespace, record);
            }
        }
        for (workspace, namespace, key) in &request.links {
            let link = self.namespaces.get(*namespace).and_then(|(_, contents)| contents.links_by_key().remove(key));
            if let Some(link) = link {
                picture.add_link(*workspace, namespace, link.clone());
            }
        }
        for (workspace, namespace, unlink) in &request.deleted_links {
            for link in self.namespaces.get(*namespace).into_iter().flat_map(|(_, contents)| contents.links.values()) {
                if unlink.selects(link.id, &link.key) {
                    picture.add_link(*workspace, namespace, link.clone());
                }
            }
        }
        picture
    }

    fn write(&mut self, picture: &Picture) {
        for (_, name, namespace) in picture.namespaces() {
            if namespace.changes().is_empty() {
                continue;
            }
            let (counts, contents) = self.namespaces.entry(name.to_owned()).or_default();
            assert_eq!(counts.changes, namespace.changes_before());
            *counts = namespace.counts();
            for (key, record) in namespace.changed_records() {
                match record {
                    Some(record) => _ = contents.records.insert(key.to_owned(), record.clone()),
                    None => _ = contents.records.remove(key),
                }
            }
            for link in namespace.deleted_links() {
                contents.links.remove(&link.id);
            }
            for link in namespace.written_links() {
                contents.links.insert(link.id, link.clone());
            }
            for change in namespace.changes() {
                if let Some(op) = &change.op {
                    let known = KnownOp { digest: op.digest, output: op.output.clone(), pending_in: None };
                    assert_eq!(self.known.insert(op.key.clone(), known), None, "an op key is applied once");
                }
            }
            self.changes.entry(name.to_owned()).or_default().extend(namespace.changes().iter().cloned());
        }
    }
}

/// A random op: a verb and its input.
fn random_op(random: &mut Random) -> (String, Value) {
    let verbs = ["store.set", "store.set", "store.delete", "store.increment", "links.upsert", "links.delete"];
    let (verb, mut input) = if random.chance(20) {
        ("store.transact", random_transaction(random))
    } else {
        let verb = *random.pick(&verbs);
        (verb, random_write(random, verb))
    };
    input["namespace"] = json!(*random.pick(&["n", "m"]));
    (verb.to_owned(), input)
}

fn random_transaction(random: &mut Random) -> Value {
    let check = |random: &mut Random| {
        let key = *random.pick(&KEYS);
        match random.below(4) {
            0 => json!({"key": key, "revision": random.below(4)}),
            1 => json!({"key": key, "change": random.below(12)}),
            2 => json!({"key": key, "exists": random.chance(50)}),
            _ => json!({"key": key, "equals": random_value(random)}),
        }
    };
    let checks: Vec<_> = (0..random.below(3)).map(|_| check(random)).collect();
    let verbs = ["store.set", "store.delete", "store.increment", "links.upsert", "links.delete"];
    let write = |random: &mut Random| {
        let verb = *random.pick(&verbs);
        let name = match verb {
            "links.upsert" => "upsert",
            "links.delete" => "unlink",
            verb => verb.strip_prefix("store.").unwrap(),
        };
        json!({ name: random_write(random, verb) })
    };
    let writes: Vec<_> = (0..=random.below(4)).map(|_| write(random)).collect();
    json!({"checks": checks, "writes": writes})
}

fn random_write(random: &mut Random, verb: &str) -> Value {
    let mut input = json!({});
    if verb.starts_with("store.") {
        input["key"] = json!(*random.pick(&KEYS));
    }
    match verb {
        "store.set" => input["value"] = random_value(random),
        "store.increment" => {
            if random.chance(50) {
                input["by"] = [json!(3), json!(-1), json!(0.5), json!(i64::MAX)][random.below(4)].clone();
            }
            if random.chance(30) {
                input["initial"] = json!(random.below(100));
            }
        }
        "links.upsert" => {
            input["from"] = json!(random_side(random));
            input["to"] = json!(random_side(random));
            if random.chance(50) {
                input["attributes"] = json!({"n": random.below(1_000)});
            }
        }
        "links.delete" => {
            let sides = random.below(3);
            if sides != 1 {
                input["from"] = json!(random_side(random));
            }
            if sides != 0 {
                input["to"] = json!(random_side(random));
            }
        }
        _ => {}
    }
    if verb.starts_with("links.") && random.chance(60) {
        input["relation"] = json!(*random.pick(&["related", "blocks"]));
    }
    if matches!(verb, "store.set" | "store.increment") && random.chance(25) {
        input["ttl_seconds"] = json!(1 + random.below(20));
    }
    if matches!(verb, "store.set" | "store.delete") {
        if random.chance(20) {
            input["if_revision"] = json!(random.below(4));
        }
        if random.chance(8) {
            input["if_change"] = json!(random.below(12));
        }
    }
    input
}

fn random_side(random: &mut Random) -> Identifier {
    let id: &str = random.pick::<&str>(&IDS);
    identifier(id)
}

fn random_value(random: &mut Random) -> Value {
    match random.below(6) {
        0 => json!(null),
        1 => json!({"a": random.below(3)}),
        2 => json!("text"),
        3 => json!([1, "two"]),
        _ => json!(random.below(4)),
    }
}

/// An output without the ids of links, which the model does not make.
fn without_ids(output: &Value) -> Value {
    let mut output = output.clone();
    for result in output.get_mut("results").and_then(Value::as_array_mut).into_iter().flatten() {
        result.as_object_mut().unwrap().remove("link_id");
    }
    output.as_object_mut().unwrap().remove("link_id");
    output
}

#[test]
fn random_op_lists_agree_with_a_naive_map() {
    let mut seen = BTreeSet::new();
    for seed in 0..often(10_000) {
        let mut random = Random::new(seed);
        let (mut store, mut model) = (Store::default(), Model::default());
        let mut second = 0;
        let mut number = 0;
        let mut repeatable: Vec<(String, String, Value)> = Vec::new();
        for _ in 0..=random.below(6) {
            // The node's clock never goes backwards.
            second += random.below(8) as i64;
            let (ops, asked) = random_batch(&mut random, &mut number, &mut repeatable);
            let mut picture = store.read(&PictureRequest::of_ops(&ops));
            let folded = fold_all(&mut picture, &ops, at(second));
            store.write(&picture);
            for ((key, verb, input), folded) in asked.iter().zip(folded) {
                let expected = model.apply(key, verb, input, at(second));
                let result = folded.unwrap().result;
                let found = result.map(|output| without_ids(output.value())).map_err(|failure| failure.code);
                let expected = expected.map(|output| without_ids(&output));
                assert_eq!(found, expected, "seed {seed}: {verb} {input} under {key}");
                seen.insert((verb.clone(), expected.map_err(str::to_owned).err()));
            }
        }
        check_contents(&store, &model, seed, at(second));
    }
    for code in ["CONFLICT", "VALIDATION_ERROR", "IDEMPOTENCY_KEY_REUSED"] {
        assert!(seen.contains(&("store.transact".to_owned(), Some(code.to_owned()))), "{seen:?}");
    }
    assert!(seen.contains(&("links.delete".to_owned(), None)), "{seen:?}");
}

type Asked = (String, String, Value);

/// Some ops; now and then one that repeats the key of an earlier one, with the same or another input.
fn random_batch(random: &mut Random, number: &mut u128, repeatable: &mut Vec<Asked>) -> (Vec<Op>, Vec<Asked>) {
    let (mut ops, mut asked) = (Vec::new(), Vec::new());
    for _ in 0..=random.below(8) {
        *number += 1;
        let (mut verb, mut input) = random_op(random);
        let mut key = OpKey::of_caller("key:1", &number.to_string()).to_string();
        if random.chance(15) && !repeatable.is_empty() {
            let (known, known_verb, known_input) = random.pick(repeatable).clone();
            key = known;
            if random.chance(70) {
                (verb, input) = (known_verb, known_input);
            }
        }
        let mut op = op(*number, &verb, &input);
        op.check(&RecordLimits::default()).unwrap();
        op.key = OpKey::from_stored(&key);
        op.digest = Some(digest(&op.digested_text()));
        ops.push(op);
        asked.push((key, verb, input));
        repeatable.extend(asked.last().cloned());
    }
    (ops, asked)
}

/// The law: the records and links of a namespace are the fold of its changes from the first.
fn check_contents(store: &Store, model: &Model, seed: u64, now: Timestamp) {
    for (name, (counts, contents)) in &store.namespaces {
        let changes = &store.changes[name];
        let numbers: Vec<_> = changes.iter().map(|change| change.number).collect();
        assert_eq!(numbers, (1..=counts.changes).collect::<Vec<_>>(), "seed {seed}: numbered without a gap");
        assert_eq!(replay(changes), *contents, "seed {seed}");
        assert!(changes.iter().all(|change| change.at <= now));
        assert_eq!(counts.keys, contents.records.len() as u64, "seed {seed}");
        assert_eq!(counts.links, contents.links.len() as u64, "seed {seed}");
        let values = contents.records.values().filter_map(|record| record.value.as_ref());
        let attributes = contents.links.values().filter_map(|link| link.attributes.as_ref());
        assert_eq!(counts.bytes, values.chain(attributes).map(|it| it.size() as u64).sum::<u64>(), "seed {seed}");

        let expected = &model.namespaces[name];
        assert_eq!(counts.changes, expected.changes, "seed {seed}");
        assert_eq!(contents.records.len(), expected.records.len(), "seed {seed}");
        for (key, record) in &contents.records {
            let model = &expected.records[key];
            assert_eq!(record.value.as_ref().unwrap().value(), &model.value, "seed {seed}");
            let facts = (record.revision, record.change, record.expires_at);
            assert_eq!(facts, (model.revision, model.change, model.expires_at), "seed {seed}");
        }
        for (key, link) in contents.links_by_key() {
            let sides = (json!(key.from).to_string(), json!(key.to).to_string(), key.relation.clone());
            let model = &expected.links[&sides];
            assert_eq!((link.attributes.as_ref().unwrap().value(), link.change), (&model.attributes, model.change));
        }
        assert_eq!(contents.links.len(), expected.links.len(), "seed {seed}");
        let is_written = |change: &Change| matches!(change.effect, Effect::Written(_) | Effect::Linked(_));
        assert!(changes.iter().any(is_written), "seed {seed}: the first change of a namespace creates something");
    }
}

#[test]
fn an_op_that_deletes_more_links_than_the_picture_holds_waits() {
    let link = |to: &str| json!({"namespace": "n", "from": identifier("1"), "to": identifier(to)});
    let all = json!({"namespace": "n", "from": identifier("1")});
    let ops = [
        op(1, "links.delete", &link("1")),
        op(2, "links.delete", &all),
        op(3, "store.set", &json!({"namespace": "n", "key": "k", "value": 1})),
        op(4, "store.set", &json!({"namespace": "m", "key": "k", "value": 1})),
    ];
    let mut store = Store::default();
    let created = [op(5, "links.upsert", &link("1")), op(6, "links.upsert", &link("2"))];
    let mut picture = store.read(&PictureRequest::of_ops(&created));
    fold_all(&mut picture, &created, at(0));
    store.write(&picture);

    let mut picture = store.read(&PictureRequest::of_ops(&ops));
    picture.set_crowded(HERE, "n");
    let folded = fold_all(&mut picture, &ops, at(0));
    let is_folded: Vec<_> = folded.iter().map(Option::is_some).collect();
    assert_eq!(is_folded, [true, false, false, true], "ops of other namespaces do not wait");
    store.write(&picture);
    let mut picture = store.read(&PictureRequest::of_ops(&ops[1..3]));
    picture.set_crowded(HERE, "n");
    let folded = fold_all(&mut picture, &ops[1..3], at(0));
    assert!(folded.iter().all(Option::is_some), "the first op of a namespace does not wait");
}

#[test]
fn a_repeated_key_depends_on_the_namespace_of_the_first_op() {
    let mut ops = [
        op(1, "store.increment", &json!({"namespace": "n", "key": "k"})),
        op(2, "store.increment", &json!({"namespace": "m", "key": "k"})),
    ];
    ops[1].key = ops[0].key.clone();
    let mut picture = Picture::default();
    let folded = fold_all(&mut picture, &ops, at(0));
    let folded: Vec<_> = folded.into_iter().flatten().collect();
    assert_eq!(folded[0].result, folded[1].result);
    assert_eq!((folded[0].depends_on.as_deref(), folded[1].depends_on.as_deref()), (None, Some("n")));
    assert!(picture.namespace(HERE, "m").is_none_or(|namespace| namespace.changes().is_empty()));
}
