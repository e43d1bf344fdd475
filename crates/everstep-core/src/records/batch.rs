//! A batch of ops: what must be read for it, and the fold of all its ops.

use std::collections::{BTreeMap, BTreeSet};

use super::failure::OpFailure;
use super::fold::fold;
use super::key::OpKey;
use super::limits::INCREMENTED_BYTES_MAX;
use super::link::LinkKey;
use super::op::{Op, OpAction};
use super::picture::Picture;
use super::requests::{TransactRequest, UnlinkRequest, WriteRequest};
use crate::ids::WorkspaceId;
use crate::payload::Payload;
use crate::time::Timestamp;

/// What the picture of a batch holds.
#[derive(Debug, Default)]
pub struct PictureRequest<'a> {
    pub namespaces: BTreeSet<(WorkspaceId, &'a str)>,
    pub ops: BTreeSet<(WorkspaceId, &'a OpKey)>,
    /// Namespaces and keys of records, each with the size up to which its value is read. Most ops need no value.
    pub records: BTreeMap<(WorkspaceId, &'a str, &'a str), usize>,
    pub links: BTreeSet<(WorkspaceId, &'a str, LinkKey)>,
    /// The links that are deleted: all that a request selects, up to one more than an op may delete.
    pub deleted_links: Vec<(WorkspaceId, &'a str, &'a UnlinkRequest)>,
}

impl<'a> PictureRequest<'a> {
    pub fn of_ops(ops: impl IntoIterator<Item = &'a Op>) -> Self {
        let mut request = Self::default();
        for op in ops {
            request.namespaces.insert((op.workspace, &op.namespace));
            request.ops.insert((op.workspace, &op.key));
            match &op.action {
                OpAction::Set(set) => request.add_record(op, &set.key, 0),
                OpAction::Delete(delete) => request.add_record(op, &delete.key, 0),
                OpAction::Increment(increment) => request.add_record(op, &increment.key, INCREMENTED_BYTES_MAX),
                OpAction::Expire(expire) => request.add_record(op, &expire.key, 0),
                OpAction::Upsert(upsert) => request.add_link(op, upsert.link_key()),
                OpAction::Unlink(unlink) => request.add_deleted(op, unlink),
                OpAction::Transact(transact) => request.add_transact(op, transact),
            }
        }
        request
    }

    fn add_transact(&mut self, op: &'a Op, transact: &'a TransactRequest) {
        for check in &transact.checks {
            self.add_record(op, &check.key, if check.equals.is_some() { usize::MAX } else { 0 });
        }
        for write in &transact.writes {
            match write {
                WriteRequest::Set(set) => self.add_record(op, &set.key, 0),
                WriteRequest::Delete(delete) => self.add_record(op, &delete.key, 0),
                WriteRequest::Increment(increment) => self.add_record(op, &increment.key, INCREMENTED_BYTES_MAX),
                WriteRequest::Upsert(upsert) => self.add_link(op, upsert.link_key()),
                WriteRequest::Unlink(unlink) => self.add_deleted(op, unlink),
            }
        }
    }

    fn add_record(&mut self, op: &'a Op, key: &'a str, value_bytes: usize) {
        let read = self.records.entry((op.workspace, &op.namespace, key)).or_default();
        *read = value_bytes.max(*read);
    }

    fn add_link(&mut self, op: &'a Op, key: LinkKey) {
        self.links.insert((op.workspace, &op.namespace, key));
    }

    fn add_deleted(&mut self, op: &'a Op, request: &'a UnlinkRequest) {
        self.deleted_links.push((op.workspace, &op.namespace, request));
    }
}

/// An op of a batch that was folded.
#[derive(Clone, Debug, PartialEq)]
pub struct FoldedOp {
    pub result: Result<Payload, OpFailure>,
    /// Another namespace on whose changes in this batch the result depends: a repeated op with a namespace of its own.
    pub depends_on: Option<String>,
}

/// Folds the ops of a batch in their order. An op without a result must be folded in the next batch, after the changes
/// of this one were written: it deletes so many links that the picture does not hold all of them, and earlier ops of
/// the batch may have deleted some. The ops of its namespace that follow it wait as well.
pub fn fold_all<'a>(
    picture: &mut Picture,
    ops: impl IntoIterator<Item = &'a Op>,
    now: Timestamp,
) -> Vec<Option<FoldedOp>> {
    let mut waiting = BTreeSet::new();
    let mut folded = Vec::new();
    for op in ops {
        let place = (op.workspace, op.namespace.as_str());
        if waiting.contains(&place) || must_wait(picture, op) {
            waiting.insert(place);
            folded.push(None);
            continue;
        }
        let pending_in = picture.known(op).and_then(|known| known.pending_in.clone());
        let depends_on = pending_in.filter(|namespace| *namespace != op.namespace);
        folded.push(Some(FoldedOp { result: fold(picture, op, now), depends_on }));
    }
    folded
}

fn must_wait(picture: &Picture, op: &Op) -> bool {
    let is_changed = picture
        .namespace(op.workspace, &op.namespace)
        .is_some_and(|namespace| namespace.is_crowded() && !namespace.changes().is_empty());
    let deletes_links = || match &op.action {
        OpAction::Unlink(_) => true,
        OpAction::Transact(transact) => transact.writes.iter().any(|write| matches!(write, WriteRequest::Unlink(_))),
        OpAction::Set(_) | OpAction::Delete(_) | OpAction::Increment(_) | OpAction::Expire(_) | OpAction::Upsert(_) => {
            false
        }
    };
    is_changed && deletes_links()
}
