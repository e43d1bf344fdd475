//! Nodes of generated graphs that read and write records and links, and how the judge recognises them.
//!
//! The name of a node says what it does: the judge knows a step by its key alone.

use everstep_core::ids::{RunId, StepKey};
use serde_json::{Value, json};

use super::random::SeededRng;
use super::store::POISON;

/// Records that are only incremented, by one.
pub(super) const COUNTERS: &str = "counters";
/// Counters that expire.
const WINDOWS: &str = "windows";
/// Records that are set and deleted; some of them expire.
pub(super) const VALUES: &str = "values";
/// Counters that transactions increment together.
const PAIRS: &str = "pairs";
/// Counters whose increments have a key that the author has chosen.
const CHOSEN: &str = "chosen";
const LINKS: &str = "links";

/// All namespaces of a simulation.
pub(super) const NAMESPACES: &[&str] = &[COUNTERS, WINDOWS, VALUES, PAIRS, CHOSEN, LINKS];

/// The stem of a node's name, its kind and its config.
pub(super) type OpNode = (String, &'static str, Value);

/// A node that writes, or now and then one that reads.
pub(super) fn make(random: &mut SeededRng) -> OpNode {
    let node = |stem: &str, kind, config| (stem.to_owned(), kind, config);
    match random.below(100) {
        0..22 => node("count", "store.increment", json!({"namespace": COUNTERS, "key": random.pick(&["a", "b"])})),
        22..32 => {
            let seconds = random.between(1, 6);
            node("window", "store.increment", json!({"namespace": WINDOWS, "key": "w", "ttl_seconds": seconds}))
        }
        32..48 => node("set", "store.set", make_set(random)),
        48..54 => node("delete", "store.delete", json!({"namespace": VALUES, "key": random.pick(&["x", "y"])})),
        54..62 => {
            let key = random.pick(&["one", "two"]);
            // Of two runs with different inputs, the second one fails.
            let seconds = if random.chance(30) { json!("{{ctx.input.n + 600}}") } else { json!(600) };
            let config = json!({"namespace": CHOSEN, "key": key, "ttl_seconds": seconds, "idempotency_key": key});
            (format!("chosen-{key}-"), "store.increment", config)
        }
        62..76 => node("pair", "store.transact", make_transact(random)),
        76..84 => {
            let mut config = json!({"namespace": LINKS, "from": identifier(random), "to": identifier(random)});
            config["attributes"] = json!({"n": "{{ctx.input.n}}"});
            node("link", "links.upsert", config)
        }
        84..89 => node("unlink", "links.delete", json!({"namespace": LINKS, "from": identifier(random)})),
        89..96 => {
            let (namespace, key) = *random.pick(&[(COUNTERS, "a"), (WINDOWS, "w"), (VALUES, "x"), (PAIRS, "left")]);
            (format!("get-{namespace}-{key}-"), "store.get", json!({"namespace": namespace, "key": key}))
        }
        _ => {
            let config = json!({"namespace": LINKS, "from": identifier(random), "direction": "either"});
            node("lookup", "links.lookup", config)
        }
    }
}

fn make_set(random: &mut SeededRng) -> Value {
    let value = if random.chance(5) { json!(POISON) } else { json!({"n": "{{ctx.input.n}}"}) };
    let mut config = json!({"namespace": VALUES, "key": random.pick(&["x", "y"]), "value": value});
    if random.chance(50) {
        config["ttl_seconds"] = random.between(1, 6).into();
    }
    if random.chance(25) {
        config["if_revision"] = random.between(0, 2).into();
    }
    config
}

/// Both counters are incremented, or none: the last write may fail.
fn make_transact(random: &mut SeededRng) -> Value {
    let mut writes = vec![json!({"increment": {"key": "left"}}), json!({"increment": {"key": "right"}})];
    if random.chance(60) {
        writes.push(json!({"set": {"key": "last", "value": 1, "if_revision": random.between(0, 2)}}));
    }
    let mut config = json!({"namespace": PAIRS, "writes": writes});
    if random.chance(20) {
        config["checks"] = json!([{"key": "left", "exists": random.chance(80)}]);
    }
    config
}

fn identifier(random: &mut SeededRng) -> Value {
    json!({"type": "task", "id": random.between(1, 3).to_string()})
}

/// What a step does with records and links.
pub(super) enum OpStep<'a> {
    /// An op under this key.
    Write {
        key: String,
    },
    Get {
        namespace: &'a str,
        key: &'a str,
    },
    Lookup,
}

impl<'a> OpStep<'a> {
    /// The role of a step, from the name of its node.
    pub(super) fn from_step(run: RunId, step: &'a StepKey) -> Option<Self> {
        let name = step.node_name();
        let stem = name.trim_end_matches(|last: char| last.is_ascii_digit());
        let mut parts = stem.split('-');
        match parts.next()? {
            "count" | "window" | "set" | "delete" | "pair" | "link" | "unlink" => {
                Some(Self::Write { key: format!("r:{run}:{step}") })
            }
            "chosen" => Some(Self::Write { key: format!("k:store.increment:{}", parts.next()?) }),
            "get" => Some(Self::Get { namespace: parts.next()?, key: parts.next()? }),
            "lookup" => Some(Self::Lookup),
            _ => None,
        }
    }
}

/// Whether the output of a write says that it changed something.
pub(super) fn has_changed(output: &Value) -> bool {
    let is_nothing = output.get("deleted") == Some(&json!(false))
        || output.get("deleted_count") == Some(&json!(0))
        || output.get("changes").is_some_and(Value::is_null);
    !is_nothing
}
