//! The messages of other loops to a shard.

use std::sync::Arc;

use everstep_core::failure::Failure;
use everstep_core::ids::{NodeId, RunId, WorkspaceId};
use everstep_core::run::State;
use everstep_core::workflow::Workflow;
use everstep_store::StoredRun;
use tokio::sync::{mpsc, oneshot};

use crate::commit::Verdict;
use crate::error::Error;
use crate::node::permits::{Reservation, RunPermit};
use crate::read::RunSnapshot;
use crate::run::{Envelope, FoldedRun, LookedBack};
use crate::start::StartRequest;
use crate::watch::{Notification, Watcher};
use crate::workers::{Session, WorkerReport};

pub(crate) type ShardSender = mpsc::UnboundedSender<ToShard>;

/// A loaded run, with its state, or why this build cannot run it.
pub(crate) type LoadResult = Result<(StoredRun, Result<FoldedRun, Failure>), Error>;

/// Whether a run is in the memory of its shard.
pub(crate) enum Presence {
    Absent,
    /// It is here. The workflow is unknown while the journal is read, and for a caller of another workspace.
    Present(Option<Arc<Workflow>>),
}

/// A run without a journal, as its node has created it.
pub(crate) struct BeginningRun {
    pub(crate) loaded: Box<StoredRun>,
    pub(crate) workflow: Arc<Workflow>,
    pub(crate) permit: RunPermit,
}

#[expect(clippy::large_enum_variant, reason = "most messages are inputs")]
pub(crate) enum ToShard {
    Start(Box<StartRequest>),
    Input(RunId, Envelope),
    /// A worker's reports on runs of this shard.
    Reports(Arc<Session>, Vec<WorkerReport>),
    /// A leaving worker gives a run's turn back.
    TurnBack(RunId, u32),
    /// The verdicts on items of this shard's runs.
    Settled(Vec<(RunId, Verdict)>),
    Loaded(RunId, Box<LoadResult>),
    /// Runs that this node claimed.
    Claimed(Vec<(RunId, RunPermit)>),
    /// Runs without a journal that this node has created, and owns.
    Begin(Vec<BeginningRun>),
    /// Runs that this node owns in the database; those that are not in memory are loaded. The permits of the claims
    /// that may have claimed them stay reserved until every shard has counted its own.
    Owned(Vec<RunId>, Arc<Reservation>),
    /// A run's state, unless an item of it is in flight. For tests.
    Inspect(RunId, oneshot::Sender<Option<State>>),
    /// The activity of a run that this node owns, unless an item of it is in flight.
    Snapshot(RunId, oneshot::Sender<Option<RunSnapshot>>),
    /// Whether a run is in memory, for a caller of a workspace.
    Find(RunId, WorkspaceId, oneshot::Sender<Presence>),
    /// Answered in its turn: measures how long messages wait.
    Ping(oneshot::Sender<()>),
    Watch(RunId, Watcher),
    /// Another node follows a run.
    Follow(RunId, NodeId),
    /// A run that another node owns has continued, or has ended.
    Notify(RunId, Notification),
    /// A wait of a run has looked back.
    LookedBack(RunId, Box<LookedBack>),
    /// A tick has passed.
    Ticked,
    /// The node clock was stepped forward: timers may be due, and the alarm must be set again.
    ClockStepped,
    /// A task was dropped: a draining shard may have finished.
    TaskDropped,
    /// Start nothing new; reply when no item is in flight and no task is performed.
    Drain(oneshot::Sender<()>),
    /// End the loop.
    Quit,
}
