//! Rows of runs and nodes, as the store returns them.

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
