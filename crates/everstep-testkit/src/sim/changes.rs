//! What must hold of records, links and their changes at the end of a simulation.
//!
//! 1. The changes of a namespace are numbered from 1 without a gap, and each belongs to one op: the output of an op says
//!    how many changes it made, and they have one author.
//! 2. No op key occurs twice, and a step has at most one op.
//! 3. Records and links are the fold of their changes: a model that knows only the changes has the contents of the
//!    tables. It increments by one, so a counter is the number of its ops.
//! 4. A completed step that wrote has exactly one op, with its output. A step that was not dispatched has none.
//! 5. A request that was answered has exactly one op, with the output of the answer; a rejected one has none.
//! 6. What a step read was written before.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

use everstep_core::ids::{RunId, StepKey, WorkspaceId};
use everstep_core::journal::{Entry, Event};
use everstep_core::payload::Payload;
use everstep_core::records::{Author, LinkQuery, RecordQuery};
use everstep_core::time::Timestamp;
use everstep_store::{ChangeQuery, ChangeRow, ChangeValue, NamespaceQuery};
use serde_json::{Value, json};

use super::callers;
use super::ledger::{Fate, Ledger};
use super::ops::{self, COUNTERS, NAMESPACES, OpStep};
use super::store::SimStore;

/// More than a simulation has of anything.
const PAGE_ITEMS: usize = 200;

/// An op that was applied.
struct StoredOp {
    author: Author,
    action: String,
    output: Payload,
}

/// Ops by their keys.
type Ops = BTreeMap<String, StoredOp>;

pub(super) fn check(
    store: &SimStore,
    journal: impl Fn(RunId) -> Result<Vec<Entry>, String>,
    hasher: &mut impl Hasher,
) -> Result<(), String> {
    let mut ops = Ops::new();
    let mut changes = BTreeMap::new();
    for namespace in NAMESPACES {
        let rows = store.read_changes(namespace);
        group_by_op(namespace, &rows, &mut ops)?;
        let model = Model::fold(namespace, &rows)?;
        model.compare(store, namespace, &rows)?;
        format!("{rows:?}").hash(hasher);
        changes.insert(*namespace, rows);
    }
    let (stored, seen) = (store.count_changes(), changes.values().map(Vec::len).sum::<usize>());
    if stored != seen {
        return Err(format!("{stored} changes are stored, {seen} belong to the namespaces of the graphs"));
    }
    check_calls(&store.ledger(), &ops)?;
    let runs = store.ledger().runs();
    let mut dispatched = BTreeSet::new();
    for run in runs {
        let copied = store.ledger().copied(run);
        for entry in journal(run)?.iter().filter(|entry| entry.seq > copied) {
            match &entry.event {
                Event::StepDispatched { step, .. } => _ = dispatched.insert((run, step.clone())),
                Event::StepCompleted { step, outcome, .. } => {
                    check_step(run, step, outcome.output.value(), &ops, &changes)?;
                }
                _ => {}
            }
        }
    }
    check_authors(&ops, &dispatched)
}

/// Finds the changes of each op.
fn group_by_op(namespace: &str, changes: &[ChangeRow], ops: &mut Ops) -> Result<(), String> {
    if let Some((number, change)) = (1..).zip(changes).find(|(number, change)| change.number != *number) {
        return Err(format!("{namespace}: change {number} is missing, {} follows", change.number));
    }
    let mut rest = changes;
    while let Some(first) = rest.first() {
        let at = format!("{namespace}: change {}", first.number);
        let op = first.op.as_ref().ok_or_else(|| format!("{at} belongs to no op: {first:?}"))?;
        let count = changes_of(op.output.value());
        let own = rest.get(..count).filter(|own| !own.is_empty());
        let own = own.ok_or_else(|| format!("{at} belongs to {}, which has made {count} changes", op.key))?;
        if own[1..].iter().any(|change| change.op.is_some() || change.author != first.author) {
            return Err(format!("{at} is the first of {count} of {}, and others are among them", op.key));
        }
        let (author, action) = (first.author.clone(), first.action.clone());
        let stored = StoredOp { author, action, output: op.output.clone() };
        if ops.insert(op.key.to_string(), stored).is_some() {
            return Err(format!("{at}: {} has been applied before", op.key));
        }
        rest = &rest[count..];
    }
    Ok(())
}

