//! Counts runs by workflow and status, and adds the changes to the database once a second; with them the figures of each
//! minute: how many runs have started and ended, and how long they took.
//!
//! A list reads the totals; it does not count runs. The changes that this node has not yet added are lost when it
//! crashes, at most those of about a second; the node that detects the crash recounts all runs. During a recount other
//! nodes continue, so that their changes of about a second may be counted twice, or not at all. The figures of minutes are
//! not recounted.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use everstep_core::ids::WorkspaceId;
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_store::{Counts, MinuteStats, RunStats, RunStore, minute_of};
use futures_util::future::{self, Either};
use tokio::sync::Notify;

use crate::feed::StatusFeed;
use crate::observe::CommittedItem;
use crate::ports::World;

const FLUSH_INTERVAL: Duration = Duration::from_secs(1);

/// The changes since the totals were last written.
#[derive(Default)]
pub(crate) struct Tally {
    changes: Mutex<Changes>,
    changed: Notify,
    stopped: Notify,
    /// The runs whose status has changed, for followers.
    pub(crate) feed: StatusFeed,
}

/// Differences by workspace.
type Changes = BTreeMap<WorkspaceId, Difference>;

#[derive(Default)]
struct Difference {
    /// By workflow, one number per status.
    counts: BTreeMap<String, [i64; 7]>,
    /// By minute and workflow.
    stats: BTreeMap<(i64, String), RunStats>,
}

impl Tally {
    /// Counts the change of status in an item. The clock is read only if followers need the time.
    pub(crate) fn count_item(&self, item: &CommittedItem<'_>, now: impl FnOnce() -> Timestamp) {
        self.feed.gather(item, now);
        // The end of a run is an entry. An item without one finds a run that another node has ended, and has counted.
        let is_known_end = item.after.has_ended() && item.entries.is_empty();
        if !item.is_test && !is_known_end && item.before != Some(item.after) {
            let at = item.entries.last().map_or(item.started_at, |entry| entry.at);
            let begins_at = item.begins().then_some(item.started_at);
            let change = Change { before: item.before, after: item.after, begins_at, started_at: item.started_at, at };
            self.change(item.workspace, item.workflow, change);
        }
    }

    /// Counts that a run of a workflow has changed its status, or is new.
    pub(crate) fn change(&self, workspace: WorkspaceId, workflow: &str, change: Change) {
        let mut changes = self.changes.lock().expect("no holder of the lock panics");
        let was_empty = changes.is_empty();
        changes.entry(workspace).or_default().count(workflow, change);
        if was_empty {
            self.changed.notify_one();
        }
    }

    /// Drops the changes that were not added: another node recounts.
    pub(crate) fn forget(&self) {
        self.changes.lock().expect("no holder of the lock panics").clear();
        self.feed.forget();
    }

    /// Ends the loop and adds the remaining changes.
    pub(crate) async fn stop(&self, store: &dyn RunStore) {
        self.stopped.notify_one();
        self.flush(store).await;
    }

    /// Adds the changes, one statement per workspace. Changes that could not be added are kept for the next time.
    pub(crate) async fn flush(&self, store: &dyn RunStore) {
        let changes = std::mem::take(&mut *self.changes.lock().expect("no holder of the lock panics"));
        for (workspace, difference) in changes {
            let (deltas, stats) = (difference.deltas(), difference.minutes());
            if deltas.is_empty() && stats.is_empty() {
                continue;
            }
            if let Err(error) = store.add_counts(workspace, deltas, stats).await {
                tracing::warn!(%error, "the counts of runs were not written; retrying in a second");
                self.take_back(workspace, difference);
            }
        }
    }

    fn take_back(&self, workspace: WorkspaceId, difference: Difference) {
        let mut changes = self.changes.lock().expect("no holder of the lock panics");
        changes.entry(workspace).or_default().add(difference);
        drop(changes);
        self.changed.notify_one();
    }
}

/// A change of a run's status.
#[derive(Clone, Copy)]
pub(crate) struct Change {
    /// None for a new run.
    pub(crate) before: Option<Status>,
    pub(crate) after: Status,
    /// When the run began, if it began with this change.
    pub(crate) begins_at: Option<Timestamp>,
    pub(crate) started_at: Timestamp,
    pub(crate) at: Timestamp,
}

impl Difference {
    fn count(&mut self, workflow: &str, change: Change) {
        if !self.counts.contains_key(workflow) {
            self.counts.insert(workflow.to_owned(), [0; 7]);
        }
        if let Some(counts) = self.counts.get_mut(workflow) {
            if let Some(before) = change.before {
                counts[before as usize] -= 1;
            }
            counts[change.after as usize] += 1;
        }
        if let Some(begins_at) = change.begins_at {
            self.minute(begins_at, workflow).started += 1;
        }
        if change.after.has_ended() {
            let stats = self.minute(change.at, workflow);
            match change.after {
                Status::Completed => stats.completed += 1,
                Status::Failed => stats.failed += 1,
                Status::Cancelled => stats.cancelled += 1,
                Status::Pending | Status::Running | Status::Waiting | Status::Paused => {}
            }
            // The duration of a cancelled run is not counted: it says nothing about the workflow.
            if change.after != Status::Cancelled {
                stats.count_duration(change.at.since(change.started_at));
            }
        }
    }

