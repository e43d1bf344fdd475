//! What the loops tell each other.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use everstep_core::failure::Failure;
use everstep_core::ids::{NodeId, RunId, WorkspaceId};
use everstep_core::payload::Payload;
use everstep_core::run::{Input, Parent, Reply, State};
use everstep_core::time::Timestamp;
use everstep_core::workflow::Workflow;
use everstep_store::{Arrival, Gate, InboxId, Item, Loaded, NewRun, NodeRow, Outcome};
use tokio::sync::{Notify, Semaphore, mpsc, oneshot};

use crate::clock::NodeClock;
use crate::engine::News;
use crate::error::Error;
use crate::look::Look;
use crate::peers::Peer;
use crate::start::Begun;
use crate::workers::{self, Session, WorkerReport};

pub(crate) type ShardSender = mpsc::UnboundedSender<ToShard>;

/// A run as it was read, with its workflow, or why this build cannot run it.
pub(crate) type Read = Result<(Loaded, Result<Arc<Workflow>, Failure>), Error>;

#[expect(clippy::large_enum_variant, reason = "most messages are mail")]
pub(crate) enum ToShard {
    Start(Box<StartRequest>),
    Mail(RunId, Mail),
    /// What a worker says of runs of this shard.
    Reports(Arc<Session>, Vec<WorkerReport>),
    /// A worker that leaves gives a run's turn back.
    TurnBack(RunId, u32),
    Committed(Vec<(RunId, Verdict)>),
    Loaded(RunId, Box<Read>),
    /// Runs that this node claimed. They are counted as active already.
    Claimed(Vec<RunId>),
    /// Runs that this node owns in the database; those that are not in memory are taken up.
    Owned(Vec<RunId>),
    /// A run's state, unless an item of it is in flight. For tests.
    Inspect(RunId, oneshot::Sender<Option<State>>),
    /// What a run that is ours is about, unless an item of it is in flight.
    Look(RunId, oneshot::Sender<Option<Look>>),
    /// Whether a run is in memory.
    Has(RunId, oneshot::Sender<bool>),
    Watch(RunId, Watcher),
    /// Somebody at another node follows a run.
    Follow(RunId, NodeId),
    /// A run that another node owns has gone on, or has ended.
    Told(RunId, News),
    /// A tick has passed.
    Ticked,
    /// A task was dropped: whoever drains may be done.
    Nudge,
    /// Start nothing new; answer once no item is in flight and no task is performed.
    Drain(oneshot::Sender<()>),
    /// End the loop.
    Quit,
}

/// Somebody who follows a run here.
pub(crate) struct Watcher {
    pub(crate) sender: mpsc::UnboundedSender<News>,
    /// Whether only the end is news.
    pub(crate) for_end: bool,
}

impl Watcher {
    /// Tells the news, unless they are none for this watcher. False when nobody listens any more.
    pub(crate) fn tell(&self, news: News) -> bool {
        if self.for_end && matches!(news, News::Written(_)) {
            return !self.sender.is_closed();
        }
        self.sender.send(news).is_ok()
    }
}

pub(crate) struct StartRequest {
    pub(crate) run: RunId,
    pub(crate) workspace: WorkspaceId,
    pub(crate) workflow: Arc<Workflow>,
    pub(crate) new: NewRun,
    pub(crate) input: Payload,
    /// The step that starts it.
    pub(crate) parent: Option<Parent>,
    /// Inbox rows that were there before it.
    pub(crate) arrivals: Vec<Arrival>,
    /// Whether the answer is to tell how the run began.
    pub(crate) is_shown: bool,
    pub(crate) reply: oneshot::Sender<Result<Begun, Error>>,
}

/// An input with its sender's address.
pub(crate) struct Mail {
    pub(crate) input: Input,
    pub(crate) respond: Respond,
    /// The first entry that it wrote, once it is decided; `None` if it wrote none.
    pub(crate) seq: Option<u64>,
    /// The inbox row that brought it, to be deleted with the item that answers it.
    pub(crate) inbox: Option<InboxId>,
    /// The version that the run must have for the input to be taken.
    pub(crate) expected: Option<u64>,
    /// The idempotency key of a signal or control.
    pub(crate) key: Option<String>,
    /// The workspace that the run must belong to for the sender to know of it.
    pub(crate) workspace: Option<WorkspaceId>,
}

impl Mail {
    pub(crate) fn of(input: Input) -> Self {
        Self { input, respond: Respond::Nobody, seq: None, inbox: None, expected: None, key: None, workspace: None }
    }

    /// An input that came by the inbox.
    pub(crate) fn arrived(id: InboxId, input: Input) -> Self {
        Self { inbox: Some(id), ..Self::of(input) }
    }

    /// An inbox row as it was written. One that cannot be read waits for a build that can.
    pub(crate) fn read(arrival: &Arrival) -> Option<Self> {
        match serde_json::from_slice(&arrival.input) {
            Ok(input) => Some(Self::arrived(arrival.id, input)),
            Err(error) => {
                tracing::error!(run = %arrival.run, %error, "an inbox row cannot be read");
                None
            }
        }
    }

    pub(crate) fn answer(self, answer: Result<Reply, Error>) {
        match self.respond {
            Respond::Nobody => {}
            // The sender may have gone.
            Respond::Once(reply) => _ = reply.send(answer),
            Respond::Worker(session, n) => session.put(workers::answer_of(n, self.seq, answer)),
        }
    }
}

