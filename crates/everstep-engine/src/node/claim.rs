//! Takes ownership of due runs that no node owns, and reads the inbox.
//!
//! **Invariant**: a run that has not ended is owned by a live node, or claimable now, or has a wake time.
//!
//! The loop here is for a database that no other node uses, and does not poll it. It wakes when the next parked run is
//! due, when a permit becomes free while runs wait for one, and when it is notified of new inbox rows. A database that
//! several nodes share needs the loop in `tick`.
//!
//! The same loop makes the node clock follow the machine's wall clock, because there is no tick that brings a
//! database's clock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use everstep_core::ids::{NodeId, RunId, WorkspaceId};
use everstep_core::time::Timestamp;
use everstep_store::{InboxId, InboxRow, Result};
use futures_util::future::{self, Either};
use tokio::sync::mpsc;

use crate::message::{Shared, ToClaimer};
use crate::node::clock::SkewAlert;
use crate::node::permits::{Reservation, Share};
use crate::options::Options;
use crate::ports::World;
use crate::run::Envelope;
use crate::shard::{ShardSender, ToShard, shard_of};
use crate::workers::{More, Workers};

/// The maximum number of runs in one claim, and of inbox rows in one query.
pub(crate) const BATCH_ROWS_MAX: usize = 500;
/// The pause after a failed claim.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// The maximum sleep of the loop, and so the period in which the node clock is compared with the wall clock.
const CLOCK_CHECK_PERIOD: Duration = Duration::from_secs(5);
/// A step forward of more than this is logged.
const LARGE_STEP: Duration = Duration::from_secs(1);
/// The number of workspaces that a claim of the last permits visits, and of lanes of workers.
const VISITS_MAX: usize = 64;
/// The period in which a node without room claims for workspaces with little use.
const LAST_PERMITS_PERIOD: Duration = Duration::from_secs(1);
/// The lane of runs that the server performs itself.
const SERVER_LANE: &str = "";

/// When each lane must be queried for due runs again.
struct Schedule {
    lanes: BTreeMap<Arc<str>, Timestamp>,
    /// Whether to query every lane, because permits or seats became free.
    asks_all: bool,
    /// After a failure no lane is queried before this time.
    not_before: Timestamp,
}

impl Schedule {
    fn next(&self) -> Timestamp {
        if self.asks_all {
            return self.not_before;
        }
        let first = self.lanes.values().min().copied().unwrap_or(Timestamp::NEVER);
        first.max(self.not_before)
    }

    fn is_due(&self, lane: &str, now: Timestamp) -> bool {
        self.lanes.get(lane).is_some_and(|due| *due <= now)
    }

    /// Makes lanes due in which runs wait for a seat.
    fn ask_now(&mut self, lanes: Vec<Arc<str>>) {
        self.lanes.extend(lanes.into_iter().map(|lane| (lane, Timestamp::EPOCH)));
    }

    /// Records that a run was parked in a lane until `time`.
    fn note_parked(&mut self, lane: Arc<str>, time: Timestamp) {
        let due = self.lanes.entry(lane).or_insert(time);
        *due = time.min(*due);
    }
}

pub(crate) struct Claimer {
    pub(crate) world: World,
    pub(crate) options: Options,
    pub(crate) node: NodeId,
    pub(crate) shared: Arc<Shared>,
    pub(crate) shards: Vec<ShardSender>,
    pub(crate) workers: Arc<Workers>,
    pub(crate) messages: mpsc::UnboundedReceiver<ToClaimer>,
    /// The permits of claims whose reply was lost: they may have succeeded, and then this node owns runs that it does
    /// not know. The permits stay reserved until [`Claimer::recover`] has found these runs.
    pub(crate) unanswered: Option<Reservation>,
    /// The workspace after which the next claim of the server's own lane begins. Each node has its own, in memory: after
    /// a restart the workspaces take turns from the first one.
    pub(crate) rotation: Option<WorkspaceId>,
    /// The workspace after which the next claim of the last permits begins.
    pub(crate) last_visited: Option<WorkspaceId>,
    /// The worker's lane after which the next claim of the last permits begins.
    pub(crate) last_lane: Option<Arc<str>>,
}

