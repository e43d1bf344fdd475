//! A picture: the part of the database that a batch of ops touches.

use std::collections::{BTreeMap, BTreeSet};

use super::change::Change;
use super::failure::OpFailure;
use super::key::OpKey;
use super::link::{Link, LinkKey};
use super::op::Op;
use super::record::Record;
use crate::ids::WorkspaceId;
use crate::payload::Payload;
use crate::time::Timestamp;

/// The namespaces that a batch touches, and the keys of its ops that were applied before.
///
/// A picture holds every record whose key an op of the batch names, every link with the sides and the relation of one
/// that an op writes, and every link that an op deletes. A record or link that it does not contain is absent from the
/// database.
#[derive(Clone, Debug, Default)]
pub struct Picture {
    namespaces: BTreeMap<(WorkspaceId, String), NamespacePicture>,
    known: BTreeMap<(WorkspaceId, OpKey), KnownOp>,
}

/// The part of a namespace that a batch touches.
#[derive(Clone, Debug, Default)]
pub struct NamespacePicture {
    counts: NamespaceCounts,
    /// The number of changes before the batch; 0 if the namespace has no row.
    changes_before: u64,
    records: BTreeMap<String, Record>,
    links: BTreeMap<LinkKey, Link>,
    /// Whether more links are to be deleted than one op may delete, so that the picture does not hold all of them.
    is_crowded: bool,
    changes: Vec<Change>,
    /// What the op in progress has replaced, in its order.
    undo: Vec<Undo>,
}

/// The numbers in the row of a namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NamespaceCounts {
    /// The number of the last change.
    pub changes: u64,
    /// Records, including expired ones that are not yet swept.
    pub keys: u64,
    pub links: u64,
    /// Bytes of values and attributes.
    pub bytes: u64,
}

/// An op that was applied, before this batch or in it.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownOp {
    pub digest: Option<[u8; 32]>,
    pub output: Payload,
    /// The namespace that it has written to in this batch. The answer to a repeated op then depends on that write.
    pub pending_in: Option<String>,
}

#[derive(Clone, Debug)]
enum Undo {
    Record(String, Option<Box<Record>>),
    Link(LinkKey, Option<Box<Link>>),
}

impl Picture {
    /// Adds the row of a namespace.
    pub fn add_namespace(&mut self, workspace: WorkspaceId, name: &str, counts: NamespaceCounts) {
        let namespace = self.namespace_mut(workspace, name);
        (namespace.counts, namespace.changes_before) = (counts, counts.changes);
    }

    pub fn add_record(&mut self, workspace: WorkspaceId, namespace: &str, record: Record) {
        self.namespace_mut(workspace, namespace).records.insert(record.key.clone(), record);
    }

    pub fn add_link(&mut self, workspace: WorkspaceId, namespace: &str, link: Link) {
        self.namespace_mut(workspace, namespace).links.insert(link.key.clone(), link);
    }

    /// Notes that an op of the batch selects more links for deletion than one op may delete, and that the picture holds
    /// only one more than these.
    pub fn set_crowded(&mut self, workspace: WorkspaceId, namespace: &str) {
        self.namespace_mut(workspace, namespace).is_crowded = true;
    }

    /// Adds an op of the batch that was applied before.
    pub fn add_known(&mut self, workspace: WorkspaceId, key: OpKey, known: KnownOp) {
        self.known.insert((workspace, key), known);
    }

    pub fn namespace(&self, workspace: WorkspaceId, name: &str) -> Option<&NamespacePicture> {
        self.namespaces.get(&(workspace, name.to_owned()))
    }

    /// All namespaces, in their order.
    pub fn namespaces(&self) -> impl Iterator<Item = (WorkspaceId, &str, &NamespacePicture)> {
        self.namespaces.iter().map(|((workspace, name), namespace)| (*workspace, name.as_str(), namespace))
    }

    /// The applied op with the key of an op.
    pub fn known(&self, op: &Op) -> Option<&KnownOp> {
        self.known.get(&(op.workspace, op.key.clone()))
    }

    pub(super) fn namespace_mut(&mut self, workspace: WorkspaceId, name: &str) -> &mut NamespacePicture {
        self.namespaces.entry((workspace, name.to_owned())).or_default()
    }
}

impl KnownOp {
    /// The answer to an op that repeats this one.
    pub(super) fn answer(&self, op: &Op) -> Result<Payload, OpFailure> {
        let is_other = self.digest.is_some() && op.digest.is_some() && self.digest != op.digest;
        if op.key.is_chosen() && is_other {
            return Err(OpFailure::key_reused());
        }
        Ok(self.output.clone())
    }
}

impl NamespacePicture {
    pub fn counts(&self) -> NamespaceCounts {
        self.counts
    }