/// The number of changes that an op has made, according to its output.
fn changes_of(output: &Value) -> usize {
    let number = |value: &Value| value.as_u64().unwrap_or_default() as usize;
    match (output.get("changes"), output.get("deleted_count")) {
        (Some(range), _) => (number(&range[1]) + 1).saturating_sub(number(&range[0])),
        (None, Some(count)) => number(count),
        (None, None) => 1,
    }
}

/// The records and links of a namespace, according to its changes.
#[derive(Default)]
struct Model {
    records: BTreeMap<String, ModelRecord>,
    /// By their ids, with the number of the change.
    links: BTreeMap<String, (Value, u64)>,
}

#[derive(Clone, Debug, PartialEq)]
struct ModelRecord {
    value: Value,
    revision: u64,
    change: u64,
    expires_at: Option<Timestamp>,
}

impl Model {
    fn fold(namespace: &str, changes: &[ChangeRow]) -> Result<Self, String> {
        let mut model = Self::default();
        for change in changes {
            model.apply(change).map_err(|fault| format!("{namespace}: {fault}: {change:?}"))?;
        }
        Ok(model)
    }

    fn apply(&mut self, change: &ChangeRow) -> Result<(), &'static str> {
        let subject = &change.subject;
        match change.action.as_str() {
            "store.set" | "store.increment" => self.write(change),
            "store.delete" => match self.live(change) {
                Some(_) if change.value == ChangeValue::None => Ok(_ = self.records.remove(subject)),
                _ => Err("an absent record was deleted"),
            },
            "store.expire" => match (self.records.get(subject), self.live(change)) {
                (Some(_), None) if change.value == ChangeValue::None => Ok(_ = self.records.remove(subject)),
                _ => Err("a sweep has not deleted an expired record"),
            },
            "links.upsert" => {
                let link = written(change)?;
                let is_other = |(id, (other, _)): (&String, &(Value, u64))| id != subject && is_same_edge(other, link);
                if self.links.iter().any(is_other) {
                    return Err("the link exists under another id");
                }
                self.links.insert(subject.clone(), (link.clone(), change.number));
                Ok(())
            }
            "links.delete" => self.links.remove(subject).map(|_| ()).ok_or("an absent link was deleted"),
            _ => Err("unknown action"),
        }
    }

    /// The record of a change as the op found it: an expired one is absent.
    fn live(&self, change: &ChangeRow) -> Option<&ModelRecord> {
        let record = self.records.get(&change.subject)?;
        record.expires_at.is_none_or(|expires_at| expires_at > change.at).then_some(record)
    }

    fn write(&mut self, change: &ChangeRow) -> Result<(), &'static str> {
        let live = self.live(change);
        let value = written(change)?.clone();
        let revision = live.map_or(0, |record| record.revision) + 1;
        if change.revision != Some(revision) {
            return Err("the revision does not follow the one before");
        }
        if change.action == "store.increment" {
            let before = live.map_or(0, |record| record.value.as_i64().unwrap_or_default());
            if value != json!(before + 1) {
                return Err("the value is not one more than before");
            }
            if live.is_some_and(|record| record.expires_at != change.value_expires_at) {
                return Err("an increment has changed the expiry");
            }
        }
        let record = ModelRecord { value, revision, change: change.number, expires_at: change.value_expires_at };
        self.records.insert(change.subject.clone(), record);
        Ok(())
    }

    /// Compares it with the tables.
    fn compare(&self, store: &SimStore, namespace: &str, changes: &[ChangeRow]) -> Result<(), String> {
        let (records, bytes) = store.read_records(namespace);
        if records != self.records {
            let expected = &self.records;
            return Err(format!("{namespace}: its records are not the fold of its changes\n{records:?}\n{expected:?}"));
        }
        let (links, more_bytes) = store.read_links(namespace);
        if links != self.links {
            let expected = &self.links;
            return Err(format!("{namespace}: its links are not the fold of its changes\n{links:?}\n{expected:?}"));
        }
        let counts = [changes.len(), records.len(), links.len(), bytes + more_bytes];
        let stored = store.read_counts(namespace);
        if stored != counts.map(|count| count as u64) {
            return Err(format!("{namespace}: its row has {stored:?}, and not {counts:?}"));
        }
        if namespace == COUNTERS {
            let sum: i64 = records.values().filter_map(|record| record.value.as_i64()).sum();
            if sum != changes.len() as i64 {
                return Err(format!("{namespace}: the counters have {sum} after {} ops", changes.len()));
            }
        }
        Ok(())
    }
}

