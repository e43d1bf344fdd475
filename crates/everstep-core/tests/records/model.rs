//! A naive store: maps that are copied before each op, and the rules in their plainest form.

use std::collections::BTreeMap;

use everstep_core::time::Timestamp;
use serde_json::{Value, json};

/// A side of a link, as JSON text.
type Side = String;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Model {
    pub(super) namespaces: BTreeMap<String, ModelNamespace>,
    /// The verb and the input of each applied op with a chosen key, and its output.
    pub(super) known: BTreeMap<String, (Value, Value)>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ModelNamespace {
    pub(super) changes: u64,
    pub(super) records: BTreeMap<String, ModelRecord>,
    pub(super) links: BTreeMap<(Side, Side, String), ModelLink>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct ModelRecord {
    pub(super) value: Value,
    pub(super) revision: u64,
    pub(super) change: u64,
    pub(super) expires_at: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct ModelLink {
    pub(super) attributes: Value,
    pub(super) change: u64,
}

/// The code of a failure.
pub(super) type Code = &'static str;

impl Model {
    pub(super) fn apply(&mut self, key: &str, verb: &str, input: &Value, now: Timestamp) -> Result<Value, Code> {
        let asked = json!([verb, input]);
        if let Some((known, output)) = self.known.get(key) {
            return if *known == asked { Ok(output.clone()) } else { Err("IDEMPOTENCY_KEY_REUSED") };
        }
        let namespace = self.namespaces.entry(input["namespace"].as_str().unwrap().to_owned()).or_default();
        let mut copy = namespace.clone();
        let output = if verb == "store.transact" { copy.transact(input, now)? } else { copy.write(verb, input, now)? };
        if copy.changes > namespace.changes {
            self.known.insert(key.to_owned(), (asked, output.clone()));
        }
        *namespace = copy;
        Ok(output)
    }
}

impl ModelNamespace {
    fn transact(&mut self, input: &Value, now: Timestamp) -> Result<Value, Code> {
        let first = self.changes + 1;
        for check in input["checks"].as_array().unwrap() {
            let found = self.find(check["key"].as_str().unwrap(), now);
            let holds = if let Some(revision) = check.get("revision") {
                found.map_or(0, |record| record.revision) == revision.as_u64().unwrap()
            } else if let Some(change) = check.get("change") {
                found.map_or(0, |record| record.change) == change.as_u64().unwrap()
            } else if let Some(exists) = check.get("exists") {
                found.is_some() == exists.as_bool().unwrap()
            } else {
                found.is_some_and(|record| record.value == check["equals"])
            };
            if !holds {
                return Err("CONFLICT");
            }
        }
        let mut results = Vec::new();
        for write in input["writes"].as_array().unwrap() {
            let (name, input) = write.as_object().unwrap().iter().next().unwrap();
            let verb = match name.as_str() {
                "upsert" => "links.upsert".to_owned(),
                "unlink" => "links.delete".to_owned(),
                name => format!("store.{name}"),
            };
            results.push(self.write(&verb, input, now)?);
        }
        let changes = if self.changes < first { json!(null) } else { json!([first, self.changes]) };
        Ok(json!({"changes": changes, "results": results}))
    }

    fn write(&mut self, verb: &str, input: &Value, now: Timestamp) -> Result<Value, Code> {
        let key = input["key"].as_str().unwrap_or_default();
        match verb {
            "store.set" => {
                self.expect(input, key, now)?;
                let created = self.find(key, now).is_none();
                let expires_at = input["ttl_seconds"].as_u64().map(|seconds| later(now, seconds));
                let (revision, change) = self.put(key, input["value"].clone(), expires_at, now);
                Ok(json!({"revision": revision, "change": change, "created": created}))
            }
            "store.delete" => {
                self.expect(input, key, now)?;
                let deleted = self.find(key, now).is_some();
                if deleted {
                    self.records.remove(key);
                    self.changes += 1;
                }
                Ok(json!({"deleted": deleted}))
            }
            "store.increment" => {
                let (old, expires_at) = match self.find(key, now) {
                    Some(record) => (record.value.clone(), record.expires_at),
                    None => {
                        let initial = input.get("initial").cloned().unwrap_or(json!(0));
                        (initial, input["ttl_seconds"].as_u64().map(|seconds| later(now, seconds)))
                    }
                };
                let by = input.get("by").cloned().unwrap_or(json!(1));
                let sum = match (old.as_i64(), by.as_i64()) {
                    (Some(old), Some(by)) => json!(old.checked_add(by).ok_or("VALIDATION_ERROR")?),
                    _ => match (old.as_f64(), by.as_f64()) {
                        (Some(old), Some(by)) => json!(old + by),
                        _ => return Err("VALIDATION_ERROR"),
                    },
                };
                let (revision, change) = self.put(key, sum.clone(), expires_at, now);
                Ok(json!({"value": sum, "revision": revision, "change": change}))
            }
            "links.upsert" => {
                let edge = edge(input);
                self.changes += 1;
                let attributes = input.get("attributes").cloned().unwrap_or(json!({}));
                let link = ModelLink { attributes, change: self.changes };
                let created = self.links.insert(edge, link).is_none();
                Ok(json!({"created": created, "change": self.changes}))
            }
            "links.delete" => {
                let matches = |wanted: &Value, found: &Side| wanted.is_null() || [wanted.to_string()].contains(found);
                let before = self.links.len();
                self.links.retain(|(from, to, relation), _| {
                    let is_other = input.get("relation").is_some_and(|wanted| wanted.as_str() != Some(relation));
                    !matches(&input["from"], from) || !matches(&input["to"], to) || is_other
                });
                let deleted = before - self.links.len();
                self.changes += deleted as u64;
                Ok(json!({"deleted_count": deleted}))
            }
            _ => panic!("{verb}"),
        }
    }

    fn find(&self, key: &str, now: Timestamp) -> Option<&ModelRecord> {
        self.records.get(key).filter(|record| record.expires_at.is_none_or(|time| time > now))
    }

    fn expect(&self, input: &Value, key: &str, now: Timestamp) -> Result<(), Code> {
        let found = self.find(key, now);
        let revision = input.get("if_revision").and_then(Value::as_u64);
        let change = input.get("if_change").and_then(Value::as_u64);
        let is_as_expected = revision.is_none_or(|wanted| found.map_or(0, |record| record.revision) == wanted)
            && change.is_none_or(|wanted| found.map_or(0, |record| record.change) == wanted);
        if is_as_expected { Ok(()) } else { Err("CONFLICT") }
    }

    fn put(&mut self, key: &str, value: Value, expires_at: Option<Timestamp>, now: Timestamp) -> (u64, u64) {
        let revision = self.find(key, now).map_or(1, |record| record.revision + 1);
        self.changes += 1;
        let change = self.changes;
        self.records.insert(key.to_owned(), ModelRecord { value, revision, change, expires_at });
        (revision, change)
    }
}

fn edge(input: &Value) -> (Side, Side, String) {
    let relation = input.get("relation").and_then(Value::as_str).unwrap_or("related");
    (input["from"].to_string(), input["to"].to_string(), relation.to_owned())
}

fn later(now: Timestamp, seconds: u64) -> Timestamp {
    now.plus(std::time::Duration::from_secs(seconds))
}
