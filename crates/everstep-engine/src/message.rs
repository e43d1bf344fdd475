//! What the loops tell each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use everstep_core::failure::Failure;
use everstep_core::ids::{RunId, WorkspaceId};
use everstep_core::input::{Input, Reply};
use everstep_core::payload::Payload;
use everstep_core::state::State;
use everstep_core::time::Timestamp;
use everstep_core::workflow::Workflow;
use everstep_store::{Gate, InboxId, Item, Loaded, NewRun, Outcome};
use tokio::sync::{Notify, mpsc, oneshot};

use crate::engine::Started;
use crate::error::Error;

pub(crate) type ShardSender = mpsc::UnboundedSender<ToShard>;

/// A run as it was read, with its workflow, or why this build cannot run it.
pub(crate) type Read = Result<(Loaded, Result<Arc<Workflow>, Failure>), Error>;

pub(crate) enum ToShard {
    Start(Box<StartRequest>),
    Mail(RunId, Mail),
    Committed(Vec<(RunId, Verdict)>),
    Loaded(RunId, Box<Read>),
    /// Runs that this node claimed. They are counted as active already.
    Claimed(Vec<RunId>),
    /// Runs that this node owns in the database; those that are not in memory are taken up.
    Owned(Vec<RunId>),
    /// A run's state, unless an item of it is in flight. For tests.
    Inspect(RunId, oneshot::Sender<Option<State>>),
    Watch(RunId, mpsc::UnboundedSender<u64>),
    /// A task was dropped: whoever drains may be done.
    Nudge,
    /// Start nothing new; answer once no item is in flight and no task is performed.
    Drain(oneshot::Sender<()>),
    /// End the loop.
    Quit,
}

pub(crate) struct StartRequest {
    pub(crate) run: RunId,
    pub(crate) workspace: WorkspaceId,
    pub(crate) workflow: Arc<Workflow>,
    pub(crate) new: NewRun,
    pub(crate) input: Payload,
    pub(crate) reply: oneshot::Sender<Result<Started, Error>>,
}

/// An input with its sender's address.
pub(crate) struct Mail {
    pub(crate) input: Input,
    pub(crate) reply: Option<oneshot::Sender<Result<Reply, Error>>>,
    /// The inbox row that brought it, to be deleted with the item that answers it.
    pub(crate) inbox: Option<InboxId>,
    /// The version that the run must have for the input to be taken.
    pub(crate) expected: Option<u64>,
    /// The workspace that the run must belong to for the sender to know of it.
    pub(crate) workspace: Option<WorkspaceId>,
}

impl Mail {
    pub(crate) fn of(input: Input) -> Self {
        Self { input, reply: None, inbox: None, expected: None, workspace: None }
    }

    /// An input that came by the inbox.
    pub(crate) fn arrived(id: InboxId, input: Input) -> Self {
        Self { inbox: Some(id), ..Self::of(input) }
    }

    pub(crate) fn answer(self, answer: Result<Reply, Error>) {
        if let Some(reply) = self.reply {
            // The sender may have gone.
            let _ = reply.send(answer);
        }
    }
}

/// What a shard asks the committer to write.
pub(crate) struct Proposal {
    pub(crate) run: RunId,
    /// Absent only while it is with the store.
    pub(crate) item: Option<Item>,
    pub(crate) bytes: usize,
    pub(crate) shard: usize,
}

impl Proposal {
    pub(crate) fn is_start(&self) -> bool {
        self.item.as_ref().is_some_and(|item| matches!(item.gate, Gate::Start(_)))
    }
}

/// What became of a proposal.
#[derive(Debug)]
pub(crate) enum Verdict {
    Stored(Outcome),
    /// The database refuses this item for ever.
    Refused(String),
    /// There is no room for a new run.
    Full(String),
    /// This node was fenced.
    Fenced,
}

pub(crate) enum ToClaimer {
    /// A run was parked until then.
    Parked(Timestamp),
    /// A run left memory while others wait for room.
    Room,
    /// There may be news in the inbox.
    Inbox,
    Stop,
}

/// What all loops of a node share.
#[derive(Default)]
pub(crate) struct Shared {
    /// Runs that this node owns.
    pub(crate) active: AtomicUsize,
    /// Whether due runs wait for room.
    pub(crate) has_backlog: AtomicBool,
    pub(crate) is_stopping: AtomicBool,
    pub(crate) is_fenced: AtomicBool,
    /// Tasks that handlers are performing.
    pub(crate) performing: AtomicUsize,
    pub(crate) stopped: Notify,
}

impl Shared {
    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }
}

/// A run's place among those that a node owns. Dropping it makes room.
pub(crate) struct Place {
    shared: Arc<Shared>,
    claimer: mpsc::UnboundedSender<ToClaimer>,
}

impl Place {
    /// Takes a place.
    pub(crate) fn take(shared: &Arc<Shared>, claimer: &mpsc::UnboundedSender<ToClaimer>) -> Self {
        shared.active.fetch_add(1, Ordering::SeqCst);
        Self::adopt(shared, claimer)
    }

    /// Answers for a place that the claimer has counted.
    pub(crate) fn adopt(shared: &Arc<Shared>, claimer: &mpsc::UnboundedSender<ToClaimer>) -> Self {
        Self { shared: Arc::clone(shared), claimer: claimer.clone() }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shared.active.fetch_sub(1, Ordering::SeqCst);
        if self.shared.has_backlog.load(Ordering::SeqCst) {
            let _ = self.claimer.send(ToClaimer::Room);
        }
    }
}
