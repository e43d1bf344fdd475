//! What the store gives back.

use std::time::Duration;

use everstep_core::failure::Failure;
use everstep_core::ids::{CommitId, NodeId, RunId, WorkspaceId};
use everstep_core::journal::codec::Row;
use everstep_core::payload::Payload;
use everstep_core::status::Status;
use everstep_core::time::Timestamp;

use crate::item::InboxId;

/// A run's row, whole.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRow {
    pub id: RunId,
    pub workspace: WorkspaceId,
    pub workflow: String,
    pub version: u32,
    pub lane: String,
    pub status: Status,
    pub owner: Option<NodeId>,
    pub wake_at: Timestamp,
    /// The highest event format in its journal.
    pub format: u32,
    pub key: Option<(String, String)>,
    pub input: Payload,
    pub output: Option<Payload>,
    pub error: Option<Failure>,
    pub parent: Option<RunId>,
    /// The run that it was forked from.
    pub origin: Option<RunId>,
    pub tags: Payload,
    pub retention_days: u32,
    pub is_test: bool,
    pub created_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    /// The last seq of its journal: the run's own version. Read at the same moment.
    pub seq: u64,
}

/// A run's row as lists show it: without input and output.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSummary {
    pub id: RunId,
    pub workflow: String,
    pub version: u32,
    pub status: Status,
    pub wake_at: Timestamp,
    pub error: Option<Failure>,
    pub tags: Payload,
    pub created_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub parent: Option<RunId>,
    /// The run that it was forked from.
    pub origin: Option<RunId>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct StoredEntry {
    pub seq: u64,
    pub at: Timestamp,
    pub writer: NodeId,
    /// Stands on the first entry of an item.
    pub commit: Option<CommitId>,
    pub row: Row,
}

/// A folded state, so that a long journal need not be read from its beginning.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    pub seq: u64,
    pub format: u32,
    pub state: Vec<u8>,
}

/// All that is needed to own a run. Read at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    pub run: RunRow,
    pub snapshot: Option<Snapshot>,
    /// The entries after the snapshot, or all of them.
    pub entries: Vec<StoredEntry>,
    /// The inputs that wait in the inbox for this run, oldest first.
    pub inbox: Vec<Arrival>,
    /// The last seq of the journal, and why this build cannot read all of it. `entries` ends before what it cannot.
    pub unreadable: Option<(u64, String)>,
}

/// An input that arrived in the inbox.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrival {
    pub id: InboxId,
    pub run: RunId,
    pub input: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct NewWorkflow {
    pub workspace: WorkspaceId,
    pub name: String,
    pub style: String,
    /// The normalised definition.
    pub definition: Payload,
    /// SHA-256 of the definition, hexadecimal. Empty for a version of code that was named and never brought.
    pub digest: String,
    pub retention_days: u32,
    pub created_at: Timestamp,
}

impl NewWorkflow {
    /// Whether somebody asks for the version who does not have it.
    pub(crate) fn is_only_named(&self) -> bool {
        self.digest.is_empty()
    }
}

/// A workflow as lists show it.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkflowSummary {
    pub name: String,
    /// Of its latest version.
    pub style: String,
    /// The version that new runs take; 0 while none is active.
    pub active_version: u32,
    pub latest_version: u32,
    /// When its latest version was saved.
    pub updated_at: Timestamp,
}

/// A version of a workflow as lists show it.
#[derive(Clone, Debug, PartialEq)]
pub struct VersionRow {
    pub version: u32,
    pub digest: String,
    pub created_at: Timestamp,
    pub retention_days: u32,
    pub is_active: bool,
}

/// For how long the versions of a deleted workflow stay at least, so that a start that has read one may begin.
pub(crate) const GRACE: Duration = Duration::from_secs(86_400);
/// How long the versions of a deleted workflow stay until they are looked at again.
pub(crate) const NEXT_LOOK: Duration = Duration::from_secs(3_600);
/// How many deleted workflows one sweep looks at.
pub(crate) const MOST_LOOKS: usize = 10;
/// How many rows of the audit one sweep deletes for each run that it may delete.
pub(crate) const AUDIT_PER_RUN: usize = 20;
/// How long rows of the audit are kept.
pub(crate) const AUDIT_KEPT: Duration = Duration::from_secs(365 * 86_400);

/// What became of a workflow that was to be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    Deleted,
    NotFound,
    /// So many runs of it have not ended: nothing was done.
    InUse(u64),
}

/// One immutable version of a workflow.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkflowRow {
    pub workspace: WorkspaceId,
    pub name: String,
    pub version: u32,
    pub style: String,
    pub definition: Payload,
    pub digest: String,
    pub retention_days: u32,
    pub created_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq)]
pub struct NodeRow {
    pub id: NodeId,
    pub lease_until: Timestamp,
    pub fenced: bool,
    /// Its lease is over by the database's clock.
    pub is_expired: bool,
    pub address: Option<String>,
}

/// What a node asks for in a tick.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wants {
    /// The lanes it serves, each with the room it has for more runs.
    pub lanes: Vec<(String, usize)>,
    /// How many runs of fenced owners it releases at most.
    pub release: usize,
    /// How many inbox rows it reads at most.
    pub inbox: usize,
}

/// What a node learns in a tick.
#[derive(Clone, Debug, PartialEq)]
pub struct Tick {
    /// The database's clock.
    pub clock: Timestamp,
    /// All nodes in the order in which they joined, this one among them with its new lease.
    pub nodes: Vec<NodeRow>,
    pub released: usize,
    /// The runs that are this node's from now on: lane by lane, oldest first.
    pub claimed: Vec<RunId>,
    /// Inputs for runs that this node may answer, oldest first.
    pub arrivals: Vec<Arrival>,
}

/// One page of a list of runs, newest first.
#[derive(Clone, Debug, PartialEq)]
pub struct RunPage {
    pub runs: Vec<RunSummary>,
    /// Where the next page begins; `None` on the last one.
    pub next: Option<(Timestamp, RunId)>,
}

/// How many runs of a workflow have each status. Test runs are not counted.
#[derive(Clone, Debug, PartialEq)]
pub struct Counts {
    pub workflow: String,
    pub status: Status,
    pub n: i64,
}
