//! Writes what the shards decide: many runs in one durable transaction.
//!
//! It blocks for the first item and takes whatever else is queued: no timer, no minimum.
//! While an outcome is unknown the same items are sent again; nothing else is.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use everstep_core::ids::NodeId;
use everstep_store::{Error, Item};
use futures_util::future::{self, Either};
use tokio::sync::mpsc;

use crate::message::{Proposal, ShardSender, Shared, ToShard, Verdict};
use crate::ports::World;

const MOST_ITEMS: usize = 512;
const MOST_BYTES: usize = 1024 * 1024;

pub(crate) struct Committer {
    pub(crate) world: World,
    pub(crate) node: NodeId,
    pub(crate) shared: Arc<Shared>,
    pub(crate) shards: Vec<ShardSender>,
    pub(crate) proposals: mpsc::UnboundedReceiver<Proposal>,
    /// Received, and not yet sent.
    pub(crate) waiting: Vec<Proposal>,
}

impl Committer {
    pub(crate) async fn run(mut self) {
        loop {
            if self.waiting.is_empty() && self.proposals.recv_many(&mut self.waiting, MOST_ITEMS).await == 0 {
                return;
            }
            let rest = self.waiting.split_off(first_batch(&self.waiting));
            let batch = std::mem::replace(&mut self.waiting, rest);
            self.run_once(batch).await;
        }
    }

    /// Commits one batch, whatever it takes.
    async fn run_once(&mut self, batch: Vec<Proposal>) {
        // A poison item must not fail its neighbours: a refused batch is split until the item is alone.
        let mut batches = vec![batch];
        let mut is_unknown = false;
        let mut pause = Duration::from_millis(20);
        while let Some(mut batch) = batches.pop() {
            let items: Vec<Item> =
                batch.iter_mut().map(|proposal| proposal.item.take().expect("not yet sent")).collect();
            let result = self.world.store.commit(self.node, &items).await;
            for (proposal, item) in batch.iter_mut().zip(items) {
                proposal.item = Some(item);
            }
            match result {
                Ok(outcomes) => self.answer(batch.into_iter().zip(outcomes.into_iter().map(Verdict::Stored))),
                Err(Error::Fenced(_)) => {
                    self.shared.is_fenced.store(true, Ordering::Relaxed);
                    self.answer(batch.into_iter().map(|proposal| (proposal, Verdict::Fenced)));
                }
                Err(Error::Refused(message)) if batch.len() == 1 => {
                    self.answer(batch.into_iter().map(|proposal| (proposal, Verdict::Refused(message.clone()))));
                }
                Err(Error::Refused(_)) => {
                    batches.push(batch.split_off(batch.len() / 2));
                    batches.push(batch);
                }
                Err(Error::Full(message)) => {
                    // What may have been written before is not refused: only its outcome is unknown.
                    if !is_unknown {
                        batch = self.refuse_starts(batch, &message);
                    }
                    if !batch.is_empty() {
                        batches.push(batch);
                        self.wait_for_room(pause, &message).await;
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, items = batch.len(), "commit failed; sending it again");
                    is_unknown = true;
                    batches.push(batch);
                    self.world.sleep(pause).await;
                }
            }
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    }

    fn answer(&self, verdicts: impl Iterator<Item = (Proposal, Verdict)>) {
        let mut by_shard: Vec<Vec<_>> = self.shards.iter().map(|_| Vec::new()).collect();
        for (proposal, verdict) in verdicts {
            by_shard[proposal.shard].push((proposal.run, verdict));
        }
        for (sender, verdicts) in self.shards.iter().zip(by_shard) {
            if !verdicts.is_empty() {
                // A shard that is gone has dropped its runs; others will claim them.
                let _ = sender.send(ToShard::Committed(verdicts));
            }
        }
    }

    /// On a full disk new work is refused at once; the rest is returned.
    fn refuse_starts(&self, batch: Vec<Proposal>, message: &str) -> Vec<Proposal> {
        let (starts, others): (Vec<_>, Vec<_>) = batch.into_iter().partition(Proposal::is_start);
        self.answer(starts.into_iter().map(|proposal| (proposal, Verdict::Full(message.to_owned()))));
        others
    }

    /// Waits a while, refusing starts that come meanwhile. What was accepted before waits for room.
    async fn wait_for_room(&mut self, pause: Duration, message: &str) {
        tracing::warn!(message, "there is no room; new work is refused, the rest waits");
        let mut sleep = self.world.clock.sleep_until(self.world.clock.now().plus(pause));
        loop {
            let came = match future::select(std::pin::pin!(self.proposals.recv()), &mut sleep).await {
                Either::Left((Some(proposal), _)) => vec![proposal],
                Either::Left((None, _)) => return sleep.await,
                Either::Right(_) => return,
            };
            let others = self.refuse_starts(came, message);
            self.waiting.extend(others);
        }
    }
}

/// How many of the waiting proposals make a batch.
fn first_batch(waiting: &[Proposal]) -> usize {
    let mut bytes = 0;
    let fitting = waiting.iter().take(MOST_ITEMS).take_while(|proposal| {
        bytes += proposal.bytes;
        bytes <= MOST_BYTES
    });
    fitting.count().max(1)
}
