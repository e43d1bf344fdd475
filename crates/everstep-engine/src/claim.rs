//! Takes ownership of runs that nobody owns and that are due, and reads the inbox.
//!
//! **Invariant**: a run that has not ended is owned by a live node, or claimable now, or has a time to wake.
//!
//! This loop is for a database that nobody else uses, and polls nothing: it wakes when the next parked run is due, when room frees while others wait for it, or when
//! somebody says that there is news. A database that others use as well needs `tick`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use everstep_core::ids::{NodeId, RunId};
use everstep_core::time::Timestamp;
use everstep_store::{Arrival, InboxId, Result};
use futures_util::future::{self, Either};
use tokio::sync::mpsc;

use crate::message::{Shared, ToClaimer};
use crate::options::Options;
use crate::ports::World;
use crate::run::Envelope;
use crate::shard::{ShardSender, ToShard, shard_of};
use crate::workers::{More, Workers};

/// Runs that are claimed, or inbox rows that are read, at once.
pub(crate) const BATCH: usize = 500;
const RETRY: Duration = Duration::from_secs(1);

/// When each lane is to be asked for due runs again.
struct Next {
    lanes: BTreeMap<Arc<str>, Timestamp>,
    /// Whether there may be room, or news, in every lane.
    asks_all: bool,
    /// Not before then, after a failure.
    not_before: Timestamp,
}

impl Next {
    fn time(&self) -> Timestamp {
        if self.asks_all {
            return self.not_before;
        }
        let first = self.lanes.values().min().copied().unwrap_or(Timestamp::NEVER);
        first.max(self.not_before)
    }

    /// Lanes that had no room are due now.
    fn due_now(&mut self, workers: &Workers) {
        self.lanes.extend(workers.backlog().into_iter().map(|lane| (lane, Timestamp::EPOCH)));
    }

    fn parked(&mut self, lane: Arc<str>, time: Timestamp) {
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
    pub(crate) news: mpsc::UnboundedReceiver<ToClaimer>,
}

impl Claimer {
    pub(crate) async fn run(mut self) {
        // At start-up everything may be due, and every inbox row is ours to take.
        let mut next = Next { lanes: BTreeMap::new(), asks_all: true, not_before: Timestamp::EPOCH };
        let mut reads_inbox = true;
        let mut must_recover = false;
        loop {
            let now = self.world.clock.now();
            if reads_inbox {
                reads_inbox = self.read_inbox(None).await.is_err();
            }
            if next.time() <= now {
                // A claim whose answer was lost may have been made: then we own runs that we do not know.
                let claimed = if must_recover { self.recover().await } else { Ok(()) };
                let claimed = match claimed {
                    Ok(()) => self.claim_due(&mut next, now).await,
                    Err(error) => Err(error),
                };
                must_recover = claimed.is_err();
                if let Err(error) = claimed {
                    tracing::warn!(%error, "claiming failed; trying again");
                    (next.asks_all, next.not_before) = (true, self.world.clock.now().plus(RETRY));
                }
            }
            let until = if reads_inbox { next.time().min(self.world.clock.now().plus(RETRY)) } else { next.time() };
            let mut news = self.wait(until).await;
            // What has come together is done together.
            while let Some(one) = news {
                match one {
                    ToClaimer::Parked(lane, time) => next.parked(lane, time),
                    ToClaimer::Room => next.asks_all = true,
                    ToClaimer::Seats => next.due_now(&self.workers),
                    ToClaimer::Inbox => reads_inbox = true,
                    ToClaimer::Stop => return,
                }
                news = self.news.try_recv().ok();
            }
        }
    }

    /// Claims what is due in the server's own lane and in those of its workers.
    async fn claim_due(&self, next: &mut Next, now: Timestamp) -> Result<()> {
        let asks_all = std::mem::take(&mut next.asks_all);
        next.not_before = Timestamp::EPOCH;
        if asks_all {
            self.shared.has_backlog.store(false, Ordering::SeqCst);
        }
        let is_due = |next: &Next, lane: &str| asks_all || next.lanes.get(lane).is_some_and(|due| *due <= now);
        if is_due(next, "") {
            let wake = self.claim().await?;
            next.lanes.insert("".into(), wake);
        }
        // A lane that nobody serves is asked for when somebody does.
        next.lanes.retain(|lane, _| lane.is_empty() || self.workers.is_served(lane));
        for lane in self.workers.lanes() {
            if !is_due(next, &lane) {
                continue;
            }
            let places = self.room_for_code();
            let room = self.workers.room(&lane).min(places);
            if places == 0 {
                // Whoever makes room on the node says so; it may have freed before the flag was seen.
                self.shared.has_backlog.store(true, Ordering::SeqCst);
                next.asks_all |= self.room_for_code() > 0;
            }
            if room == 0 {
                next.lanes.insert(lane, Timestamp::NEVER);
                continue;
            }
            let runs = self.world.runs.claim_runs(self.node, &lane, now, room).await?;
            let more = More::after(runs.len(), room);
            self.workers.claimed(&lane, &runs, more);
            self.hand_out(runs);
            // Of what did not fit nobody hears before there is room.
            let wake = if more == More::No { self.world.runs.next_wake(&lane).await? } else { None };
            next.lanes.insert(lane, wake.unwrap_or(Timestamp::NEVER));
        }
        Ok(())
    }

