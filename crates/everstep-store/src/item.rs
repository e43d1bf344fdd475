//! An item: everything that one decision writes.

use std::sync::Arc;

use everstep_core::actor::Actor;
use everstep_core::dead_letter::DeadLetter;
use everstep_core::failure::Failure;
use everstep_core::files::FileBinding;
use everstep_core::ids::{CommitId, NodeId, RunId, StepKey, WorkspaceId};
use everstep_core::journal::codec::Row;
use everstep_core::payload::Payload;
use everstep_core::run::keys::HoldKey;
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_core::topics::{TopicEvent, Trigger, WaitShape};
use serde::{Deserialize, Serialize};

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

impl Item {
    /// Whether the run ends with this item.
    pub fn ends_run(&self) -> bool {
        self.projection.as_ref().is_some_and(|projection| projection.ended_at.is_some())
    }
}

/// Rows that are written beside a run, in the transaction of their item: they exist with it or not at all.
///
/// **Invariant**: side writes only insert, and a row that exists does not change. So an item that is resent writes them
/// once, and several items may have the same row: it then exists with the first of them that is written. The exception
/// is `files`, whose rows belong to the run of the item already: binding changes each of them once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SideWrites {
    /// The audit rows of the requests that the item carries out.
    pub audit: Vec<Arc<AuditRow>>,
    /// The events that the run publishes.
    pub published: Vec<Arc<TopicEvent>>,
    /// The work of the run that fails permanently with the item.
    pub dead_letters: Vec<Arc<DeadLetter>>,
    /// The files that the entries of the item bind to its run. Each must be reserved for the run, and not be bound;
    /// otherwise the item is a conflict. Only the items of a commit have them.
    pub files: Vec<FileBinding>,
}

impl SideWrites {
    /// Side writes with one audit row.
    pub fn with_audit(row: Arc<AuditRow>) -> Self {
        Self { audit: vec![row], ..Self::default() }
    }

    /// The size of the rows in bytes, roughly.
    pub fn size(&self) -> usize {
        let audit = self.audit.iter().map(|row| row.size()).sum::<usize>();
        let dead_letters = self.dead_letters.iter().map(|letter| letter.size()).sum::<usize>();
        let published = self.published.iter().map(|event| event.size()).sum::<usize>();
        audit + published + dead_letters + self.files.len() * size_of::<FileBinding>()
    }
}

/// A run that begins with the entries of another one.
#[derive(Clone, Debug, PartialEq)]
pub struct NewFork {
    pub run: RunId,
    /// An entry of the last item that is copied.
    pub at: u64,
    pub now: Timestamp,
    /// The payload of its first entry, if it differs from that of the original: the cause of a fork has another actor.
    pub first_payload: Option<Vec<u8>>,
    /// The data of the original by which the fork is found.
    pub origin: ForkOrigin,
    pub side: SideWrites,
}

/// The data of a run by which its forks are found. The original may be older than the search attributes of its workflow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ForkOrigin {
    pub workflow: String,
    pub input: Payload,
    pub tags: Payload,
    pub search_paths: Arc<[String]>,
    pub is_test: bool,
}

impl NewFork {
    /// A fork whose entries are those of the original, without side writes.
    pub fn new(run: RunId, at: u64, now: Timestamp) -> Self {
        Self { run, at, now, first_payload: None, origin: ForkOrigin::default(), side: SideWrites::default() }
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
    /// The search attributes of the workflow: paths of the input, by which the run is found. It is found by its tags too.
    pub search_paths: Arc<[String]>,
    pub retention_days: u32,
    pub is_test: bool,
    pub created_at: Timestamp,
    /// What has started the run; none if a caller has.
    pub trigger: Option<Trigger>,
    /// The start of a run that begins later.
    pub start: Option<PendingStart>,
}

/// The parts of a start that a run without a journal keeps in its row until it begins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingStart {
    /// The person or the program that starts the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Actor>,
    /// When the run is to begin, also while it is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begin_at: Option<Timestamp>,
    /// The keys of the pauses and resumptions before the run began.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holds: Vec<HoldKey>,
}

impl PendingStart {
    /// The start as JSON, as a run's row holds it.
    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a start is plain data")
    }
}

/// A pause or a resumption of a run without a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldStart {
    pub before: Status,
    pub after: Status,
    pub wake_at: Timestamp,
    /// The start with its new keys; none leaves it as it is.
    pub start: Option<PendingStart>,
}

impl HeldStart {
    /// A pause: the run is never due.
    pub fn pause() -> Self {
        Self { before: Status::Pending, after: Status::Paused, wake_at: Timestamp::NEVER, start: None }
    }

    /// A resumption: the run is due then.
    pub fn resume(wake_at: Timestamp) -> Self {
        Self { before: Status::Paused, after: Status::Pending, wake_at, start: None }
    }
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
    /// Whether the wait names an event of a topic; otherwise only signals resolve it.
    pub by_topic: bool,
}

impl Wait {
    /// The columns by which an event finds the wait.
    pub(crate) fn shape(&self) -> Option<WaitShape> {
        self.by_topic.then(|| WaitShape::of_wait(&self.event, &self.pattern))
    }
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
