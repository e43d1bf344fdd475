//! The services of a node for its runs.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use everstep_core::evaluate::Evaluate;
use everstep_core::ids::{CommitId, NodeId, RunId, WorkspaceId};
use everstep_core::meter::Meter;
use everstep_core::run::{Cx, State};
use everstep_core::time::Timestamp;
use everstep_core::topics::TopicEvent;
use everstep_store::{EventRow, Item, SentInput, UnmatchedEvents};
use tokio::sync::mpsc;

use super::deferred::DeferredDecisions;
use super::message::ShardSender;
use super::timers::Schedule;
use super::watchers::Watchers;
use crate::commit::propose::Writer;
use crate::commit::{Proposal, SECOND_BATCH_ITEMS};
use crate::message::{Shared, ToClaimer};
use crate::node::peers::Hint;
use crate::node::permits::{RunPermit, Share};
use crate::observe::{CommittedItem, EndedEvent, EventOutcome};
use crate::options::Options;
use crate::ports::World;
use crate::read::Library;
use crate::tasks::Dispatcher;
use crate::upkeep::counts::Tally;
use crate::watch::Notification;
use crate::workers::Workers;

/// The handles of a node that the runs of a shard use, and the shard's own records.
pub(crate) struct Services {
    pub(crate) world: World,
    pub(crate) options: Options,
    pub(crate) node: NodeId,
    /// The shard's index among `shards`.
    pub(crate) index: usize,
    pub(crate) shards: Vec<ShardSender>,
    pub(crate) committer: mpsc::UnboundedSender<Proposal>,
    pub(crate) claimer: mpsc::UnboundedSender<ToClaimer>,
    pub(crate) dispatcher: Arc<Dispatcher>,
    pub(crate) library: Arc<Library>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) tally: Arc<Tally>,
    pub(crate) workers: Arc<Workers>,
    /// When the shard's runs are due.
    pub(crate) schedule: Schedule,
    /// The followers of the shard's runs.
    pub(crate) watchers: Watchers,
    /// The decisions of workspaces that have used their time.
    pub(crate) deferred: DeferredDecisions,
}

impl Services {
    pub(crate) fn now(&self) -> Timestamp {
        self.world.clock.now()
    }

    pub(crate) fn evaluate(&self) -> &dyn Evaluate {
        &*self.world.evaluate
    }

    /// Reads whether several workspaces use the node.
    pub(super) fn note_sharing(&mut self, now: Duration) {
        self.deferred.set_shared(self.shared.pace.is_shared(now));
    }

    /// The context of a decision.
    pub(crate) fn cx<'a>(&'a self, now: Timestamp, meter: &'a Meter) -> Cx<'a> {
        Cx { now, evaluate: self.evaluate(), meter }
    }

    /// Sends to this shard.
    pub(crate) fn sender(&self) -> &ShardSender {
        &self.shards[self.index]
    }

    /// Whether this node's lease is fresh, so that no other node can own its runs.
    pub(crate) fn may_dispatch(&self) -> bool {
        self.shared.may_dispatch(&self.world.clock)
    }

    /// A permit for a run of a lane and a workspace, if one is free.
    pub(crate) fn try_permit(&self, lane: &str, workspace: WorkspaceId) -> Option<RunPermit> {
        self.shared.permits.try_take(Share::of_lane(lane), workspace)
    }

    /// A permit for a run that this node already owns in the database: see [`RunPermits::take_regardless`].
    ///
    /// [`RunPermits::take_regardless`]: crate::node::permits::RunPermits::take_regardless
    pub(crate) fn permit(&self) -> RunPermit {
        self.shared.permits.take_regardless()
    }

    pub(crate) fn writer(&self, now: Timestamp) -> Writer {
        Writer { node: self.node, commit: CommitId::new(now, self.world.random.next()), now }
    }

    /// Submits an item to the committer.
    pub(crate) fn submit(&self, item: Item, bytes: usize) {
        match self.shared.queued.fetch_add(1, Ordering::Relaxed) + 1 {
            1 => self.shared.pace.begin_waiting(self.world.clock.monotonic()),
            SECOND_BATCH_ITEMS => self.shared.crowd.notify_one(),
            _ => {}
        }
        // The committer exists as long as the shards do.
        let proposal = Proposal { run: item.run, item: Some(Box::new(item)), bytes, shard: self.index };
        let _ = self.committer.send(proposal);
    }

