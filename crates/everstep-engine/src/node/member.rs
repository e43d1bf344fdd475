//! A node while it is a member of the cluster: its id, its loops, and the handles to them.
//!
//! A node that is fenced stops permanently and joins again, under an id that was never used.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use everstep_core::ids::{NodeId, RunId};
use everstep_core::planted::{self, Bug};
use everstep_core::time::Timestamp;
use tokio::sync::mpsc;

use crate::commit::Committer;
use crate::error::Error;
use crate::message::{Shared, ToClaimer};
use crate::node::claim::Claimer;
use crate::node::permits::RunPermits;
use crate::node::tick::Ticker;
use crate::options::Options;
use crate::ports::World;
use crate::read::Library;
use crate::shard::{DeferredDecisions, Schedule, Services, Shard, ShardSender, ToShard, Watchers, shard_of};
use crate::tasks::Dispatcher;
use crate::topics::EventQueue;
use crate::upkeep::counts::Tally;
use crate::workers::Workers;

pub(crate) struct Member {
    pub(crate) node: NodeId,
    pub(crate) shared: Arc<Shared>,
    pub(crate) shards: Vec<ShardSender>,
    pub(crate) claimer: mpsc::UnboundedSender<ToClaimer>,
    pub(crate) workers: Arc<Workers>,
    pub(crate) dispatcher: Arc<Dispatcher>,
}

impl Member {
    /// Joins the database as a new node and starts all loops.
    pub(crate) async fn join(
        world: &World,
        options: &Options,
        library: &Arc<Library>,
        tally: &Arc<Tally>,
        events: &Arc<EventQueue>,
    ) -> Result<Self, Error> {
        let node = new_id(world, options);
        let sent = world.clock.monotonic();
        let clock = world.runs.join(node, options.node_lease, options.address.clone()).await?;
        if world.runs.is_shared() {
            world.clock.catch_up(clock, sent, world.clock.monotonic());
        }
        tracing::info!(%node, shards = options.shards, "joined");
        Ok(Self::launch(world, options, library, tally, events, (node, sent)))
    }

    /// A node that could not join because the disk is full. It is fenced from its beginning: it owns and writes
    /// nothing, its engine reads, and it joins like any other fenced node.
    pub(crate) fn outside(
        world: &World,
        options: &Options,
        library: &Arc<Library>,
        tally: &Arc<Tally>,
        events: &Arc<EventQueue>,
    ) -> Self {
        let joined = (new_id(world, options), world.clock.monotonic());
        let member = Self::launch(world, options, library, tally, events, joined);
        member.shared.fence();
        member.quit();
        member
    }

    /// Starts the loops of a node, which has joined at a time of the monotonic clock.
    fn launch(
        world: &World,
        options: &Options,
        library: &Arc<Library>,
        tally: &Arc<Tally>,
        events: &Arc<EventQueue>,
        (node, sent): (NodeId, Duration),
    ) -> Self {
        let is_shared = world.runs.is_shared();
        let (committer, proposals) = mpsc::unbounded_channel();
        let (claimer, messages) = mpsc::unbounded_channel();
        let permits = RunPermits::new(options.max_active_runs, claimer.clone());
        let dispatch_until = is_shared.then(|| sent + options.dispatch_for());
        let shared = Arc::new(Shared::new(dispatch_until, permits, Arc::clone(events)));
        let (shards, mailboxes): (Vec<_>, Vec<_>) = (0..options.shards).map(|_| mpsc::unbounded_channel()).unzip();
        let dispatcher = Dispatcher::new(world, Arc::clone(&shared), shards.clone());
        let workers = Workers::new(world.clone(), node, options.worker_lease, shards.clone(), claimer.clone());
        world.spawn.spawn(Box::pin(Arc::clone(&workers).watch()));
        for (index, messages) in mailboxes.into_iter().enumerate() {
            let services = Services {
                world: world.clone(),
                options: options.clone(),
                node,
                index,
                shards: shards.clone(),
                committer: committer.clone(),
                claimer: claimer.clone(),
                dispatcher: Arc::clone(&dispatcher),
                library: Arc::clone(library),
                shared: Arc::clone(&shared),
                tally: Arc::clone(tally),
                workers: Arc::clone(&workers),
                schedule: Schedule::default(),
                watchers: Watchers::default(),
                deferred: DeferredDecisions::default(),
            };
            let shard = Shard::new(services, messages);
            world.spawn.spawn(Box::pin(shard.run()));
        }
        let commit = Committer::new(world.clone(), node, Arc::clone(&shared), shards.clone(), proposals);
        world.spawn.spawn(Box::pin(commit.run()));
        let claim = Claimer {
            world: world.clone(),
            options: options.clone(),
            node,
            shared: Arc::clone(&shared),
            shards: shards.clone(),
            workers: Arc::clone(&workers),
            messages,
            unanswered: None,
            rotation: None,
            last_visited: None,
            last_lane: None,
        };
        if is_shared {
            world.spawn.spawn(Box::pin(Ticker::new(claim, Arc::clone(&dispatcher)).run()));
        } else {
            world.spawn.spawn(Box::pin(claim.run()));
        }
        Self { node, shared, shards, claimer, workers, dispatcher }
    }

    pub(crate) fn tell(&self, run: RunId, message: ToShard) -> Result<(), Error> {
        let shard = &self.shards[shard_of(run, self.shards.len())];
        shard.send(message).map_err(|_| self.shared.end_error())
    }

    /// Ends all loops at once. The nodes that claim its runs perform the work in progress again.
    pub(crate) fn quit(&self) {
        self.shared.is_stopping.store(true, Ordering::SeqCst);
        self.workers.close_all();
        let _ = self.claimer.send(ToClaimer::Stop);
        for shard in &self.shards {
            let _ = shard.send(ToShard::Quit);
        }
    }
}

/// An id that was never used.
fn new_id(world: &World, options: &Options) -> NodeId {
    if let Some(address) = options.address.as_ref().filter(|_| planted::is_planted(Bug::RestartKeepsId)) {
        let name = address.bytes().fold(0, |name: u128, byte| name << 8 | u128::from(byte));
        return NodeId::new(Timestamp::EPOCH, name);
    }
    NodeId::new(world.clock.now(), world.random.next())
}
