//! Writes the items of all shards, those of many runs in one durable transaction.
//!
//! The committer blocks for the first item and collects all others that are queued: no timer, no minimum size. If more
//! items wait than a batch holds, the workspaces take turns. While an outcome is unknown, it sends the same items again,
//! and no other item of their runs.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use everstep_core::dead_letter::DeadLetter;
use everstep_core::ids::{NodeId, RunId, WorkspaceId};
use everstep_store::{CommitOutcome, Error, Gate, Item};
use futures_util::future::{self, Either};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::mpsc;

use super::batch_size::{BATCH_ITEMS_MAX, BatchSize, ItemTime};
use crate::message::Shared;
use crate::observe::{EndedEvent, EventOutcome};
use crate::ports::World;
use crate::shard::{ShardSender, ToShard};
use crate::workspace_queue::WorkspaceQueue;

const BATCH_BYTES_MAX: usize = 1024 * 1024;
/// While this many items wait, a second batch is written at the same time as the first, if the database can do that.
/// Two batches at all times would each be half as large, which costs more than it gains.
pub(crate) const SECOND_BATCH_ITEMS: usize = 256;
const RESEND_DELAY_MIN: Duration = Duration::from_millis(20);
const RESEND_DELAY_MAX: Duration = Duration::from_secs(1);

/// An item that a shard submits to be written.
pub(crate) struct Proposal {
    pub(crate) run: RunId,
    /// Absent only while the store has it. It is boxed, because a proposal is moved many times before it is written.
    pub(crate) item: Option<Box<Item>>,
    pub(crate) bytes: usize,
    /// The shard that receives the verdict.
    pub(crate) shard: usize,
}

impl Proposal {
    fn workspace(&self) -> WorkspaceId {
        self.item.as_ref().expect("not yet sent").workspace
    }

    fn is_start(&self) -> bool {
        self.item.as_ref().is_some_and(|item| matches!(item.gate, Gate::Start(_)))
    }

    fn ends_run(&self) -> bool {
        self.item.as_deref().is_some_and(Item::ends_run)
    }
}

/// The outcome of a proposal.
#[derive(Debug)]
pub(crate) enum Verdict {
    Stored(CommitOutcome),
    /// The database rejects this item permanently.
    Refused(String),
    /// There is no space for a new run.
    Full(String),
    /// The item waited for space, and was not written: its run is to end.
    Withdrawn,
    /// This node was fenced. If `is_unknown`, the item was sent before without a reply and may have been written.
    Fenced {
        is_unknown: bool,
    },
}

pub(crate) struct Committer {
    writer: Writer,
    proposals: mpsc::UnboundedReceiver<Proposal>,
    /// The number of batches that may be written at the same time.
    batches_max: usize,
}

/// Writes one batch.
struct Writer {
    world: World,
    node: NodeId,
    shared: Arc<Shared>,
    shards: Vec<ShardSender>,
    /// Why there is no space, while the disk is full: new work is then rejected at once.
    full: Mutex<Option<String>>,
    /// The number of batches that wait for space.
    blocked: AtomicUsize,
    times: ItemTime,
}

impl Committer {
    pub(crate) fn new(
        world: World,
        node: NodeId,
        shared: Arc<Shared>,
        shards: Vec<ShardSender>,
        proposals: mpsc::UnboundedReceiver<Proposal>,
    ) -> Self {
        let batches_max = if world.runs.is_shared() { 2 } else { 1 };
        let (full, blocked, times) = (Mutex::default(), AtomicUsize::new(0), ItemTime::default());
        let writer = Writer { world, node, shared, shards, full, blocked, times };
        Self { writer, proposals, batches_max }
    }

