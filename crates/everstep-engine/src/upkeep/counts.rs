//! Counts runs by workflow and status, and adds the changes to the database once a second.
//!
//! A list reads the totals; it does not count runs. The changes that this node has not yet added are lost when it
//! crashes, at most those of about a second; the node that detects the crash recounts all runs. During a recount other
//! nodes continue, so that their changes of about a second may be counted twice, or not at all.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use everstep_core::ids::WorkspaceId;
use everstep_core::status::Status;
use everstep_store::{Counts, RunStore};
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

/// Differences by workspace and workflow, one per status.
type Changes = BTreeMap<WorkspaceId, BTreeMap<String, [i64; 7]>>;

impl Tally {
    /// Counts the change of status in an item.
    pub(crate) fn count_item(&self, item: &CommittedItem<'_>) {
        self.feed.gather(item);
        if !item.is_test && item.before != Some(item.after) {
            self.change(item.workspace, item.workflow, item.before, item.after);
        }
    }

    /// Counts that a run of a workflow has changed its status, or is new.
    pub(crate) fn change(&self, workspace: WorkspaceId, workflow: &str, before: Option<Status>, after: Status) {
        let mut changes = self.changes.lock().expect("no holder of the lock panics");
        let was_empty = changes.is_empty();
        let workflows = changes.entry(workspace).or_default();
        if !workflows.contains_key(workflow) {
            workflows.insert(workflow.to_owned(), [0; 7]);
        }
        if let Some(counts) = workflows.get_mut(workflow) {
            if let Some(before) = before {
                counts[before as usize] -= 1;
            }
            counts[after as usize] += 1;
        }
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
        for (workspace, workflows) in changes {
            let deltas = deltas(&workflows);
            if deltas.is_empty() {
                continue;
            }
            if let Err(error) = store.add_counts(workspace, deltas).await {
                tracing::warn!(%error, "the counts of runs were not written; retrying in a second");
                self.take_back(workspace, workflows);
            }
        }
    }

    fn take_back(&self, workspace: WorkspaceId, workflows: BTreeMap<String, [i64; 7]>) {
        let mut changes = self.changes.lock().expect("no holder of the lock panics");
        let kept = changes.entry(workspace).or_default();
        for (workflow, counts) in workflows {
            let kept = kept.entry(workflow).or_insert([0; 7]);
            for (kept, count) in kept.iter_mut().zip(counts) {
                *kept += count;
            }
        }
        drop(changes);
        self.changed.notify_one();
    }
}

fn deltas(workflows: &BTreeMap<String, [i64; 7]>) -> Vec<Counts> {
    let mut deltas = Vec::new();
    for (workflow, counts) in workflows {
        for (status, n) in Status::ALL.iter().zip(counts).filter(|(_, n)| **n != 0) {
            deltas.push(Counts { workflow: workflow.clone(), status: *status, n: *n });
        }
    }
    deltas
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
    use super::*;

    #[test]
    fn changes_that_cancel_each_other_out_are_not_written() {
        let tally = Tally::default();
        tally.change(WorkspaceId::DEFAULT, "a", None, Status::Running);
        tally.change(WorkspaceId::DEFAULT, "a", Some(Status::Running), Status::Waiting);
        tally.change(WorkspaceId::DEFAULT, "a", Some(Status::Waiting), Status::Running);
        let changes = tally.changes.lock().unwrap();
        let count = Counts { workflow: "a".to_owned(), status: Status::Running, n: 1 };
        assert_eq!(deltas(&changes[&WorkspaceId::DEFAULT]), [count]);
    }
}
