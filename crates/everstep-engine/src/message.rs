//! What the loops of a node share, and what they send to the claimer.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use everstep_core::ids::NodeId;
use everstep_core::time::Timestamp;
use everstep_store::NodeRow;
use tokio::sync::{Notify, Semaphore, mpsc};

use crate::clock::NodeClock;
use crate::peers::Peer;

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