impl Claimer {
    pub(crate) async fn run(mut self) {
        // At start-up every run may be due, and every inbox row is for this node.
        let mut schedule = Schedule { lanes: BTreeMap::new(), asks_all: true, not_before: Timestamp::EPOCH };
        let mut reads_inbox = true;
        let mut skew_alert = SkewAlert::default();
        loop {
            self.follow_wall_clock(&mut skew_alert);
            let now = self.world.clock.now();
            if reads_inbox {
                reads_inbox = self.read_inbox(None).await.is_err();
            }
            if schedule.next() <= now
                && let Err(error) = self.claim_due(&mut schedule, now).await
            {
                tracing::warn!(%error, "a claim failed; trying again");
                self.expect_lost_claims(None);
                (schedule.asks_all, schedule.not_before) = (true, self.world.clock.now().plus(RETRY_DELAY));
            }
            let retry_at = if reads_inbox { self.world.clock.now().plus(RETRY_DELAY) } else { Timestamp::NEVER };
            let mut message = self.next_message(schedule.next().min(retry_at)).await;
            // Handle all waiting messages before the next query.
            while let Some(one) = message {
                match one {
                    ToClaimer::Parked(lane, time) => schedule.note_parked(lane, time),
                    ToClaimer::Room => schedule.asks_all = true,
                    ToClaimer::Seats => schedule.ask_now(self.workers.backlog()),
                    ToClaimer::Inbox => reads_inbox = true,
                    ToClaimer::Unanswered(reserved) => {
                        self.expect_lost_claims(Some(reserved));
                        schedule.asks_all = true;
                    }
                    ToClaimer::Stop => return,
                }
                message = self.messages.try_recv().ok();
            }
        }
    }

    /// Claims the due runs of the server's own lane and of the lanes of its workers.
    async fn claim_due(&mut self, schedule: &mut Schedule, now: Timestamp) -> Result<()> {
        self.recover().await?;
        let asks_all = std::mem::take(&mut schedule.asks_all);
        schedule.not_before = Timestamp::EPOCH;
        if asks_all {
            self.shared.permits.set_backlog(Share::Worker, false);
        }
        if asks_all || schedule.is_due(SERVER_LANE, now) {
            let wake = match self.claim_server_lane(None).await? {
                More::No => self.world.runs.next_wake(SERVER_LANE).await?,
                // The next permit that becomes free causes another query. Before that, runs of workspaces with little
                // use may become due.
                More::Likely if self.has_last_permits() => Some(now.plus(LAST_PERMITS_PERIOD)),
                More::Likely | More::Unknown => None,
            };
            schedule.lanes.insert(SERVER_LANE.into(), wake.unwrap_or(Timestamp::NEVER));
        }
        // A lane without workers is queried when a worker connects.
        schedule.lanes.retain(|lane, _| lane.is_empty() || self.workers.is_served(lane));
        for lane in self.workers.lanes() {
            if !asks_all && !schedule.is_due(&lane, now) {
                continue;
            }
            let wake = match self.claim_lane(&lane).await? {
                More::No => self.world.runs.next_wake(&lane).await?,
                // The next seat or permit that becomes free causes another query.
                More::Likely | More::Unknown => None,
            };
            schedule.lanes.insert(lane, wake.unwrap_or(Timestamp::NEVER));
        }
        Ok(())
    }

    fn follow_wall_clock(&self, skew_alert: &mut SkewAlert) {
        let stepped = self.world.clock.follow_wall();
        if let Some(stepped) = stepped {
            let seconds = stepped.as_secs_f64();
            if stepped > LARGE_STEP {
                tracing::warn!(seconds, "the node clock was behind the machine's clock and was set forward");
            }
            for shard in &self.shards {
                let _ = shard.send(ToShard::ClockStepped);
            }
        }
        if let Some(seconds) = skew_alert.check(&self.world.clock).map(f64::abs) {
            tracing::warn!(
                seconds,
                "the machine's clock was set back; the node clock is ahead and runs slower until they agree"
            );
        }
    }

    /// The next message, or `None` when `until` is reached or the clocks must be compared.
    async fn next_message(&mut self, until: Timestamp) -> Option<ToClaimer> {
        let message = std::pin::pin!(self.messages.recv());
        let rest = until.since(self.world.clock.now()).min(CLOCK_CHECK_PERIOD);
        match future::select(message, self.world.clock.sleep(rest)).await {
            Either::Left((message, _)) => Some(message.unwrap_or(ToClaimer::Stop)),
            Either::Right(_) => None,
        }
    }

    /// The number of permits that a claim can use now.
    pub(crate) fn room(&self, share: Share) -> usize {
        if self.shared.is_stopping() { 0 } else { self.shared.permits.free(share) }
    }

