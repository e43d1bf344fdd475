//! Writes what the shards decide: many runs in one durable transaction.
//!
//! It blocks for the first item and takes whatever else is queued: no timer, no minimum.
//! While an outcome is unknown the same items are sent again; nothing else of their runs is.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use everstep_core::ids::NodeId;
use everstep_store::{Error, Item};
use futures_util::future::{self, Either};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::mpsc;

use crate::message::{Proposal, ShardSender, Shared, ToShard, Verdict};
use crate::ports::World;

const MOST_ITEMS: usize = 512;
const MOST_BYTES: usize = 1024 * 1024;
/// While this many items wait, a second batch is written beside the first, if the database can do that.
/// Two at all times would split the batches, which costs more than it gives.
pub(crate) const CROWD: usize = 256;

pub(crate) struct Committer {
    writer: Writer,
    proposals: mpsc::UnboundedReceiver<Proposal>,
    /// Received, and not yet sent.
    waiting: Vec<Proposal>,
    /// Batches that may be written at the same time.
    most_batches: usize,
}

/// What writes one batch.
struct Writer {
    world: World,
    node: NodeId,
    shared: Arc<Shared>,
    shards: Vec<ShardSender>,
    /// Why there is no room, while there is none: new work is then refused at once.
    full: Mutex<Option<String>>,
}

impl Committer {
    pub(crate) fn new(
        world: World,
        node: NodeId,
        shared: Arc<Shared>,
        shards: Vec<ShardSender>,
        proposals: mpsc::UnboundedReceiver<Proposal>,
    ) -> Self {
        let most_batches = if world.runs.is_shared() { 2 } else { 1 };
        let writer = Writer { world, node, shared, shards, full: Mutex::default() };
        Self { writer, proposals, waiting: Vec::new(), most_batches }
    }

    pub(crate) async fn run(self) {
        let Self { writer, mut proposals, mut waiting, most_batches } = self;
        let shared = Arc::clone(&writer.shared);
        let mut writing = FuturesUnordered::new();
        loop {
            let may_write =
                writing.is_empty() || (writing.len() < most_batches && shared.queued.load(Ordering::Relaxed) >= CROWD);
            if may_write {
                if waiting.is_empty() && proposals.recv_many(&mut waiting, MOST_ITEMS).await == 0 {
                    return;
                }
                let rest = waiting.split_off(first_batch(&waiting));
                let batch = std::mem::replace(&mut waiting, rest);
                shared.queued.fetch_sub(batch.len(), Ordering::Relaxed);
                writing.push(writer.write(batch));
                continue;
            }
            let Some(message) = writer.full() else {
                // Only a crowd, or a full disk, is told of: a word per item would cost more than it is worth.
                future::select(writing.next(), std::pin::pin!(shared.crowd.notified())).await;
                continue;
            };
            // What was accepted before waits for room; starts that come meanwhile are refused.
            match future::select(writing.next(), std::pin::pin!(proposals.recv())).await {
                Either::Left(_) => {}
                Either::Right((None, written)) => _ = written.await,
                Either::Right((Some(proposal), _)) => {
                    let others = writer.refuse_starts(vec![proposal], &message);
                    shared.queued.fetch_sub(1 - others.len(), Ordering::Relaxed);
                    waiting.extend(others);
                }
            }
        }
    }
}

impl Writer {
    /// Commits one batch, whatever it takes.
    async fn write(&self, batch: Vec<Proposal>) {
        // A poison item must not fail its neighbours: a refused batch is split until the item is alone.
        let mut batches = vec![batch];
        let mut is_unknown = false;
        let mut pause = Duration::from_millis(20);
        while let Some(mut batch) = batches.pop() {
            let items: Vec<Item> =
                batch.iter_mut().map(|proposal| proposal.item.take().expect("not yet sent")).collect();
            let result = self.world.runs.commit(self.node, &items).await;
            for (proposal, item) in batch.iter_mut().zip(items) {
                proposal.item = Some(item);
            }
            match result {
                Ok(outcomes) => {
                    self.set_full(None);
                    self.answer(batch.into_iter().zip(outcomes.into_iter().map(Verdict::Stored)));
                }
                Err(Error::Fenced(_)) => {
                    self.shared.fence();
                    self.answer(batch.into_iter().map(|proposal| (proposal, Verdict::Fenced { is_unknown })));
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
                        self.set_full(Some(&message));
                        tracing::warn!(message, "there is no room; new work is refused, the rest waits");
                        self.world.sleep(pause).await;
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

    fn full(&self) -> Option<String> {
        self.full.lock().expect("no holder of the lock panics").clone()
    }

    fn set_full(&self, message: Option<&str>) {
        let mut full = self.full.lock().expect("no holder of the lock panics");
        if full.as_deref() != message {
            *full = message.map(str::to_owned);
            self.shared.crowd.notify_one();
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
