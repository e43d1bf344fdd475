//! Reads from the journals of ended runs their steps and their durations.

use std::collections::HashMap;
use std::time::Duration;

use everstep_core::ids::RunId;
use everstep_core::journal::Kind;
use everstep_store::{RunStore, StoredEntry};

/// The number of runs whose journals are read: more would only repeat them.
const RUNS: usize = 500;
const ENTRIES: usize = 10_000;

#[derive(Default)]
pub(super) struct Journals {
    pub(super) runs: usize,
    pub(super) entries: usize,
    /// Steps that were completed, failed or skipped.
    pub(super) steps: usize,
    /// The duration of each task.
    pub(super) nodes: Vec<NodeTime>,
}

/// The time from the decision that dispatched a task to the decision that recorded its result.
///
/// It contains everything in between: the commit of the dispatch, the handler, and the delivery of the result.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeTime {
    /// The seq of the node's completion.
    pub(super) seq: u64,
    pub(super) time: Duration,
}

impl Journals {
    pub(super) async fn read(store: &dyn RunStore, runs: impl Iterator<Item = RunId>) -> anyhow::Result<Self> {
        let mut journals = Self::default();
        for run in runs.take(RUNS) {
            journals.add(&store.journal(run, 0, ENTRIES).await?);
        }
        Ok(journals)
    }

    fn add(&mut self, entries: &[StoredEntry]) {
        self.runs += 1;
        self.entries += entries.len();
        let mut dispatched = HashMap::new();
        for entry in entries {
            let step = entry.row.step.as_ref();
            match entry.row.kind {
                // The dispatch of a task has no payload; other dispatches contain what they wait for.
                Kind::StepDispatched if entry.row.payload.is_empty() => _ = dispatched.insert(step, entry.at),
                Kind::StepCompleted | Kind::StepFailed => {
                    self.steps += 1;
                    if let Some(before) = dispatched.remove(&step) {
                        self.nodes.push(NodeTime { seq: entry.seq, time: entry.at.since(before) });
                    }
                }
                Kind::StepSkipped => self.steps += 1,
                _ => {}
            }
        }
    }

    pub(super) fn times(&self) -> Vec<Duration> {
        self.nodes.iter().map(|node| node.time).collect()
    }

    /// The durations of the nodes whose completion is at most `reach` entries from `seq`.
    pub(super) fn times_around(&self, seq: u64, reach: u64) -> Vec<Duration> {
        let around = self.nodes.iter().filter(|node| node.seq.abs_diff(seq) <= reach);
        around.map(|node| node.time).collect()
    }
}
