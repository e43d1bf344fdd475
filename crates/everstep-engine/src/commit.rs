//! Writes what the shards decide: many runs in one durable transaction.
//!
//! It blocks for the first item and takes whatever else is queued: no timer, no minimum.
//! While an outcome is unknown the same items are sent again; nothing else is.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use everstep_core::ids::NodeId;
use everstep_store::{Error, Gate, Item};
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
}

impl Committer {
    pub(crate) async fn run(mut self) {
        let mut waiting = Vec::new();
        loop {
            if waiting.is_empty() && self.proposals.recv_many(&mut waiting, MOST_ITEMS).await == 0 {
                return;
            }
            let rest = waiting.split_off(first_batch(&waiting));
            self.run_once(std::mem::replace(&mut waiting, rest)).await;
        }
    }

    /// Commits one batch, whatever it takes.
    async fn run_once(&self, batch: Vec<Proposal>) {
        let (shards, items): (Vec<usize>, Vec<Item>) =
            batch.into_iter().map(|proposal| (proposal.shard, proposal.item)).unzip();
        let verdicts = self.commit(&items).await;
        let mut by_shard: Vec<Vec<_>> = self.shards.iter().map(|_| Vec::new()).collect();
        for ((shard, item), verdict) in shards.into_iter().zip(items).zip(verdicts) {
            by_shard[shard].push((item.run, verdict));
        }
        for (sender, verdicts) in self.shards.iter().zip(by_shard) {
            if !verdicts.is_empty() {
                // A shard that is gone has dropped its runs; others will claim them.
                let _ = sender.send(ToShard::Committed(verdicts));
            }
        }
    }

    async fn commit(&self, items: &[Item]) -> Vec<Verdict> {
        let mut pause = Duration::from_millis(20);
        loop {
            let error = match self.world.store.commit(self.node, items).await {
                Ok(outcomes) => return outcomes.into_iter().map(Verdict::Stored).collect(),
                Err(error) => error,
            };
            match error {
                Error::Fenced(_) => {
                    self.shared.is_fenced.store(true, Ordering::Relaxed);
                    return items.iter().map(|_| Verdict::Fenced).collect();
                }
                // A poison item must not fail its neighbours: split until it is alone.
                Error::Refused(message) if items.len() == 1 => return vec![Verdict::Refused(message)],
                Error::Refused(_) => {
                    let (left, right) = items.split_at(items.len() / 2);
                    let mut verdicts = Box::pin(self.commit(left)).await;
                    verdicts.extend(Box::pin(self.commit(right)).await);
                    return verdicts;
                }
                Error::Full(message) if items.iter().any(is_start) => {
                    return self.commit_without_starts(items, &message).await;
                }
                error => {
                    tracing::warn!(%error, items = items.len(), "commit failed; sending it again");
                    self.world.sleep(pause).await;
                    pause = (pause * 2).min(Duration::from_secs(1));
                }
            }
        }
    }

    /// On a full disk new work is refused; what was accepted before waits for room.
    async fn commit_without_starts(&self, items: &[Item], message: &str) -> Vec<Verdict> {
        let others: Vec<_> = items.iter().filter(|item| !is_start(item)).cloned().collect();
        let mut verdicts =
            if others.is_empty() { Vec::new() } else { Box::pin(self.commit(&others)).await }.into_iter();
        let place = |item| {
            if is_start(item) { Some(Verdict::Full(message.to_owned())) } else { verdicts.next() }
        };
        items.iter().map_while(place).collect()
    }
}

fn is_start(item: &Item) -> bool {
    matches!(item.gate, Gate::Start(_))
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