/// The value that a change wrote.
fn written(change: &ChangeRow) -> Result<&Value, &'static str> {
    match &change.value {
        ChangeValue::Whole(value) => Ok(value.value()),
        ChangeValue::None | ChangeValue::Omitted { .. } => Err("the value is missing"),
    }
}

fn is_same_edge(one: &Value, other: &Value) -> bool {
    ["from", "to", "relation"].iter().all(|field| one.get(field) == other.get(field))
}

/// A request has at most one op, as its replies say.
fn check_calls(ledger: &Ledger, ops: &Ops) -> Result<(), String> {
    for (number, call) in &ledger.calls {
        let op = ops.get(callers::op_key(*number).as_str());
        let is_right = match call.fate() {
            Fate::Accepted => op.map(|op| op.output.value()) == call.answer.as_ref().map(Payload::value),
            Fate::Nothing => op.is_none(),
            Fate::Unknown => true,
        };
        if !is_right {
            let (fate, op) = (call.fate(), op.map(|op| op.output.json()));
            return Err(format!("call {number} was answered {fate:?}, {:?}, and has the op {op:?}", call.answer));
        }
    }
    Ok(())
}

/// A completed step has the effect that its output states.
fn check_step(
    run: RunId,
    step: &StepKey,
    output: &Value,
    ops: &Ops,
    changes: &BTreeMap<&str, Vec<ChangeRow>>,
) -> Result<(), String> {
    match OpStep::from_step(run, step) {
        Some(OpStep::Write { key }) if ops::has_changed(output) => {
            let op = ops.get(&key).ok_or_else(|| format!("{run}: {step} has written {output} and has no op {key}"))?;
            if op.output.value() != output {
                let stored = op.output.json();
                return Err(format!("{run}: {step} has the output {output}, and its op has {stored}"));
            }
        }
        Some(OpStep::Get { namespace, key }) if output["found"] == true => {
            let number = output["change"].as_u64().unwrap_or_default() as usize;
            let change = changes.get(namespace).and_then(|changes| changes.get(number.checked_sub(1)?));
            let is_right = change.is_some_and(|change| {
                let facts = (change.subject.as_str(), change.revision, written(change).ok());
                facts == (key, output["revision"].as_u64(), Some(&output["value"]))
            });
            if !is_right {
                return Err(format!("{run}: {step} has read {output}, and change {number} is {change:?}"));
            }
        }
        Some(OpStep::Lookup) => {
            let links = changes.values().flatten().filter(|change| change.action == "links.upsert");
            let known: BTreeSet<&str> = links.map(|change| change.subject.as_str()).collect();
            let found = output["matches"].as_array().into_iter().flatten();
            if let Some(unknown) = found.filter_map(|found| found["link_id"].as_str()).find(|id| !known.contains(id)) {
                return Err(format!("{run}: {step} has found link {unknown}, which was never written"));
            }
        }
        Some(OpStep::Write { .. } | OpStep::Get { .. }) | None => {}
    }
    Ok(())
}

