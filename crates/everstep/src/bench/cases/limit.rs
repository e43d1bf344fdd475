//! The store's own limit: what its group commit writes when no engine is in the way.

use std::sync::Arc;
use std::time::{Duration, Instant};

use everstep_store::{Gate, Item, Outcome, Store};

use super::steps::Steps;
use crate::bench::drive::Pace;
use crate::bench::process;

const LEASE: Duration = Duration::from_secs(10);

pub(super) struct Limit {
    pub(super) entries: Pace,
    /// How long each commit took.
    pub(super) commits: Vec<Duration>,
}

/// What a store does with so many runs in flight: one batch after the other, or two of half the size at a time where
/// it takes them; the better of both.
pub(super) async fn measure(store: Arc<dyn Store>, in_flight: usize, length: Duration) -> anyhow::Result<Limit> {
    if !store.is_shared() || in_flight == 1 {
        return measure_stream(store, in_flight, length).await;
    }
    let single = measure_stream(Arc::clone(&store), in_flight, length).await?;
    let other = tokio::spawn(measure_stream(Arc::clone(&store), in_flight / 2, length));
    let mut one = measure_stream(store, in_flight / 2, length).await?;
    let other = other.await??;
    one.entries = Pace {
        per_second: one.entries.per_second + other.entries.per_second,
        // Both have watched the work of the whole process.
        work: (one.entries.work + other.entries.work) / 4.0,
    };
    one.commits.extend(other.commits);
    Ok(if single.entries.per_second > one.entries.per_second { single } else { one })
}

/// Commits steps of `in_flight` runs, in batches as large as that allows, for `length` after a quarter of it.
///
/// The next batch is made while one is written, and the time of commits that start runs is not counted:
/// what is left is the store alone.
async fn measure_stream(store: Arc<dyn Store>, in_flight: usize, length: Duration) -> anyhow::Result<Limit> {
    let mut steps = Steps::new(in_flight);
    store.join(steps.node, LEASE, None).await?;
    let mut batch = steps.next_batch();
    let warm = Instant::now() + length / 4;
    while Instant::now() < warm {
        (batch, _) = commit(&*store, &mut steps, &batch).await?;
    }
    let (mut entries, mut uncounted, mut commits) = (0, 0, Vec::new());
    let (mut spent, work) = (Duration::ZERO, process::scheduled_time()?);
    while spent < length {
        let (next, time) = commit(&*store, &mut steps, &batch).await?;
        let written = batch.iter().map(|item| item.entries.len() as u64).sum::<u64>();
        if batch.iter().all(|item| item.gate == Gate::Owned) {
            entries += written;
            commits.push(time);
            spent += time;
        } else {
            uncounted += written;
        }
        batch = next;
    }
    let work = process::scheduled_time()?.saturating_sub(work);
    // Work cannot be told apart by commits, so it is shared out among all entries.
    let entries = Pace { work: Pace::of(entries + uncounted, spent, work).work, ..Pace::of(entries, spent, work) };
    Ok(Limit { entries, commits })
}

/// Commits a batch. Returns the next one, and how long the store took.
async fn commit(store: &dyn Store, steps: &mut Steps, batch: &[Item]) -> anyhow::Result<(Vec<Item>, Duration)> {
    let (node, began) = (steps.node, Instant::now());
    let commit = async { (store.commit(node, batch).await, began.elapsed()) };
    let ((outcomes, time), next) = tokio::join!(commit, async { steps.next_batch() });
    let is_applied = outcomes?.iter().all(|outcome| matches!(outcome, Outcome::Applied(_)));
    anyhow::ensure!(is_applied, "the store refused an item of the benchmark");
    Ok((next, time))
}
