//! The store's own limit: the rate of its group commit without an engine.

use std::sync::Arc;
use std::time::{Duration, Instant};

use everstep_store::{CommitOutcome, Gate, Item, RunStore};

use super::steps::Steps;
use crate::bench::drive::Pace;
use crate::bench::process;

const LEASE: Duration = Duration::from_secs(10);

pub(super) struct Limit {
    pub(super) entries: Pace,
    /// The duration of each commit.
    pub(super) commits: Vec<Duration>,
}

/// The rate of a store with two batches of half the size at a time, if it supports that. The engine's committer does
/// that only while more than a batch waits; it shows the reserve of a shared store.
pub(super) async fn measure_two(store: Arc<dyn RunStore>, in_flight: usize, length: Duration) -> anyhow::Result<f64> {
    let other = tokio::spawn(measure(Arc::clone(&store), in_flight / 2, length));
    let one = measure(store, in_flight / 2, length).await?;
    Ok(one.entries.per_second + other.await??.entries.per_second)
}

/// Commits steps of `in_flight` runs, in batches as large as that allows, for `length` after a quarter of it.
///
/// One batch after the other, as the engine's committer does it at that load. The next batch is made while one is
/// written, and the time of commits that start runs is not counted: the rest is the store alone.
pub(super) async fn measure(store: Arc<dyn RunStore>, in_flight: usize, length: Duration) -> anyhow::Result<Limit> {
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
    // The processor time of single commits is not known, so it is distributed over all entries.
    let entries = Pace {
        work: Pace::from_totals(entries + uncounted, spent, work).work,
        ..Pace::from_totals(entries, spent, work)
    };
    Ok(Limit { entries, commits })
}

/// Commits a batch. Returns the next one, and the duration of the commit.
async fn commit(store: &dyn RunStore, steps: &mut Steps, batch: &[Item]) -> anyhow::Result<(Vec<Item>, Duration)> {
    let (node, began) = (steps.node, Instant::now());
    let commit = async { (store.commit(node, batch).await, began.elapsed()) };
    let ((outcomes, time), next) = tokio::join!(commit, async { steps.next_batch() });
    let is_applied = outcomes?.iter().all(|outcome| matches!(outcome, CommitOutcome::Applied(_)));
    anyhow::ensure!(is_applied, "the store rejected an item of the benchmark");
    Ok((next, time))
}