    fn minute(&mut self, at: Timestamp, workflow: &str) -> &mut RunStats {
        self.stats.entry((minute_of(at), workflow.to_owned())).or_default()
    }

    fn deltas(&self) -> Vec<Counts> {
        let mut deltas = Vec::new();
        for (workflow, counts) in &self.counts {
            for (status, n) in Status::ALL.iter().zip(counts).filter(|(_, n)| **n != 0) {
                deltas.push(Counts { workflow: workflow.clone(), status: *status, n: *n });
            }
        }
        deltas
    }

    fn minutes(&self) -> Vec<MinuteStats> {
        let stats = self.stats.iter().map(|((minute, workflow), stats)| MinuteStats {
            workflow: workflow.clone(),
            minute: *minute,
            stats: stats.clone(),
        });
        stats.collect()
    }

    fn add(&mut self, other: Self) {
        for (workflow, counts) in other.counts {
            let kept = self.counts.entry(workflow).or_insert([0; 7]);
            for (kept, count) in kept.iter_mut().zip(counts) {
                *kept += count;
            }
        }
        for (key, stats) in other.stats {
            self.stats.entry(key).or_default().add(&stats);
        }
    }
}

/// Adds the changes once a second; sleeps while there are none.
pub(crate) async fn run(world: World, tally: Arc<Tally>) {
    loop {
        let stopped = std::pin::pin!(tally.stopped.notified());
        let changed = std::pin::pin!(async {
            tally.changed.notified().await;
            world.sleep(FLUSH_INTERVAL).await;
        });
        if let Either::Right(_) = future::select(changed, stopped).await {
            return;
        }
        tally.flush(&*world.runs).await;
        tally.feed.expire(world.clock.monotonic());
    }
}

/// Recounts all runs, in a separate task: a node has ended, and the changes that it had not added are lost.
pub(crate) fn recount(world: &World) {
    let store = Arc::clone(&world.runs);
    world.spawn.spawn(Box::pin(async move {
        if let Err(error) = store.recount().await {
            tracing::warn!(%error, "the runs were not recounted; the counts may be off by the changes that a lost node had not written");
        }
    }));
}

#[cfg(test)]
mod tests {
    use everstep_core::ids::RunId;

    use super::*;

    fn change(before: Option<Status>, after: Status, at: i64) -> Change {
        let begins_at = before.is_none().then_some(Timestamp::EPOCH);
        Change { before, after, begins_at, started_at: Timestamp::EPOCH, at: Timestamp::from_millis(at) }
    }

    #[test]
    fn changes_that_cancel_each_other_out_are_not_written() {
        let tally = Tally::default();
        tally.change(WorkspaceId::DEFAULT, "a", change(None, Status::Running, 0));
        tally.change(WorkspaceId::DEFAULT, "a", change(Some(Status::Running), Status::Waiting, 1));
        tally.change(WorkspaceId::DEFAULT, "a", change(Some(Status::Waiting), Status::Running, 2));
        let changes = tally.changes.lock().unwrap();
        let count = Counts { workflow: "a".to_owned(), status: Status::Running, n: 1 };
        assert_eq!(changes[&WorkspaceId::DEFAULT].deltas(), [count]);
    }

    #[test]
    fn a_run_that_another_node_has_ended_is_not_counted_again() {
        let tally = Tally::default();
        // The item only takes a row from the inbox of the run.
        let item = CommittedItem {
            run: RunId::new(Timestamp::EPOCH, 1),
            workspace: WorkspaceId::DEFAULT,
            workflow: "a",
            version: 1,
            folded: None,
            is_test: false,
            parent: None,
            started_at: Timestamp::EPOCH,
            created_at: Timestamp::EPOCH,
            before: Some(Status::Waiting),
            after: Status::Cancelled,
            entries: &[],
            settled: &[],
            answered: &[],
        };
        tally.count_item(&item, || Timestamp::EPOCH);
        assert!(tally.changes.lock().unwrap().is_empty());
    }

    #[test]
    fn starts_and_ends_are_figures_of_their_minutes() {
        let tally = Tally::default();
        tally.change(WorkspaceId::DEFAULT, "a", change(None, Status::Running, 0));
        tally.change(WorkspaceId::DEFAULT, "a", change(Some(Status::Running), Status::Failed, 61_000));
        tally.change(WorkspaceId::DEFAULT, "a", change(Some(Status::Failed), Status::Running, 62_000));
        tally.change(WorkspaceId::DEFAULT, "a", change(Some(Status::Running), Status::Cancelled, 63_000));
        let changes = tally.changes.lock().unwrap();
        let minutes = changes[&WorkspaceId::DEFAULT].minutes();
        let figures: Vec<_> = minutes
            .iter()
            .map(|minute| (minute.minute, minute.stats.started, minute.stats.failed, minute.stats.cancelled))
            .collect();
        assert_eq!(figures, [(0, 1, 0, 0), (1, 0, 1, 1)]);
        assert_eq!(minutes[1].stats.durations.iter().sum::<i64>(), 1, "a cancelled run has no duration");
    }
}