    /// Reserves permits for a claim: at most `places`, and none while this node stops.
    pub(crate) fn reserve(&self, share: Share, places: usize) -> Reservation {
        let places = if self.shared.is_stopping() { 0 } else { places };
        self.shared.permits.reserve(share, places)
    }

    /// Claims the due runs of the server's own lane until none is left, no permit is free, or `until` is reached.
    pub(crate) async fn claim_server_lane(&mut self, until: Option<Duration>) -> Result<More> {
        loop {
            let reserved = self.reserve(Share::Server, BATCH_ROWS_MAX);
            let places = reserved.places();
            self.shared.permits.set_backlog(Share::Server, places == 0);
            if places > 0 {
                let (runs, mut reserved) = self.claim(SERVER_LANE, reserved).await?;
                self.hand_out(&runs, &mut reserved);
                if runs.len() < places {
                    return Ok(More::No);
                }
            } else if self.room(Share::Server) == 0 {
                // Read after the backlog was set: a permit that became free in between does not wake this loop.
                drop(reserved);
                self.claim_last_permits().await?;
                return Ok(More::Likely);
            }
            if until.is_some_and(|until| self.world.clock.monotonic() >= until) {
                return Ok(More::Unknown);
            }
        }
    }

    /// Whether permits are free that only workspaces with little use may take.
    fn has_last_permits(&self) -> bool {
        !self.shared.is_stopping() && self.shared.permits.has_last()
    }

