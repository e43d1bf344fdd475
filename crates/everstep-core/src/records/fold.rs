//! Applies one op to a picture.

use super::change::{AppliedOp, Change, Effect};
use super::failure::OpFailure;
use super::op::{Op, OpAction, Verb};
use super::picture::{KnownOp, NamespacePicture, Picture};
use super::{link_writes, transact, write};
use crate::payload::Payload;
use crate::planted::{self, Bug};
use crate::retry::mix;
use crate::time::Timestamp;

/// Applies an op that was checked. Returns its output; after a failure the picture is as it was before.
pub fn fold(picture: &mut Picture, op: &Op, now: Timestamp) -> Result<Payload, OpFailure> {
    if let Some(known) = picture.known(op) {
        return known.answer(op);
    }
    let namespace = picture.namespace_mut(op.workspace, &op.namespace);
    let mark = namespace.begin();
    let performed = Draft { namespace, op, now, ids: 0, deleted_links: 0 }.perform(&op.action);
    let output = match performed {
        Ok(output) => output,
        Err(failure) => {
            if !planted::is_planted(Bug::TransactionHalfApplied) {
                namespace.roll_back(mark);
            }
            return Err(failure);
        }
    };
    if let Some(first) = namespace.change_mut(mark.changes) {
        let stored = if planted::is_planted(Bug::OutputNotSaved) { Payload::null() } else { output.clone() };
        first.op = Some(AppliedOp { key: op.key.clone(), digest: op.digest, output: stored });
        let pending_in = Some(op.namespace.clone());
        let known = KnownOp { digest: op.digest, output: output.clone(), pending_in };
        picture.add_known(op.workspace, op.key.clone(), known);
    }
    Ok(output)
}

/// An op in progress.
pub(super) struct Draft<'a> {
    pub(super) namespace: &'a mut NamespacePicture,
    pub(super) op: &'a Op,
    pub(super) now: Timestamp,
    /// The number of ids that the op has made.
    ids: u64,
    /// The number of links that the op has deleted.
    pub(super) deleted_links: usize,
}

impl Draft<'_> {
    fn perform(&mut self, action: &OpAction) -> Result<Payload, OpFailure> {
        match action {
            OpAction::Set(request) => write::set(self, request),
            OpAction::Delete(request) => write::delete(self, request),
            OpAction::Increment(request) => write::increment(self, request),
            OpAction::Expire(request) => Ok(write::expire(self, request)),
            OpAction::Upsert(request) => Ok(link_writes::upsert(self, request)),
            OpAction::Unlink(request) => link_writes::unlink(self, request),
            OpAction::Transact(request) => transact::transact(self, request),
        }
    }

    /// Adds the change of an effect that the picture already shows.
    pub(super) fn record_change(&mut self, verb: Verb, effect: Effect) {
        let number = self.namespace.next_change();
        let (at, author) = (self.now, self.op.author.clone());
        self.namespace.push_change(Change { number, verb, effect, at, author, op: None });
    }

    /// A random number for a new record or link, from that of the op.
    pub(super) fn next_random(&mut self) -> u128 {
        self.ids += 1;
        let (high, low) = ((self.op.random >> 64) as u64, self.op.random as u64);
        u128::from(mix(high ^ mix(low ^ self.ids))) << 64 | u128::from(mix(low ^ mix(high ^ self.ids)))
    }
}