    pub(crate) async fn run(self) {
        let Self { writer, mut proposals, batches_max } = self;
        // Received, and not yet sent.
        let mut waiting = WorkspaceQueue::default();
        let mut received: Vec<Proposal> = Vec::with_capacity(BATCH_ITEMS_MAX);
        let shared = Arc::clone(&writer.shared);
        let mut size = BatchSize::new(&shared.pace);
        let mut writing = FuturesUnordered::new();
        loop {
            let may_write = writing.is_empty()
                || (writing.len() < batches_max && shared.queued.load(Ordering::Relaxed) >= SECOND_BATCH_ITEMS);
            if may_write {
                if waiting.is_empty() && proposals.recv_many(&mut received, BATCH_ITEMS_MAX).await == 0 {
                    return;
                }
                // All of them: an item of a workspace whose turn it is may be behind many others.
                received.extend(std::iter::from_fn(|| proposals.try_recv().ok()));
                let now = writer.world.clock.monotonic();
                for proposal in received.drain(..) {
                    size.note(proposal.workspace(), now);
                    waiting.push_back(proposal.workspace(), proposal);
                }
                let batch = next_batch(&mut waiting, size.items_max(now, &writer.times));
                shared.queued.fetch_sub(batch.len(), Ordering::Relaxed);
                writing.push(writer.write(batch));
                continue;
            }
            let Some(message) = writer.full() else {
                // The committer is notified only of many waiting items or of a full disk. A notification per item would
                // cost more than it gains.
                future::select(writing.next(), std::pin::pin!(shared.crowd.notified())).await;
                continue;
            };
            // Items that were accepted before wait for space; starts are rejected, and items that end runs use the
            // reserve. Some may have been received with the batch that is being written.
            let held = waiting.len();
            let all = std::iter::from_fn(|| waiting.pop_front()).collect();
            let (ending, others): (Vec<_>, Vec<_>) =
                writer.return_withdrawn(writer.refuse_starts(all, &message)).into_iter().partition(Proposal::ends_run);
            for proposal in others {
                waiting.push_back(proposal.workspace(), proposal);
            }
            shared.queued.fetch_sub(held - waiting.len(), Ordering::Relaxed);
            if !ending.is_empty() {
                writing.push(writer.write(ending));
            }
            let woken = std::pin::pin!(shared.crowd.notified());
            let next = std::pin::pin!(proposals.recv());
            match future::select(writing.next(), future::select(next, woken)).await {
                Either::Left(_) => {}
                Either::Right((Either::Left((None, _)), written)) => _ = written.await,
                Either::Right((Either::Left((Some(proposal), _)), _)) => {
                    waiting.push_back(proposal.workspace(), proposal);
                }
                Either::Right((Either::Right(((), _)), _)) => {}
            }
        }
    }
}

impl Writer {
    /// Commits one batch. Returns when every item has a verdict.
    async fn write(&self, batch: Vec<Proposal>) {
        let sent = self.world.clock.monotonic();
        self.shared.pace.begin_waiting(sent);
        let (number, items) = (self.shared.pace.begin_batch(sent), batch.len());
        self.write_all(batch).await;
        self.shared.pace.end_batch(number);
        self.times.record(items, self.world.clock.monotonic().saturating_sub(sent));
    }