    /// Counts an applied item, and passes it to the observer.
    pub(crate) fn observe(&self, item: &CommittedItem<'_>) {
        self.tally.count_item(item, || self.now());
        self.world.observe.committed(item);
        self.observe_deliveries(item);
    }

    fn observe_deliveries(&self, item: &CommittedItem<'_>) {
        if item.is_test {
            return;
        }
        for delivery in item.delivered() {
            let (workflow, kind, outcome) = (Some(item.workflow), delivery.kind.as_str(), EventOutcome::Delivered);
            self.world.observe.event_ended(&EndedEvent { workflow, kind, outcome });
        }
    }

    /// Requests a read of this node's inbox.
    pub(crate) fn read_inbox(&self) {
        let _ = self.claimer.send(ToClaimer::Inbox);
    }

    /// Makes the nodes that own the receivers of inputs read the inbox; for an unowned receiver, this node.
    pub(crate) fn announce_inbox(&self, sent: &[SentInput]) {
        for sent in sent.iter().filter(|sent| sent.id.is_some()) {
            match sent.owner.filter(|owner| *owner != self.node) {
                None => self.read_inbox(),
                Some(owner) => {
                    if let Some(peer) = self.shared.peer(owner) {
                        self.world.peers.hint(&peer, Hint::Inbox);
                    }
                }
            }
        }
    }

    /// Begins the fan-out of the events that an item has published.
    pub(crate) fn announce_published(&self, published: &[Arc<TopicEvent>]) {
        if !published.is_empty() {
            self.world.observe.events_published(published.len());
            self.shared.events.add(published.iter().map(|event| EventRow::open(TopicEvent::clone(event))));
        }
    }

    /// The planted bug: publishes the events of an item before the item is written.
    #[cold]
    pub(crate) fn publish_early(&self, published: &[Arc<TopicEvent>]) {
        let events: Vec<_> = published.iter().map(|event| TopicEvent::clone(event)).collect();
        if events.is_empty() {
            return;
        }
        let (store, queue) = (Arc::clone(&self.world.topics), Arc::clone(&self.shared.events));
        self.world.spawn.spawn(Box::pin(async move {
            if store.publish(&events, UnmatchedEvents::Open).await.is_ok() {
                queue.add(events.into_iter().map(EventRow::open));
            }
        }));
    }

    /// Announces a parked run: to the claimer, and to the other nodes if it is due.
    pub(crate) fn announce_parked(&self, lane: &Arc<str>, due: Timestamp) {
        if due <= self.now() {
            for peer in self.shared.peers() {
                self.world.peers.hint(&peer, Hint::Work);
            }
        }
        if due < Timestamp::NEVER {
            let _ = self.claimer.send(ToClaimer::Parked(Arc::clone(lane), due));
        }
    }

    /// Notifies all followers of a run that it has continued, here and on other nodes.
    pub(crate) fn notify_watchers(&mut self, state: &State) {
        if self.watchers.is_empty() {
            return;
        }
        let (run, seq, has_ended) = (state.run, state.seq, state.has_ended());
        let notification = if has_ended {
            Notification::Ended(seq)
        } else if state.paused_at().is_some() {
            Notification::Paused(seq)
        } else {
            Notification::Written(seq)
        };
        self.watchers.notify(run, notification);
        if !self.watchers.has_followers() {
            return;
        }
        let now = self.world.clock.monotonic();
        for peer in self.watchers.followers(run, now, has_ended).filter_map(|node| self.shared.peer(node)) {
            let hint = if has_ended { Hint::Ended { run, seq } } else { Hint::Written { run, seq } };
            self.world.peers.hint(&peer, hint);
        }
    }

    /// This node gives up the ownership of a run. If the run is followed here, asks the other nodes to notify this one
    /// when they continue it; without this they are asked in the next tick.
    pub(crate) fn follow_released(&self, run: RunId) {
        if self.watchers.has(run) {
            for peer in self.shared.peers() {
                self.world.peers.hint(&peer, Hint::Watch { run, by: self.node });
            }
        }
    }
}
