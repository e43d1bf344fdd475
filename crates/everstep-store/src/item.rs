//! An item: all that one decision writes.

use everstep_core::failure::Failure;
use everstep_core::ids::{CommitId, NodeId, RunId, StepKey, WorkspaceId};
use everstep_core::journal::codec::Row;
use everstep_core::payload::Payload;
use everstep_core::status::Status;
use everstep_core::time::Timestamp;

/// Committed whole or not at all.
///
/// **Invariant**: an item updates and deletes only rows of its own run; elsewhere it only inserts.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// Tells this proposal from every other. A resent item keeps it.
    pub commit: CommitId,
    pub run: RunId,
    pub workspace: WorkspaceId,
    pub gate: Gate,
    /// In order, without gaps. The first is the gate of the rest.
    pub entries: Vec<NewEntry>,
    /// The run's row after this item; `None` leaves it as it is (a step's item never touches it).
    pub projection: Option<Projection>,
    pub waits: Vec<Change<Wait>>,
    /// Inbox rows that this item answers. They are deleted with it; one that is gone makes the item a conflict.
    pub taken: Vec<InboxId>,
    /// Inputs for other runs that need no answer.
    pub messages: Vec<Message>,
}

/// What must hold for an item to be written.
#[derive(Clone, Debug, PartialEq)]
pub enum Gate {
    /// The run is new: no other run has its idempotency scope and key.
    Start(Box<NewRun>),
    /// The committing node owns the run.
    Owned,
    /// Nobody owns the run.
    Unowned,
}

#[derive(Clone, Debug, PartialEq)]
pub struct NewEntry {
    pub seq: u64,
    pub at: Timestamp,
    pub row: Row,
}

/// The columns of a run that never change.
#[derive(Clone, Debug, PartialEq)]
pub struct NewRun {
    pub workflow: String,
    pub version: u32,
    /// Which workers the run needs; empty for runs that the server performs by itself.
    pub lane: String,
    /// The idempotency key with its scope: the workflow's name, or empty for the whole workspace.
    pub key: Option<(String, String)>,
    pub input: Payload,
    pub parent: Option<RunId>,
    pub tags: Payload,
    pub retention_days: u32,
    pub is_test: bool,
    pub created_at: Timestamp,
}

/// The columns of a run that change, computed from its state. SQL never derives them.
#[derive(Clone, Debug, PartialEq)]
pub struct Projection {
    pub status: Status,
    pub owner: Option<NodeId>,
    /// When an unowned run is to be claimed. `Timestamp::NEVER` for one that waits without a timeout.
    pub wake_at: Timestamp,
    pub output: Option<Payload>,
    pub error: Option<Failure>,
    pub ended_at: Option<Timestamp>,
}

/// A row that appears or goes.
#[derive(Clone, Debug, PartialEq)]
pub enum Change<T> {
    Open(T),
    Close(StepKey),
}

/// A step that waits for a signal.
#[derive(Clone, Debug, PartialEq)]
pub struct Wait {
    pub step: StepKey,
    pub event: String,
    pub pattern: Payload,
    pub deadline: Option<Timestamp>,
}

/// An input for another run, written in the sender's item.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    pub to: RunId,
    /// The input as JSON, as `everstep-engine` writes it.
    pub input: Vec<u8>,
}

/// A row of the inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InboxId(pub i64);

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// 0 when the message was dropped, because its run has ended.
    pub id: InboxId,
    /// Who owns the addressee, and may be told. A hint: it may have changed by now.
    pub owner: Option<NodeId>,
}

/// What became of an item.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Written now. Holds what became of its messages, in their order.
    Applied(Vec<Sent>),
    /// Written before, by this very proposal: an unknown outcome was resent.
    Duplicate,
    /// Another entry stands at its first place, or one of its rows exists: read the journal and decide again.
    Conflict,
    /// The run is not ours (or not unowned) any more.
    Lost,
    /// A run with that idempotency scope and key exists already.
    Exists(RunId),
}