    /// The next news, or `None` once `until` has come.
    async fn wait(&mut self, until: Timestamp) -> Option<ToClaimer> {
        let news = std::pin::pin!(self.news.recv());
        if until == Timestamp::NEVER {
            return Some(news.await.unwrap_or(ToClaimer::Stop));
        }
        match future::select(news, self.world.clock.sleep_until(until)).await {
            Either::Left((news, _)) => Some(news.unwrap_or(ToClaimer::Stop)),
            Either::Right(_) => None,
        }
    }

    /// Takes up every run that the database says is ours.
    pub(crate) async fn recover(&self) -> Result<()> {
        let runs = self.world.runs.owned_runs(self.node).await?;
        for (shard, runs) in self.by_shard(runs) {
            let _ = shard.send(ToShard::Owned(runs));
        }
        Ok(())
    }

    fn by_shard(&self, runs: Vec<RunId>) -> impl Iterator<Item = (&ShardSender, Vec<RunId>)> {
        let mut by_shard: Vec<Vec<_>> = self.shards.iter().map(|_| Vec::new()).collect();
        for run in runs {
            by_shard[shard_of(run, self.shards.len())].push(run);
        }
        self.shards.iter().zip(by_shard).filter(|(_, runs)| !runs.is_empty())
    }

    /// How many runs may be claimed now.
    pub(crate) fn room(&self) -> usize {
        if self.shared.is_stopping() {
            return 0;
        }
        let active = self.shared.active.load(Ordering::SeqCst);
        self.options.max_active_runs.saturating_sub(active).min(BATCH)
    }

    /// How many runs of code may be claimed now. A part of the places is kept for what the server performs by itself.
    pub(crate) fn room_for_code(&self) -> usize {
        let kept = self.options.max_active_runs / 4;
        self.room().min((self.options.max_active_runs - kept).saturating_sub(self.shared.active.load(Ordering::SeqCst)))
    }

    /// Counts claimed runs and gives them to their shards.
    pub(crate) fn hand_out(&self, runs: Vec<RunId>) {
        self.shared.active.fetch_add(runs.len(), Ordering::SeqCst);
        for (shard, runs) in self.by_shard(runs) {
            let _ = shard.send(ToShard::Claimed(runs));
        }
    }

    /// Claims all that is due and fits. Returns when to claim again.
    async fn claim(&self) -> Result<Timestamp> {
        loop {
            let now = self.world.clock.now();
            let room = self.room();
            if room == 0 {
                self.shared.has_backlog.store(true, Ordering::SeqCst);
                // Room may have freed before the flag was seen.
                if self.room() == 0 {
                    return Ok(Timestamp::NEVER);
                }
                continue;
            }
            let runs = self.world.runs.claim_runs(self.node, "", now, room).await?;
            let count = runs.len();
            self.hand_out(runs);
            if count < room {
                return Ok(self.world.runs.next_wake("").await?.unwrap_or(Timestamp::NEVER));
            }
        }
    }

    /// Reads every inbox row after `after` that is ours to take.
    pub(crate) async fn read_inbox(&self, mut after: Option<InboxId>) -> Result<()> {
        loop {
            let arrivals = self.world.runs.inbox(self.node, after, BATCH).await?;
            let is_last = arrivals.len() < BATCH;
            after = arrivals.last().map(|arrival| arrival.id).or(after);
            self.hand_over(&arrivals);
            if is_last {
                return Ok(());
            }
        }
    }

    /// Gives inbox rows to the shards of their runs. A shard knows the rows it has already.
    pub(crate) fn hand_over(&self, arrivals: &[Arrival]) {
        for arrival in arrivals {
            let Some(envelope) = Envelope::from_row(arrival) else { continue };
            let _ = self.shards[shard_of(arrival.run, self.shards.len())].send(ToShard::Input(arrival.run, envelope));
        }
    }
}