    /// The number of changes before the batch, which is the condition of the write; 0 if the namespace has no row.
    pub fn changes_before(&self) -> u64 {
        self.changes_before
    }

    pub(super) fn is_crowded(&self) -> bool {
        self.is_crowded
    }

    /// The changes of the batch, in their order.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// The keys of the records that the batch has changed, each with the record after the batch.
    pub fn changed_records(&self) -> impl Iterator<Item = (&str, Option<&Record>)> {
        let keys: BTreeSet<&str> = self.changes.iter().filter_map(|change| change.effect.record_key()).collect();
        keys.into_iter().map(|key| (key, self.records.get(key)))
    }

    /// The links that the batch has written and not deleted.
    pub fn written_links(&self) -> impl Iterator<Item = &Link> {
        let keys: BTreeSet<&LinkKey> =
            self.changes.iter().filter_map(|change| change.effect.link()).map(|link| &link.key).collect();
        keys.into_iter().filter_map(|key| self.links.get(key))
    }

    /// The links that the batch has deleted. One that it has created again under another id is among them.
    pub fn deleted_links(&self) -> impl Iterator<Item = &Link> {
        let deleted = self.changes.iter().filter_map(|change| change.effect.deleted_link());
        deleted.filter(|link| self.links.get(&link.key).is_none_or(|present| present.id != link.id))
    }

    pub(super) fn record(&self, key: &str) -> Option<&Record> {
        self.records.get(key)
    }

    /// The record, unless it has expired.
    pub(super) fn live_record(&self, key: &str, now: Timestamp) -> Option<&Record> {
        self.record(key).filter(|record| record.is_live(now))
    }

    pub(super) fn link(&self, key: &LinkKey) -> Option<&Link> {
        self.links.get(key)
    }

    pub(super) fn links(&self) -> impl Iterator<Item = &Link> {
        self.links.values()
    }

    /// The number of the next change.
    pub(super) fn next_change(&self) -> u64 {
        self.counts.changes + 1
    }

    pub(super) fn put_record(&mut self, record: Record) {
        let key = record.key.clone();
        self.counts.bytes += record.bytes as u64;
        let before = self.records.insert(key.clone(), record);
        self.counts.keys += u64::from(before.is_none());
        self.counts.bytes = self.counts.bytes.saturating_sub(before.as_ref().map_or(0, |before| before.bytes as u64));
        self.undo.push(Undo::Record(key, before.map(Box::new)));
    }

    pub(super) fn delete_record(&mut self, key: &str) {
        let Some(before) = self.records.remove(key) else { return };
        self.counts.keys = self.counts.keys.saturating_sub(1);
        self.counts.bytes = self.counts.bytes.saturating_sub(before.bytes as u64);
        self.undo.push(Undo::Record(key.to_owned(), Some(Box::new(before))));
    }

    pub(super) fn put_link(&mut self, link: Link) {
        let key = link.key.clone();
        self.counts.bytes += link.bytes as u64;
        let before = self.links.insert(key.clone(), link);
        self.counts.links += u64::from(before.is_none());
        self.counts.bytes = self.counts.bytes.saturating_sub(before.as_ref().map_or(0, |before| before.bytes as u64));
        self.undo.push(Undo::Link(key, before.map(Box::new)));
    }

    pub(super) fn delete_link(&mut self, key: &LinkKey) -> Option<Link> {
        let before = self.links.remove(key)?;
        self.counts.links = self.counts.links.saturating_sub(1);
        self.counts.bytes = self.counts.bytes.saturating_sub(before.bytes as u64);
        self.undo.push(Undo::Link(key.clone(), Some(Box::new(before.clone()))));
        Some(before)
    }

    pub(super) fn push_change(&mut self, change: Change) {
        self.counts.changes = change.number;
        self.changes.push(change);
    }

    /// The first change of the op that began when there were `changes` changes.
    pub(super) fn change_mut(&mut self, changes: usize) -> Option<&mut Change> {
        self.changes.get_mut(changes)
    }

    /// The state to which a failed op returns.
    pub(super) fn begin(&mut self) -> Mark {
        self.undo.clear();
        Mark { counts: self.counts, changes: self.changes.len() }
    }

    /// Removes everything that the op in progress has done.
    pub(super) fn roll_back(&mut self, mark: Mark) {
        while let Some(undo) = self.undo.pop() {
            match undo {
                Undo::Record(key, Some(before)) => _ = self.records.insert(key, *before),
                Undo::Record(key, None) => _ = self.records.remove(&key),
                Undo::Link(key, Some(before)) => _ = self.links.insert(key, *before),
                Undo::Link(key, None) => _ = self.links.remove(&key),
            }
        }
        self.counts = mark.counts;
        self.changes.truncate(mark.changes);
    }
}

/// The numbers before an op.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    counts: NamespaceCounts,
    pub(super) changes: usize,
}
