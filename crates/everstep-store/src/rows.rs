//! Rows of runs and nodes, as the store returns them.

use std::time::Duration;

use everstep_core::failure::Failure;
use everstep_core::ids::{CommitId, EventId, NodeId, RunId, StepKey, WorkspaceId};
use everstep_core::journal::codec::Row;
use everstep_core::payload::Payload;
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_core::topics::Trigger;
use uuid::Uuid;

use crate::item::{InboxId, MachinePlace, PendingStart};

/// All columns of a run.
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
    /// At least the highest format of its journal. A node claims only runs whose format it knows.
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
    /// What has started the run; none if a caller has.
    pub trigger: Option<Trigger>,
    /// The start of a run that was to begin later.
    pub start: Option<PendingStart>,
    /// `None` for other styles than machines, and for a fork before its first claim.
    pub machine: Option<MachinePlace>,
    /// The last seq of its journal: the run's own version. Read in the same snapshot.
    pub seq: u64,
}

/// The small columns of a run that routing an input needs: no document is read.
#[derive(Clone, Debug, PartialEq)]
pub struct RunGlance {
    pub owner: Option<NodeId>,
    pub status: Status,
    pub workflow: String,
    pub version: u32,
    /// `None` for other styles than machines, and for a fork before its first claim.
    pub machine: Option<MachinePlace>,
}

/// The columns of a run that lists show: without input and output.
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
    pub machine: Option<MachinePlace>,
    /// What has started the run; none if a caller has.
    pub trigger: Option<Trigger>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct StoredEntry {
    pub seq: u64,
    pub at: Timestamp,
    pub writer: NodeId,
    /// Only the first entry of an item has it.
    pub commit: Option<CommitId>,
    pub row: Row,
}

/// A folded state, so that a long journal is not read from its beginning.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    pub seq: u64,
    pub format: u32,
    pub state: Vec<u8>,
}

/// Everything that the owner of a run needs, read in one snapshot of the database.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredRun {
    pub run: RunRow,
    pub snapshot: Option<Snapshot>,
    /// The entries after the snapshot, or all of them.
    pub entries: Vec<StoredEntry>,
    /// The inbox rows of this run, oldest first.
    pub inbox: Vec<InboxRow>,
    /// If this build cannot read the whole journal: its last seq, and the reason. `entries` ends before the entry that
    /// cannot be read.
    pub unreadable: Option<(u64, String)>,
}

impl StoredRun {
    /// Whether the run has a journal. A run that begins later has none.
    pub fn has_begun(&self) -> bool {
        self.run.seq > 0 || self.snapshot.is_some() || !self.entries.is_empty() || self.unreadable.is_some()
    }
}

/// A row of the inbox.
#[derive(Clone, Debug, PartialEq)]
pub struct InboxRow {
    pub id: InboxId,
    pub run: RunId,
    pub input: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct NodeRow {
    pub id: NodeId,
    pub lease_until: Timestamp,
    pub fenced: bool,
    /// Its lease has ended by the database's clock.
    pub is_expired: bool,
    pub address: Option<String>,
}

/// An event whose fan-out is not done after this time is reported by a tick.
const STALLED_AFTER: Duration = Duration::from_secs(2);

/// The smallest id of the events that are too young at `now` to be reported by a tick.
pub(crate) fn first_event_of(now: Timestamp) -> Uuid {
    let age = i64::try_from(STALLED_AFTER.as_micros()).unwrap_or(i64::MAX);
    EventId::new(Timestamp::from_micros(now.micros().saturating_sub(age)), 0).uuid()
}

/// The request of a node in a tick.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TickRequest {
    /// The lanes that it serves, each with the number of runs for which it has room.
    pub lanes: Vec<(String, usize)>,
    /// The workspace after which the claim of the server's own lane begins.
    pub rotation: Option<WorkspaceId>,
    /// The maximum number of runs of fenced owners to release.
    pub release: usize,
    /// The maximum number of inbox rows to read.
    pub inbox: usize,
}

/// The result of a tick.
#[derive(Clone, Debug, PartialEq)]
pub struct Tick {
    /// The database's clock.
    pub clock: Timestamp,
    /// All nodes in the order in which they joined, this one among them with its new lease.
    pub nodes: Vec<NodeRow>,
    pub released: usize,
    /// The runs that this node owns from now on: lane by lane, in the order of [`crate::ClaimResult`].
    pub claimed: Vec<RunId>,
    /// The workspace after which the next claim of the server's own lane begins.
    pub rotation: Option<WorkspaceId>,
    /// Inputs for runs that this node may answer, oldest first.
    pub arrivals: Vec<InboxRow>,
    /// Whether the fan-out of an event that was published more than two seconds ago is not done.
    pub has_open_events: bool,
}

/// One page of a list of runs, newest first.
#[derive(Clone, Debug, PartialEq)]
pub struct RunPage {
    pub runs: Vec<RunSummary>,
    /// Where the next page begins; `None` on the last one.
    pub next: Option<(Timestamp, RunId)>,
    /// How many runs were examined for it, those of the page included.
    pub scanned: usize,
}

/// The number of runs of a workflow in a status. Test runs are not counted.
#[derive(Clone, Debug, PartialEq)]
pub struct Counts {
    pub workflow: String,
    pub status: Status,
    pub n: i64,
}

/// A wait of a run that has not ended.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitRow {
    pub run: RunId,
    pub workflow: String,
    pub step: StepKey,
    pub event: String,
    pub pattern: Payload,
    pub deadline: Option<Timestamp>,
}
