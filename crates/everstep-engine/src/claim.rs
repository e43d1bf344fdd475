//! Takes ownership of runs that nobody owns and that are due, and reads the inbox.
//!
//! **Invariant**: a run that has not ended is owned by a live node, or claimable now, or has a time to wake.
//!
//! This loop is for a database that nobody else uses, and polls nothing: it wakes when the next parked run is due, when room frees while others wait for it, or when
//! somebody says that there is news. A database that others use as well needs `tick`.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use everstep_core::ids::{NodeId, RunId};
use everstep_core::time::Timestamp;
use everstep_store::{Arrival, InboxId, Result};
use futures_util::future::{self, Either};
use tokio::sync::mpsc;

use crate::message::{Mail, ShardSender, Shared, ToClaimer, ToShard};
use crate::options::Options;
use crate::ports::World;
use crate::shard::shard_of;

/// Runs that are claimed, or inbox rows that are read, at once.
pub(crate) const BATCH: usize = 500;
const RETRY: Duration = Duration::from_secs(1);

pub(crate) struct Claimer {
    pub(crate) world: World,
    pub(crate) options: Options,
    pub(crate) node: NodeId,
    pub(crate) shared: Arc<Shared>,
    pub(crate) shards: Vec<ShardSender>,
    pub(crate) news: mpsc::UnboundedReceiver<ToClaimer>,
}

impl Claimer {
    pub(crate) async fn run(mut self) {
        // At start-up everything may be due, and every inbox row is ours to take.
        let mut next = Timestamp::EPOCH;
        let mut reads_inbox = true;
        let mut must_recover = false;
        loop {
            let now = self.world.clock.now();
            if reads_inbox {
                reads_inbox = self.read_inbox(None).await.is_err();
            }
            if next <= now {
                // A claim whose answer was lost may have been made: then we own runs that we do not know.
                let claimed = if must_recover { self.recover().await } else { Ok(()) };
                let claimed = match claimed {
                    Ok(()) => self.claim().await,
                    Err(error) => Err(error),
                };
                must_recover = claimed.is_err();
                next = claimed.unwrap_or_else(|error| {
                    tracing::warn!(%error, "claiming failed; trying again");
                    self.world.clock.now().plus(RETRY)
                });
            }
            let until = if reads_inbox { next.min(self.world.clock.now().plus(RETRY)) } else { next };
            match self.wait(until).await {
                Some(ToClaimer::Parked(time)) => next = next.min(time),
                Some(ToClaimer::Room) => next = Timestamp::EPOCH,
                Some(ToClaimer::Inbox) => reads_inbox = true,
                Some(ToClaimer::Stop) => return,
                None => {}
            }
        }
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
        let runs = self.world.store.owned_runs(self.node).await?;
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
            self.shared.has_backlog.store(false, Ordering::SeqCst);
            let runs = self.world.store.claim_runs(self.node, "", now, room).await?;
            let count = runs.len();
            self.hand_out(runs);
            if count < room {
                return Ok(self.world.store.next_wake("").await?.unwrap_or(Timestamp::NEVER));
            }
        }
    }

    /// Reads every inbox row after `after` that is ours to take.
    pub(crate) async fn read_inbox(&self, mut after: Option<InboxId>) -> Result<()> {
        loop {
            let arrivals = self.world.store.inbox(self.node, after, BATCH).await?;
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
            let Some(mail) = Mail::read(arrival) else { continue };
            let _ = self.shards[shard_of(arrival.run, self.shards.len())].send(ToShard::Mail(arrival.run, mail));
        }
    }
}
