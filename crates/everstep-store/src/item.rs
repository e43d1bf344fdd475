//! An item: everything that one decision writes.

use std::sync::Arc;

use everstep_core::failure::Failure;
use everstep_core::ids::{CommitId, NodeId, RunId, StepKey, WorkspaceId};
use everstep_core::journal::codec::Row;
use everstep_core::payload::Payload;
use everstep_core::status::Status;
use everstep_core::time::Timestamp;

use crate::access::AuditRow;

/// Committed completely or not at all.
///
/// **Invariant**: an item updates and deletes only rows of its own run; in other runs it only inserts.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// Identifies this proposal. A resent item keeps it.
    pub commit: CommitId,
    pub run: RunId,
    pub workspace: WorkspaceId,
    pub gate: Gate,
    /// The highest format of its entries, and of the style of its run. If the item starts its run or has a projection,
    /// the format of the run's row is raised to this number, so an item whose format is above that of the row needs a
    /// projection.
    pub format: u32,
    /// In order, without gaps. The first entry is the gate of the others.
    pub entries: Vec<NewEntry>,
    /// The run's row after this item; `None` leaves the row unchanged (as every item of a step does).
    pub projection: Option<Projection>,
    pub waits: Vec<WaitChange>,
    /// Inbox rows that this item answers. They are deleted with it; if one is missing, the item is a conflict.
    pub taken: Vec<InboxId>,
    /// Inputs for other runs that need no reply.
    pub inbox_inputs: Vec<InboxInput>,
    /// Rows of other tables that belong to this item. Most items have none.
    pub side: Option<Box<SideWrites>>,
}

/// Rows that are written beside a run, in the transaction of their item: they exist with it or not at all.
///
/// **Invariant**: side writes only insert, and a row that exists does not change. So an item that is resent writes them
/// once, and several items may have the same row: it then exists with the first of them that is written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SideWrites {
    /// The audit rows of the requests that the item carries out.
    pub audit: Vec<Arc<AuditRow>>,
}

impl SideWrites {
    /// Side writes with one audit row.
    pub fn with_audit(row: Arc<AuditRow>) -> Self {
        Self { audit: vec![row] }
    }

    /// The size of the rows in bytes, roughly.
    pub fn size(&self) -> usize {
        self.audit.iter().map(|row| row.size()).sum()
    }
}

/// The condition under which an item is written.
#[derive(Clone, Debug, PartialEq)]
pub enum Gate {
    /// The run is new: no other run has its idempotency scope and key.
    Start(Box<NewRun>),
    /// The committing node owns the run.
    Owned,
    /// No node owns the run.
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
    /// The workers that the run needs; empty for runs that the server performs itself.
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
    /// When an unowned run is due. `Timestamp::NEVER` for a run that waits without a timeout.
    pub wake_at: Timestamp,
    pub output: Option<Payload>,
    pub error: Option<Failure>,
    pub ended_at: Option<Timestamp>,
    /// The place of a run of a machine. `None` for other styles, whose items then need the shorter statements only.
    pub machine: Option<MachinePlace>,
}

/// The state of a machine in which a run is, and its versionNo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachinePlace {
    pub state: String,
    pub version_no: u32,
}

/// A row of a wait that is inserted or deleted.
#[derive(Clone, Debug, PartialEq)]
pub enum WaitChange {
    Open(Wait),
    Close(StepKey),
}

/// A step that waits for a signal.
#[derive(Clone, Debug, PartialEq)]
pub struct Wait {
    pub step: StepKey,
    pub event: String,
    pub pattern: Payload,
    pub deadline: Option<Timestamp>,
    pub kind: WaitKind,
}

/// What a wait is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitKind {
    /// Any signal.
    #[default]
    Signal,
    /// The decision of a person.
    Approval,
}

impl WaitKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Signal => "signal",
            Self::Approval => "approval",
        }
    }
}

/// An input for another run, written to the inbox by the sender's item.
#[derive(Clone, Debug, PartialEq)]
pub struct InboxInput {
    pub to: RunId,
    /// The input as JSON, as `everstep-engine` writes it.
    pub input: Vec<u8>,
}

/// The id of a row of the inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InboxId(pub i64);

/// The outcome of an inbox input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentInput {
    /// `None` if the input was dropped because its run has ended.
    pub id: Option<InboxId>,
    /// The owner of the receiving run, which can be notified. It may have changed since.
    pub owner: Option<NodeId>,
}

/// The outcome of an item.
#[derive(Clone, Debug, PartialEq)]
pub enum CommitOutcome {
    /// Written now. Contains the outcomes of its inbox inputs, in their order.
    Applied(Vec<SentInput>),
    /// Written before, by the same proposal: an item whose outcome was unknown was resent.
    Duplicate,
    /// Another entry has its first seq, or one of its rows exists: read the journal and decide again.
    Conflict,
    /// The run has another owner (or, for [`Gate::Unowned`], an owner).
    Lost,
    /// A run with that idempotency scope and key already exists.
    Exists(RunId),
}
