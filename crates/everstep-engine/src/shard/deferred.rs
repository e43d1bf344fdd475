//! Decisions of workspaces that have used their time.
//!
//! A shard decides for the runs of all workspaces, and one decision may take 20 ms. Without a rule, ten costly decisions
//! of one workspace that are ready together delay every message behind them by all ten.
//!
//! 1. The shard measures the time of its decisions by workspace. Costly ones ([`COSTLY_DECISION`]) count always, others
//!    only while several workspaces use the node: the runs of a workspace alone are not divided into slices.
//! 2. The further decisions of a workspace that has used [`TIME_MAX`] are deferred. An input that arrives for one of its
//!    runs is put into the mailbox of the run at once: inputs keep their order, and a request to a machine expects the
//!    version that its run has when the request arrives.
//! 3. After all messages that have arrived, the shard makes deferred decisions for [`SLICE`], then other messages are
//!    next. The workspaces take turns, and a turn ends with its slice: a workspace with short decisions makes many of
//!    them in its turn.
//! 4. With each round of messages a workspace without deferred decisions gets a slice of its time back, and all of it
//!    when no decision is deferred.

use std::collections::BTreeMap;
use std::time::Duration;

use everstep_core::ids::{RunId, WorkspaceId};

use crate::start::StartRequest;
use crate::workspace_queue::WorkspaceQueue;

/// The time of a workspace before its decisions are deferred.
const TIME_MAX: Duration = Duration::from_millis(5);
/// The most time that counts. A workspace that has used much more returns to its normal state as soon as another one.
const COUNTED_TIME_MAX: Duration = Duration::from_millis(20);
/// The duration from which on a decision counts although no other workspace uses the node.
const COSTLY_DECISION: Duration = Duration::from_millis(1);
/// The time for which deferred decisions are made before messages that have arrived since.
pub(super) const SLICE: Duration = Duration::from_millis(2);

/// A decision that waits for the turn of its workspace.
pub(crate) enum DeferredDecision {
    Start(Box<StartRequest>),
    /// The waiting inputs of a run, or the rest of a decision that was cut.
    Run(RunId),
}

/// The deferred decisions of a shard, and the time that each workspace has used.
pub(crate) struct DeferredDecisions<T = DeferredDecision> {
    used: BTreeMap<WorkspaceId, Duration>,
    waiting: WorkspaceQueue<T>,
    /// Whether several workspaces use the node.
    is_shared: bool,
}

impl<T> DeferredDecisions<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn set_shared(&mut self, is_shared: bool) {
        self.is_shared = is_shared;
    }

    /// Whether the next decision of a workspace is deferred.
    pub(crate) fn must_wait(&self, workspace: WorkspaceId) -> bool {
        if self.used.is_empty() && self.waiting.is_empty() {
            return false;
        }
        self.waiting.has(workspace) || self.used.get(&workspace).is_some_and(|used| *used >= TIME_MAX)
    }

    pub(crate) fn push(&mut self, workspace: WorkspaceId, decision: T) {
        self.waiting.push_back(workspace, decision);
    }

    /// The next decision of the workspace whose turn it is.
    pub(super) fn next(&mut self) -> Option<(WorkspaceId, T)> {
        self.waiting.pop_in_turn()
    }

    /// Ends the turn of a workspace.
    pub(super) fn pass_turn(&mut self, workspace: WorkspaceId) {
        self.waiting.pass_turn(workspace);
    }

    /// Records the time of a decision.
    pub(crate) fn record(&mut self, workspace: WorkspaceId, time: Duration) {
        if self.is_shared || time >= COSTLY_DECISION {
            let used = self.used.entry(workspace).or_default();
            *used = (*used + time).min(COUNTED_TIME_MAX);
        }
    }

    /// Everything that has arrived is handled.
    pub(super) fn end_round(&mut self) {
        if self.used.is_empty() {
            return;
        }
        if self.waiting.is_empty() {
            return self.used.clear();
        }
        let waiting = &self.waiting;
        self.used.retain(|workspace, used| {
            if !waiting.has(*workspace) {
                *used = used.saturating_sub(SLICE);
            }
            !used.is_zero()
        });
    }
}

impl<T> Default for DeferredDecisions<T> {
    fn default() -> Self {
        Self { used: BTreeMap::new(), waiting: WorkspaceQueue::default(), is_shared: false }
    }
}

#[cfg(test)]
mod tests {
    use everstep_core::time::Timestamp;

    use super::*;

    fn workspaces() -> [WorkspaceId; 2] {
        [1, 2].map(|number| WorkspaceId::new(Timestamp::EPOCH, number))
    }

    #[test]
    fn a_workspace_that_has_used_its_time_waits() {
        let [busy, calm] = workspaces();
        let mut deferred = DeferredDecisions::default();
        deferred.set_shared(true);
        deferred.record(busy, TIME_MAX / 2);
        assert!(!deferred.must_wait(busy));
        deferred.record(busy, TIME_MAX / 2);
        assert!(deferred.must_wait(busy));
        assert!(!deferred.must_wait(calm));
        deferred.push(busy, 1);
        deferred.push(busy, 2);
        deferred.end_round();
        assert!(deferred.must_wait(busy), "behind the ones that wait");
        assert_eq!([deferred.next(), deferred.next(), deferred.next()], [Some((busy, 1)), Some((busy, 2)), None]);
        deferred.end_round();
        assert!(!deferred.must_wait(busy));
    }

    #[test]
    fn only_costly_decisions_of_a_workspace_alone_count() {
        let [alone, _] = workspaces();
        let mut deferred = DeferredDecisions::<u8>::default();
        for _ in 0..1_000 {
            deferred.record(alone, COSTLY_DECISION - Duration::from_micros(1));
        }
        assert!(!deferred.must_wait(alone));
        for _ in 0..5 {
            deferred.record(alone, COSTLY_DECISION);
        }
        assert!(deferred.must_wait(alone), "another workspace would wait for it");
    }

    #[test]
    fn a_workspace_with_short_decisions_does_not_wait_beside_one_that_always_waits() {
        let [busy, calm] = workspaces();
        let mut deferred = DeferredDecisions::default();
        deferred.set_shared(true);
        deferred.record(busy, Duration::from_secs(1));
        deferred.push(busy, 1);
        for _ in 0..100 {
            deferred.record(calm, SLICE / 2);
            assert!(!deferred.must_wait(calm));
            deferred.end_round();
        }
        assert!(deferred.must_wait(busy));
        // A turn ends with its slice, and not with each decision.
        deferred.push(busy, 2);
        deferred.push(calm, 3);
        deferred.push(calm, 4);
        let (of_busy, _) = deferred.next().unwrap();
        deferred.pass_turn(of_busy);
        assert_eq!([deferred.next(), deferred.next(), deferred.next()].map(|next| next.unwrap().1), [3, 4, 2]);
    }
}