    async fn write_all(&self, batch: Vec<Proposal>) {
        // An item that the database rejects must not fail the others: the batch is split until the item is alone.
        let mut batches = vec![batch];
        let mut is_unknown = false;
        let mut delay = RESEND_DELAY_MIN;
        while let Some(mut batch) = batches.pop() {
            let items = batch.iter_mut().map(|proposal| *proposal.item.take().expect("not yet sent"));
            let items = Arc::new(items.collect::<Vec<_>>());
            let result = self.world.runs.commit_shared(self.node, Arc::clone(&items)).await;
            if result.is_err() {
                for (proposal, item) in batch.iter_mut().zip(&*items) {
                    proposal.item = Some(Box::new(item.clone()));
                }
            }
            match result {
                Ok(outcomes) => {
                    // Items that end runs have a reserve: others may still wait.
                    if self.blocked.load(Ordering::Relaxed) == 0 || !items.iter().all(Item::ends_run) {
                        self.set_full(None);
                    }
                    self.note_letters(&items, &outcomes);
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
                    // Items that may have been written are not rejected: their outcome is unknown.
                    let sent = batch.len();
                    if !is_unknown {
                        batch = self.return_withdrawn(self.refuse_starts(batch, &message));
                    }
                    // There may be space for items without starts, and for items that end runs.
                    let is_smaller = batch.len() < sent;
                    let (ending, others): (Vec<_>, Vec<_>) = batch.into_iter().partition(Proposal::ends_run);
                    let is_mixed = !ending.is_empty() && !others.is_empty();
                    batches.extend([others, ending].into_iter().filter(|batch| !batch.is_empty()));
                    if !batches.is_empty() && !is_smaller && !is_mixed {
                        self.set_full(Some(&message));
                        tracing::warn!(
                            message,
                            "the disk is full; new work is rejected and accepted work waits; free some disk space"
                        );
                        self.blocked.fetch_add(1, Ordering::Relaxed);
                        self.world.sleep(delay).await;
                        self.blocked.fetch_sub(1, Ordering::Relaxed);
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, items = batch.len(), "a commit failed; sending it again");
                    is_unknown = true;
                    batches.push(batch);
                    self.world.sleep(delay).await;
                }
            }
            delay = (delay * 2).min(RESEND_DELAY_MAX);
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

    /// Counts the dead letters of a batch, and makes this node notify operators.
    fn note_letters(&self, items: &[Item], outcomes: &[CommitOutcome]) {
        let mut has_letters = false;
        for letter in items.iter().zip(outcomes).flat_map(|(item, outcome)| written_letters(item, outcome)) {
            has_letters = true;
            let (workflow, kind) = (letter.workflow.as_deref(), letter.kind.as_str());
            self.world.observe.event_ended(&EndedEvent { workflow, kind, outcome: EventOutcome::Dead });
        }
        if has_letters {
            self.world.dead_letters.wake_for_notices();
        }
    }

    fn answer(&self, verdicts: impl Iterator<Item = (Proposal, Verdict)>) {
        let mut by_shard: Vec<Vec<_>> = self.shards.iter().map(|_| Vec::new()).collect();
        for (proposal, verdict) in verdicts {
            by_shard[proposal.shard].push((proposal.run, verdict));
        }
        for (sender, verdicts) in self.shards.iter().zip(by_shard) {
            if !verdicts.is_empty() {
                // A shard that has ended has dropped its runs; other nodes claim them.
                let _ = sender.send(ToShard::Settled(verdicts));
            }
        }
    }

    /// Returns the items of runs that are to end to their shards, which decide them again together with the end: items
    /// that end runs use the reserve. None of these items was written.
    fn return_withdrawn(&self, batch: Vec<Proposal>) -> Vec<Proposal> {
        let withdrawn = self.shared.withdrawn();
        if withdrawn.is_empty() {
            return batch;
        }
        let is_withdrawn = |proposal: &Proposal| !proposal.ends_run() && withdrawn.contains(&proposal.run);
        let (returned, others): (Vec<_>, Vec<_>) = batch.into_iter().partition(is_withdrawn);
        self.answer(returned.into_iter().map(|proposal| (proposal, Verdict::Withdrawn)));
        others
    }

    /// On a full disk new work is rejected at once; the rest is returned.
    fn refuse_starts(&self, batch: Vec<Proposal>, message: &str) -> Vec<Proposal> {
        let (starts, others): (Vec<_>, Vec<_>) = batch.into_iter().partition(Proposal::is_start);
        self.answer(starts.into_iter().map(|proposal| (proposal, Verdict::Full(message.to_owned()))));
        others
    }
}

/// The dead letters that an item has written.
fn written_letters<'a>(item: &'a Item, outcome: &CommitOutcome) -> &'a [Arc<DeadLetter>] {
    let side = item.side.as_deref().filter(|_| matches!(outcome, CommitOutcome::Applied(_)));
    side.map_or(&[], |side| &side.dead_letters)
}

/// Takes the proposals that form the next batch: at least one.
fn next_batch(waiting: &mut WorkspaceQueue<Proposal>, items_max: usize) -> Vec<Proposal> {
    let (mut batch, mut bytes) = (Vec::with_capacity(waiting.len().min(items_max)), 0);
    while batch.len() < items_max
        && let Some(next) = waiting.front()
    {
        bytes += next.bytes;
        if bytes > BATCH_BYTES_MAX && !batch.is_empty() {
            break;
        }
        batch.extend(waiting.pop_front());
    }
    batch
}