/// Who is told what became of an input.
pub(crate) enum Respond {
    Nobody,
    Once(oneshot::Sender<Result<Reply, Error>>),
    /// The worker that sent a report, under this number.
    Worker(Arc<Session>, u64),
}

impl Respond {
    pub(crate) fn is_somebody(&self) -> bool {
        !matches!(self, Self::Nobody)
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
    /// This node was fenced. What was sent before without an answer may have been written all the same.
    Fenced {
        is_unknown: bool,
    },
}

pub(crate) enum ToClaimer {
    /// A run of this lane was parked until then.
    Parked(Arc<str>, Timestamp),
    /// A run left memory while others wait for room, or a worker has come.
    Room,
    /// A worker has room while others wait for it.
    Seats,
    /// There may be news in the inbox.
    Inbox,
    Stop,
}

/// Children that are looked for at once.
const CALLS: usize = 32;

/// What all loops of a node share.
pub(crate) struct Shared {
    /// Runs that this node owns.
    pub(crate) active: AtomicUsize,
    /// Until when, on the monotonic clock, tasks may be dispatched; `None` when nobody else can claim our runs.
    dispatch_until: Option<AtomicU64>,
    /// The other nodes that may be alive, as the last tick saw them.
    peers: RwLock<BTreeMap<NodeId, Peer>>,
    /// Proposals that wait for the committer.
    pub(crate) queued: AtomicUsize,
    /// Says that many proposals wait.
    pub(crate) crowd: Notify,
    /// Items that were refused because another had written, or owned, their run.
    pub(crate) conflicts: AtomicU64,
    /// Whether due runs wait for room.
    pub(crate) has_backlog: AtomicBool,
    pub(crate) is_stopping: AtomicBool,
    pub(crate) is_fenced: AtomicBool,
    /// Tasks that handlers are performing.
    pub(crate) performing: AtomicUsize,
    /// Says that this node was fenced.
    pub(crate) fenced: Notify,
    /// Bounds the children that are looked for at once.
    pub(crate) calls: Semaphore,
}

impl Shared {
    pub(crate) fn new(dispatch_until: Option<Duration>) -> Self {
        Self {
            active: AtomicUsize::new(0),
            dispatch_until: dispatch_until.map(|until| AtomicU64::new(micros(until))),
            peers: RwLock::default(),
            queued: AtomicUsize::new(0),
            crowd: Notify::new(),
            conflicts: AtomicU64::new(0),
            has_backlog: AtomicBool::new(false),
            is_stopping: AtomicBool::new(false),
            is_fenced: AtomicBool::new(false),
            performing: AtomicUsize::new(0),
            fenced: Notify::new(),
            calls: Semaphore::new(CALLS),
        }
    }

    /// This node may not write any more.
    pub(crate) fn fence(&self) {
        // One that has left in order finds so too, by a tick that was under way, and does not join anew.
        if !self.is_stopping() {
            self.is_fenced.store(true, Ordering::SeqCst);
        }
        self.fenced.notify_one();
    }

    /// The lease was renewed.
    pub(crate) fn renewed(&self, until: Duration) {
        if let Some(dispatch_until) = &self.dispatch_until {
            dispatch_until.store(micros(until), Ordering::SeqCst);
        }
    }

    /// Whether tasks may be dispatched: a lease that is nearly over may be another's soon.
    pub(crate) fn may_dispatch(&self, clock: &NodeClock) -> bool {
        let until = self.dispatch_until.as_ref().map(|until| until.load(Ordering::Relaxed));
        until.is_none_or(|until| micros(clock.monotonic()) < until)
    }

    pub(crate) fn see_peers(&self, me: NodeId, nodes: &[NodeRow]) {
        let peers = nodes.iter().filter(|node| node.id != me && !node.fenced && !node.is_expired);
        let peers = peers.filter_map(|node| Some((node.id, Peer { id: node.id, address: node.address.clone()? })));
        *self.peers.write().expect("no holder of the lock panics") = peers.collect();
    }

    pub(crate) fn peer(&self, node: NodeId) -> Option<Peer> {
        self.peers.read().expect("no holder of the lock panics").get(&node).cloned()
    }

    pub(crate) fn peers(&self) -> Vec<Peer> {
        self.peers.read().expect("no holder of the lock panics").values().cloned().collect()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::{BoxFuture, Clock};

    struct Machine(Duration);

    impl Clock for Machine {
        fn monotonic(&self) -> Duration {
            self.0
        }

        fn wall(&self) -> Timestamp {
            Timestamp::EPOCH
        }

        fn sleep(&self, _: Duration) -> BoxFuture {
            Box::pin(std::future::pending())
        }
    }

    #[test]
    fn tasks_are_dispatched_only_while_the_lease_runs() {
        let at = |seconds: u64| NodeClock::new(Arc::new(Machine(Duration::from_secs(seconds))));
        let shared = Shared::new(Some(Duration::from_secs(7)));
        assert!(shared.may_dispatch(&at(6)));
        assert!(!shared.may_dispatch(&at(7)));
        shared.renewed(Duration::from_secs(12));
        assert!(shared.may_dispatch(&at(8)));
        // A heartbeat that was answered so late that it is over by now renews nothing.
        assert!(!shared.may_dispatch(&at(15)));
        assert!(Shared::new(None).may_dispatch(&at(1_000)), "nobody else can claim our runs");
    }
}