/// Every op belongs to a step that was dispatched, to a request or to the sweeper; a step has one op at most.
fn check_authors(ops: &Ops, dispatched: &BTreeSet<(RunId, StepKey)>) -> Result<(), String> {
    let mut authors = BTreeSet::new();
    for (key, op) in ops {
        let (Some(run), Some(step)) = (op.author.run, &op.author.step) else {
            let is_expiry = key.starts_with("q:") && op.action == "store.expire";
            if !is_expiry && !key.starts_with("h:") {
                return Err(format!("{key} belongs to no step, no request and not to the sweeper"));
            }
            continue;
        };
        if !dispatched.contains(&(run, step.clone())) {
            return Err(format!("{key} belongs to {step} of {run}, which was never dispatched"));
        }
        if !authors.insert((run, step)) {
            return Err(format!("{run}: {step} has a second op, {key}"));
        }
    }
    Ok(())
}

/// The tables, read without a simulated wire.
impl SimStore {
    fn read_changes(&self, namespace: &str) -> Vec<ChangeRow> {
        let mut changes = Vec::new();
        loop {
            let after = changes.last().map_or(0, |change: &ChangeRow| change.number);
            let query = ChangeQuery { namespace: namespace.to_owned(), after, limit: PAGE_ITEMS, ..Default::default() };
            let page = self.direct(|db| db.list_changes(WorkspaceId::DEFAULT, &query)).expect(IN_MEMORY);
            changes.extend(page.changes);
            if page.next.is_none() {
                return changes;
            }
        }
    }

    /// The records of a namespace, including expired ones, and the bytes of their values.
    fn read_records(&self, namespace: &str) -> (BTreeMap<String, ModelRecord>, usize) {
        let query = RecordQuery { limit: PAGE_ITEMS, ..RecordQuery::new(namespace) };
        let page = self.direct(|db| db.list_records(WorkspaceId::DEFAULT, &query, Timestamp::EPOCH)).expect(IN_MEMORY);
        let bytes = page.records.iter().map(|record| record.bytes).sum();
        let records = page.records.into_iter().map(|record| {
            let value = record.value.as_ref().map_or(Value::Null, |value| value.value().clone());
            let (revision, change, expires_at) = (record.revision, record.change, record.expires_at);
            (record.key, ModelRecord { value, revision, change, expires_at })
        });
        (records.collect(), bytes)
    }

    /// The links of a namespace, and the bytes of their attributes.
    fn read_links(&self, namespace: &str) -> (BTreeMap<String, (Value, u64)>, usize) {
        let query = LinkQuery::new(namespace);
        let page = self.direct(|db| db.list_links(WorkspaceId::DEFAULT, &query)).expect(IN_MEMORY);
        let bytes = page.matches.iter().map(|found| found.link.bytes).sum();
        let links = page.matches.into_iter().map(|found| {
            let mut link = json!(found.link.key);
            link["attributes"] = found.link.attributes.as_ref().map_or(Value::Null, |it| it.value().clone());
            (found.link.id.0.to_string(), (link, found.link.change))
        });
        (links.collect(), bytes)
    }

    /// The numbers in the row of a namespace: changes, records, links, bytes.
    fn read_counts(&self, namespace: &str) -> [u64; 4] {
        let query = NamespaceQuery::by_name(namespace);
        let page = self.direct(|db| db.list_namespaces(WorkspaceId::DEFAULT, &query)).expect(IN_MEMORY);
        let counts = page.namespaces.first().map(|row| row.counts).unwrap_or_default();
        [counts.changes, counts.keys, counts.links, counts.bytes]
    }
}

const IN_MEMORY: &str = "the database is in memory";
