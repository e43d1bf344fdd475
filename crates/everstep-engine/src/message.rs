//! The data that the loops of a node share, and their messages to the claimer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use std::time::Duration;

use everstep_core::ids::{NodeId, RunId};
use everstep_core::time::Timestamp;
use everstep_store::NodeRow;
use tokio::sync::{Notify, Semaphore};

use crate::error::Error;
use crate::node::clock::NodeClock;
use crate::node::peers::Peer;
use crate::node::permits::{Reservation, RunPermits};
use crate::pace::Pace;
use crate::topics::EventQueue;

pub(crate) enum ToClaimer {
    /// A run of this lane was parked until then.
    Parked(Arc<str>, Timestamp),
    /// A permit became free while runs wait for one, or a worker connected: claim in all lanes.
    Room,
    /// A worker has room while runs wait for it.
    Seats,
    /// The inbox may have new rows.
    Inbox,
    /// A statement that may have made this node the owner of runs has no reply.
    Unanswered(Reservation),
    Stop,
}

/// The number of children that are looked up at the same time.
const CHILD_LOOKUPS_MAX: usize = 32;

/// The number of waits that look back at the same time.
const LOOK_BACKS_MAX: usize = 8;

/// The data that all loops of a node share.
pub(crate) struct Shared {
    /// The permits of the runs that this node owns.
    pub(crate) permits: Arc<RunPermits>,
    /// The time on the monotonic clock until which tasks may be dispatched; `None` if no other node can claim our runs.
    dispatch_until: Option<AtomicU64>,
    /// The other nodes that may be alive, as of the last tick.
    peers: RwLock<BTreeMap<NodeId, Peer>>,
    /// Proposals that wait for the committer.
    pub(crate) queued: AtomicUsize,
    /// The times of the committer and the database.
    pub(crate) pace: Pace,
    /// Notifies the committer that many proposals wait.
    pub(crate) crowd: Notify,
    /// Runs that are to end while an item of them is in flight. If the item waits for space, the committer returns it.
    withdrawn: Mutex<BTreeSet<RunId>>,
    /// Items that were rejected because another node had written, or owned, their run.
    pub(crate) conflicts: AtomicU64,
    /// Decisions that took long.
    pub(crate) slow_decisions: AtomicU64,
    pub(crate) is_stopping: AtomicBool,
    pub(crate) is_fenced: AtomicBool,
    /// Tasks that handlers are performing.
    pub(crate) performing: AtomicUsize,
    /// Notifies that this node was fenced.
    pub(crate) fenced: Notify,
    /// Bounds the number of children that are looked up at the same time.
    pub(crate) child_lookups: Semaphore,
    /// Bounds the number of waits that look back at the same time.
    pub(crate) look_backs: Semaphore,
    /// Events whose fan-out this node carries out.
    pub(crate) events: Arc<EventQueue>,
}

impl Shared {
    pub(crate) fn new(dispatch_until: Option<Duration>, permits: Arc<RunPermits>, events: Arc<EventQueue>) -> Self {
        Self {
            permits,
            dispatch_until: dispatch_until.map(|until| AtomicU64::new(micros(until))),
            peers: RwLock::default(),
            queued: AtomicUsize::new(0),
            pace: Pace::default(),
            crowd: Notify::new(),
            withdrawn: Mutex::default(),
            conflicts: AtomicU64::new(0),
            slow_decisions: AtomicU64::new(0),
            is_stopping: AtomicBool::new(false),
            is_fenced: AtomicBool::new(false),
            performing: AtomicUsize::new(0),
            fenced: Notify::new(),
            child_lookups: Semaphore::new(CHILD_LOOKUPS_MAX),
            look_backs: Semaphore::new(LOOK_BACKS_MAX),
            events,
        }
    }

    pub(crate) fn withdrawn(&self) -> MutexGuard<'_, BTreeSet<RunId>> {
        self.withdrawn.lock().expect("no holder of the lock panics")
    }

    /// Makes the committer return the item in flight of a run, if it waits for space.
    pub(crate) fn withdraw(&self, run: RunId) {
        if self.withdrawn().insert(run) {
            self.crowd.notify_one();
        }
    }

    /// Ends this node's right to write.
    pub(crate) fn fence(&self) {
        // A tick in progress reports this also for a node that has left in order, which does not join again.
        if !self.is_stopping() {
            self.is_fenced.store(true, Ordering::SeqCst);
        }
        self.fenced.notify_one();
    }

    /// The reply to an input that a shard received when it had ended: nothing was written. A sender repeats the input if
    /// this node joins again.
    pub(crate) fn end_error(&self) -> Error {
        if self.is_fenced.load(Ordering::SeqCst) {
            return Error::Busy("this node was fenced and joins again; try again".to_owned());
        }
        Error::Stopping
    }

    /// The lease was renewed.
    pub(crate) fn renewed(&self, until: Duration) {
        if let Some(dispatch_until) = &self.dispatch_until {
            dispatch_until.store(micros(until), Ordering::SeqCst);
        }
    }

    /// Whether tasks may be dispatched: after the end of the lease another node may own the runs.
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

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

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
        let permits = RunPermits::new(1, mpsc::unbounded_channel().0);
        let shared = Shared::new(Some(Duration::from_secs(7)), Arc::clone(&permits), Arc::default());
        assert!(shared.may_dispatch(&at(6)));
        assert!(!shared.may_dispatch(&at(7)));
        shared.renewed(Duration::from_secs(12));
        assert!(shared.may_dispatch(&at(8)));
        // A heartbeat whose reply arrived so late that the renewed time has passed renews nothing.
        assert!(!shared.may_dispatch(&at(15)));
        assert!(
            Shared::new(None, permits, Arc::default()).may_dispatch(&at(1_000)),
            "no other node can claim our runs"
        );
    }
}
