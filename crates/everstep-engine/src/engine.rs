//! The handle of the engine, which all other parts use.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use everstep_core::fair_share::ShareBounds;
use everstep_core::ids::{NodeId, RunId, WorkspaceId};
use everstep_core::run::State;
use everstep_core::time::Timestamp;
use everstep_handlers::{Place, Places};
use futures_util::future::{self, BoxFuture, Either};
use tokio::sync::{Notify, oneshot};

use crate::dead_letters::{DeadLetters, Requeuer};
use crate::error::Error;
use crate::node::member::Member;
use crate::node::peers::Hint;
use crate::node::rejoin::Membership;
use crate::options::Options;
use crate::ports::World;
use crate::read::{FollowedRuns, Library, RunReads, RunSnapshot, StartedRows, StepActivity, StepSnapshot};
use crate::records::Records;
use crate::run::EXAMINED_EVENTS_MAX;
use crate::shard::ToShard;
use crate::topics::{EventQueue, FanOut, Topics};
use crate::upkeep::counts::{self, Tally};
use crate::upkeep::sweep;

/// The maximum difference between the clocks of healthy nodes.
const CLOCK_DIFFERENCE_MAX_MICROS: i64 = 1_000_000;

/// A running engine. Cheap to clone.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    world: World,
    topics: Arc<Topics>,
    options: Options,
    library: Arc<Library>,
    followed: FollowedRuns,
    reads: RunReads,
    started_rows: StartedRows,
    /// Changes of the counts of runs that are not yet written.
    tally: Arc<Tally>,
    /// The node that this process is at present; another one after a fence.
    membership: Arc<Membership>,
    /// Bounds the starts and inputs that wait for their commit; workspaces share them.
    pending: Places,
    /// Ends the sweeper.
    stopped: Arc<Notify>,
}

