//! The figures of runs over time: the sums of `run_stats` are those of the journals.
//!
//! 1. The database has the sum of the figures that nodes have added to it.
//! 2. A node adds each change of a status at most once. An addition whose reply is lost is repeated, and not counted here.
//! 3. While no process ends and no node is fenced, every change is added. A fork is counted by the node that receives the
//!    reply of the database; if the reply is lost, it is not counted as started.

use std::collections::BTreeMap;

use everstep_core::ids::{RunId, WorkspaceId};
use everstep_core::journal::Entry;
use everstep_core::run::State;
use everstep_core::status::Status;
use everstep_core::workflow::Workflow;
use everstep_store::{MinuteStats, RunStats, StatsQuery, minute_of};

use super::executor::BEGIN;
use super::store::SimStore;

/// Figures by workflow.
pub(super) type Figures = BTreeMap<String, RunStats>;

/// The figures that nodes have added.
#[derive(Default)]
pub(super) struct AddedFigures {
    /// Those that the database has added, one that arrives twice twice.
    applied: Figures,
    /// Those whose node knows that they were added.
    acknowledged: Figures,
    /// Forks that exist although the node that made them received no reply.
    pub(super) unknown_forks: i64,
}

impl AddedFigures {
    pub(super) fn apply(&mut self, minutes: &[MinuteStats]) {
        add(&mut self.applied, minutes);
    }

    pub(super) fn acknowledge(&mut self, minutes: &[MinuteStats]) {
        add(&mut self.acknowledged, minutes);
    }
}

fn add(figures: &mut Figures, minutes: &[MinuteStats]) {
    for minute in minutes {
        figures.entry(minute.workflow.clone()).or_default().add(&minute.stats);
    }
}

/// Adds the figures of a run: its start, and every item that ended it.
pub(super) fn count_run(
    figures: &mut Figures,
    run: RunId,
    workflow: &Workflow,
    journal: &[(bool, Entry)],
    copied: u64,
) -> Result<(), String> {
    let stats = figures.entry(workflow.name.clone()).or_default();
    stats.started += 1;
    let mut state = State::new(run, workflow);
    let mut before = None;
    for (index, (_, entry)) in journal.iter().enumerate() {
        state.apply(workflow, entry).map_err(|error| error.to_string())?;
        let is_last_of_item = journal.get(index + 1).is_none_or(|(is_first_of_item, _)| *is_first_of_item);
        if !is_last_of_item {
            continue;
        }
        let after = state.status();
        // Entries of a fork up to this one are those of its original, which has not ended there.
        if entry.seq > copied && before != Some(after) && after.has_ended() {
            match after {
                Status::Completed => stats.completed += 1,
                Status::Failed => stats.failed += 1,
                Status::Cancelled => stats.cancelled += 1,
                Status::Pending | Status::Running | Status::Waiting | Status::Paused => {}
            }
            if after != Status::Cancelled {
                stats.count_duration(entry.at.since(state.started_at));
            }
        }
        before = Some(after);
    }
    Ok(())
}

/// Compares the figures with those of the journals.
pub(super) fn check(store: &SimStore, journals: &Figures, has_lost_nodes: bool) -> Result<(), String> {
    let begin = minute_of(BEGIN) - 100_000;
    let nothing = RunStats::default();
    let ledger = store.ledger();
    let AddedFigures { applied, acknowledged, unknown_forks } = &ledger.figures;
    for (workflow, expected) in journals {
        let all = StatsQuery { since: begin, until: begin + 200_000, every: 200_000, workflow: Some(workflow.clone()) };
        let stored = store.direct(|db| db.run_stats(WorkspaceId::DEFAULT, &all)).map_err(|error| error.to_string())?;
        let stored = stored.into_iter().next().map(|(_, stats)| stats).unwrap_or_default();
        if stored != *applied.get(workflow).unwrap_or(&nothing) {
            return Err(format!("the figures of {workflow} are {stored:?}, and {applied:?} were added"));
        }
        let counted = acknowledged.get(workflow).unwrap_or(&nothing);
        let differences = differences(counted, expected);
        let is_right = differences.iter().enumerate().all(|(index, difference)| match difference {
            0 => true,
            // The start of a fork.
            -3..0 if index == 0 && -difference <= *unknown_forks => true,
            _ => *difference < 0 && has_lost_nodes,
        });
        if !is_right {
            return Err(format!("the figures of {workflow} are {counted:?}, and its journals have {expected:?}"));
        }
    }
    Ok(())
}

/// How much larger each of the first figures is than the second.
fn differences(counted: &RunStats, expected: &RunStats) -> Vec<i64> {
    let list = |stats: &RunStats| {
        let mut list = vec![stats.started, stats.completed, stats.failed, stats.cancelled];
        list.extend(stats.durations);
        list
    };
    list(counted).into_iter().zip(list(expected)).map(|(counted, expected)| counted - expected).collect()
}