    /// Claims due runs of workspaces with little use, for permits of the last quarter, which other claims leave free.
    pub(crate) async fn claim_last_permits(&mut self) -> Result<()> {
        if !self.has_last_permits() {
            return Ok(());
        }
        let now = self.world.clock.now();
        let visited = self.world.runs.due_workspaces(now, self.last_visited, VISITS_MAX).await?;
        self.last_visited = visited.last().filter(|_| visited.len() == VISITS_MAX).map(|(workspace, _)| *workspace);
        for workspace in visited.into_iter().filter(|(_, is_due)| *is_due).map(|(workspace, _)| workspace) {
            let mut reserved = self.shared.permits.reserve_for(Share::Server, workspace, BATCH_ROWS_MAX);
            if reserved.places() == 0 {
                continue;
            }
            match self.world.runs.claim_workspace(self.node, workspace, now, reserved.places()).await {
                Ok(runs) => {
                    self.hand_out_to(&runs, &mut reserved, Some(workspace));
                    reserved.give_back();
                }
                Err(error) => {
                    self.expect_lost_claims(Some(reserved));
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Claims due runs of a worker's lane: as many as there are seats, and permits for its workspace.
    pub(crate) async fn claim_lane(&mut self, lane: &Arc<str>) -> Result<More> {
        let Some(workspace) = self.workers.workspace_of(lane) else { return Ok(More::Likely) };
        loop {
            let seats = self.workers.room(lane);
            if seats == 0 || self.shared.is_stopping() {
                return Ok(More::Likely);
            }
            let reserved = self.shared.permits.reserve_for(Share::Worker, workspace, seats.min(BATCH_ROWS_MAX));
            let places = reserved.places();
            if places == 0 {
                self.shared.permits.set_backlog(Share::Worker, true);
                if self.worker_room(workspace) == 0 {
                    return Ok(More::Likely);
                }
                continue;
            }
            let (runs, mut reserved) = self.claim(lane, reserved).await?;
            let more = More::after(runs.len(), places);
            // Counted before they are sent to their shards: a run that reached its shard first would stay counted as
            // incoming, and its seat would be lost.
            self.workers.claimed(lane, &runs, more);
            self.hand_out_to(&runs, &mut reserved, Some(workspace));
            reserved.give_back();
            if more == More::Likely && places < seats {
                self.shared.permits.set_backlog(Share::Worker, true);
                if self.worker_room(workspace) > 0 {
                    continue;
                }
            }
            return Ok(more);
        }
    }

    /// The number of permits that a claim in a worker's lane of a workspace can use now.
    fn worker_room(&self, workspace: WorkspaceId) -> usize {
        if self.shared.is_stopping() { 0 } else { self.shared.permits.free_for(Share::Worker, workspace) }
    }

    /// Claims in the lanes of workers while only workspaces with little use may take permits. A tick does not query these
    /// lanes, because it reserves permits for any workspace.
    pub(crate) async fn claim_last_in_lanes(&mut self) -> Result<()> {
        if self.room(Share::Worker) > 0 {
            return Ok(());
        }
        let mut lanes = self.workers.lanes();
        lanes.retain(|lane| self.workers.workspace_of(lane).is_some_and(|workspace| self.worker_room(workspace) > 0));
        lanes.sort_unstable();
        let first = lanes.partition_point(|lane| Some(lane) <= self.last_lane.as_ref());
        lanes.rotate_left(first);
        for lane in lanes.into_iter().take(VISITS_MAX) {
            self.claim_lane(&lane).await?;
            self.last_lane = Some(lane);
        }
        Ok(())
    }

    /// Claims due runs of a lane, as many as permits are reserved.
    async fn claim(&mut self, lane: &str, reserved: Reservation) -> Result<(Vec<RunId>, Reservation)> {
        let (now, rotation) = (self.world.clock.now(), self.rotation);
        match self.world.runs.claim_runs(self.node, lane, now, reserved.places(), rotation).await {
            Ok(claimed) => {
                self.rotation = claimed.rotation;
                Ok((claimed.runs, reserved))
            }
            Err(error) => {
                self.expect_lost_claims(Some(reserved));
                Err(error)
            }
        }
    }

    /// Sends claimed runs to their shards, each with its permit.
    pub(crate) fn hand_out(&self, runs: &[RunId], reserved: &mut Reservation) {
        self.hand_out_to(runs, reserved, None);
    }

    /// Sends claimed runs to their shards. If their workspace is known, their permits count for it at once.
    fn hand_out_to(&self, runs: &[RunId], reserved: &mut Reservation, workspace: Option<WorkspaceId>) {
        let runs = runs.iter().map(|run| {
            let permit = reserved.fill();
            let permit = match workspace {
                Some(workspace) => permit.assign(workspace),
                None => permit,
            };
            (*run, permit)
        });
        for (shard, runs) in self.by_shard(runs, |(run, _)| *run) {
            let _ = shard.send(ToShard::Claimed(runs));
        }
    }

    /// A query that may have claimed runs has failed: its outcome is unknown.
    pub(crate) fn expect_lost_claims(&mut self, reserved: Option<Reservation>) {
        let reserved = reserved.unwrap_or_else(|| self.reserve(Share::Server, 0));
        match &mut self.unanswered {
            Some(unanswered) => unanswered.add(reserved),
            None => self.unanswered = Some(reserved),
        }
    }

    /// After a lost reply: makes the shards load every run that this node owns in the database.
    pub(crate) async fn recover(&mut self) -> Result<()> {
        if self.unanswered.is_none() {
            return Ok(());
        }
        let runs = self.world.runs.owned_runs(self.node).await?;
        let Some(reserved) = self.unanswered.take().map(Arc::new) else { return Ok(()) };
        for (shard, runs) in self.by_shard(runs.into_iter(), |run| *run) {
            let _ = shard.send(ToShard::Owned(runs, Arc::clone(&reserved)));
        }
        Ok(())
    }

    fn by_shard<T>(
        &self,
        runs: impl Iterator<Item = T>,
        id: fn(&T) -> RunId,
    ) -> impl Iterator<Item = (&ShardSender, Vec<T>)> {
        let mut by_shard: Vec<Vec<_>> = self.shards.iter().map(|_| Vec::new()).collect();
        for run in runs {
            by_shard[shard_of(id(&run), self.shards.len())].push(run);
        }
        self.shards.iter().zip(by_shard).filter(|(_, runs)| !runs.is_empty())
    }

    /// Reads every inbox row after `after` that this node may answer.
    pub(crate) async fn read_inbox(&self, mut after: Option<InboxId>) -> Result<()> {
        loop {
            let arrivals = self.world.runs.inbox(self.node, after, BATCH_ROWS_MAX).await?;
            let is_last = arrivals.len() < BATCH_ROWS_MAX;
            after = arrivals.last().map(|arrival| arrival.id).or(after);
            self.hand_over(&arrivals);
            if is_last {
                return Ok(());
            }
        }
    }

    /// Sends inbox rows to the shards of their runs. A shard ignores rows that it already has.
    pub(crate) fn hand_over(&self, arrivals: &[InboxRow]) {
        for arrival in arrivals {
            let Some(envelope) = Envelope::from_row(arrival) else { continue };
            let _ = self.shards[shard_of(arrival.run, self.shards.len())].send(ToShard::Input(arrival.run, envelope));
        }
    }
}