impl Engine {
    /// Joins the database as a new node and starts all loops.
    ///
    /// The future is boxed so that this crate compiles the loops, not each crate that starts an engine.
    pub fn start(world: World, options: Options) -> BoxFuture<'static, Result<Self, Error>> {
        Box::pin(Self::join(world, options))
    }

    async fn join(world: World, options: Options) -> Result<Self, Error> {
        let library = Arc::new(Library::new(world.clone()));
        let tally = Arc::new(Tally::default());
        let events = Arc::new(EventQueue::default());
        let membership = Membership::begin(&world, &options, &library, &tally, &events).await?;
        let (member, clock) = (Arc::downgrade(&membership), Arc::clone(&world.clock));
        // Without a membership, the engine was dropped.
        let may_write = move || member.upgrade().is_some_and(|it| it.member().shared.may_dispatch(&clock));
        world.records.start(&*world.spawn, &world.observe, may_write);
        let topics = Topics::start(&world, &events);
        let requeuer = Requeuer::new(&world, &options, &library, &membership);
        let fan_out = FanOut::new(&world, &options, &library, &tally, &topics, &membership);
        let inner = Arc::new(Inner {
            world: world.clone(),
            topics: Arc::clone(&topics),
            library,
            followed: FollowedRuns::default(),
            reads: RunReads::new(&world.spawn),
            started_rows: StartedRows::default(),
            tally: Arc::clone(&tally),
            membership,
            pending: Places::new(ShareBounds::new(options.max_pending as u64)),
            stopped: Arc::default(),
            options: options.clone(),
        });
        topics.spawn(fan_out.run());
        world.dead_letters.spawn(&*world.spawn, requeuer.run());
        let sweep = sweep::run(world.clone(), options, Arc::clone(&inner.stopped));
        world.spawn.spawn(Box::pin(sweep));
        let count = counts::run(world.clone(), tally);
        world.spawn.spawn(Box::pin(count));
        Ok(Self(inner))
    }

    /// The id under which this node is a member.
    pub fn node(&self) -> NodeId {
        self.0.member().node
    }

    pub fn library(&self) -> &Library {
        &self.0.library
    }

    pub fn world(&self) -> &World {
        &self.0.world
    }

    /// Records and links.
    pub fn records(&self) -> &Records {
        &self.0.world.records
    }

    /// Topics.
    pub fn topics(&self) -> &Topics {
        &self.0.topics
    }

    /// Dead letters.
    pub fn dead_letters(&self) -> &DeadLetters {
        &self.0.world.dead_letters
    }

    pub(crate) fn followed(&self) -> &FollowedRuns {
        &self.0.followed
    }

    pub(crate) fn reads(&self) -> &RunReads {
        &self.0.reads
    }

    pub(crate) fn started_rows(&self) -> &StartedRows {
        &self.0.started_rows
    }

    pub(crate) fn options(&self) -> &Options {
        &self.0.options
    }

    /// The number of runs in the memory of this node.
    pub fn active_runs(&self) -> usize {
        self.0.member().shared.permits.active()
    }

    /// Whether another node has fenced this one and it has not joined again.
    pub fn is_fenced(&self) -> bool {
        self.0.member().shared.is_fenced.load(Ordering::Relaxed)
    }

    /// Decisions of this node that took more than 50 ms.
    pub fn slow_decisions(&self) -> u64 {
        self.0.member().shared.slow_decisions.load(Ordering::Relaxed)
    }

    /// The number of items that were rejected because another node had written, or owned, their run.
    pub fn conflicts(&self) -> u64 {
        self.0.member().shared.conflicts.load(Ordering::Relaxed)
    }

    /// Whether this node's heartbeats succeed, so that it may dispatch tasks.
    pub fn is_in_touch(&self) -> bool {
        self.0.member().shared.may_dispatch(&self.0.world.clock)
    }

    /// The state that this node holds of a run, unless an item of it is in flight.
    pub async fn inspect(&self, run: RunId) -> Option<State> {
        let (reply, answer) = oneshot::channel();
        self.0.member().tell(run, ToShard::Inspect(run, reply)).ok()?;
        answer.await.ok()?
    }

    /// The activity of a run that this node owns; none if it is not in memory, or an item of it is in flight.
    pub async fn snapshot(&self, run: RunId) -> Option<RunSnapshot> {
        let (reply, answer) = oneshot::channel();
        self.0.member().tell(run, ToShard::Snapshot(run, reply)).ok()?;
        answer.await.ok()?
    }

    /// Finds out whether the first open step of a run is a wait that has looked back over as many events as it may. A
    /// parked run is not in memory, so the events before the wait are counted.
    pub async fn count_look_back(&self, workspace: WorkspaceId, snapshot: &mut RunSnapshot) {
        let Some(StepSnapshot { since: Some(opened), activity, .. }) = snapshot.open.first_mut() else { return };
        let StepActivity::Wait { event, look_back: Some(look_back), .. } = activity else { return };
        let period = (look_back.since, *opened);
        let counted = self.world().topics.count_events(workspace, event, period, EXAMINED_EVENTS_MAX + 1).await;
        look_back.is_exhausted = counted.is_ok_and(|count| count > EXAMINED_EVENTS_MAX as u64);
    }

    pub(crate) fn tally(&self) -> &Tally {
        &self.0.tally
    }

    pub(crate) fn member(&self) -> Arc<Member> {
        self.0.member()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.0.membership.is_stopping()
    }

    /// Waits for capacity for a start or an input.
    pub(crate) async fn pending(&self, workspace: WorkspaceId) -> Result<Place, Error> {
        self.0.pending.acquire(workspace, (), 1).await.ok_or(Error::Stopping)
    }

    /// The error for a missing reply: its item may have been in flight when this node stopped or was fenced.
    pub(crate) fn unanswered(&self) -> Error {
        Error::OutcomeUnknown(self.node())
    }

    /// Stops: accepts nothing new, waits up to `grace` for the work in progress, and releases all runs.
    pub async fn stop(&self, grace: Duration) -> Result<(), Error> {
        let member = self.0.membership.stop();
        let drained = member.shards.iter().map(|shard| {
            let (done, drained) = oneshot::channel();
            let _ = shard.send(ToShard::Drain(done));
            drained
        });
        let drained = future::join_all(drained);
        if let Either::Right(_) = future::select(drained, self.0.world.clock.sleep(grace)).await {
            tracing::warn!(
                grace = grace.as_secs_f64(),
                "tasks were still running at the end of the grace period; the next owners of their runs start them \
                 again"
            );
        }
        self.0.stopped.notify_one();
        member.quit();
        // Each of them may wait for the answer to a batch.
        future::join(self.0.world.records.stop(), self.0.topics.stop()).await;
        self.0.world.dead_letters.stop().await;
        self.0.tally.stop(&*self.0.world.runs).await;
        // The clocks of two nodes differ a little. The released runs are due by each of them.
        let now = Timestamp::from_micros(self.0.world.clock.now().micros() - CLOCK_DIFFERENCE_MAX_MICROS);
        self.0.world.runs.leave(member.node, now).await?;
        for peer in member.shared.peers() {
            self.0.world.peers.hint(&peer, Hint::Work);
        }
        Ok(())
    }
}

impl Inner {
    fn member(&self) -> Arc<Member> {
        self.membership.member()
    }
}
