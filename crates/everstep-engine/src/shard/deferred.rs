//! Requests of workspaces that have used their time.
//!
//! A shard decides for the runs of all workspaces, and one decision may take 20 ms. Without a rule, ten costly requests
//! of one workspace that arrive together delay every message behind them by all ten.
//!
//! 1. The shard measures the time that the requests of each workspace take. While several workspaces write, one that has
//!    used [`TIME_MAX`] since the shard was last without deferred requests has its further ones deferred.
//! 2. After all messages that have arrived, the shard handles deferred requests for [`SLICE`]; the workspaces take turns.
//! 3. Starts and loaded runs are deferred: nothing else depends on their order, and the requests of a workspace keep
//!    theirs. An input is not: a request to a machine expects the version that its run has when the request arrives.

use std::collections::BTreeMap;
use std::time::Duration;

use everstep_core::ids::WorkspaceId;

use super::message::ToShard;
use crate::workspace_queue::WorkspaceQueue;

/// The time of a workspace before its requests are deferred.
const TIME_MAX: Duration = Duration::from_millis(5);
/// The time for which deferred requests are handled before those that have arrived since.
pub(super) const SLICE: Duration = Duration::from_millis(2);

pub(super) struct DeferredRequests<T> {
    used: BTreeMap<WorkspaceId, Duration>,
    waiting: WorkspaceQueue<T>,
}

impl<T> DeferredRequests<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes a request whose workspace has used its time, if several workspaces write. Returns any other.
    pub(super) fn defer(&mut self, workspace: WorkspaceId, request: T, is_shared: bool) -> Option<T> {
        let has_used = || is_shared && self.used.get(&workspace).is_some_and(|used| *used >= TIME_MAX);
        if !self.waiting.has(workspace) && !has_used() {
            return Some(request);
        }
        self.waiting.push_back(workspace, request);
        None
    }

    /// The deferred request that is handled next.
    pub(super) fn next(&mut self) -> Option<T> {
        self.waiting.pop_front()
    }

    /// Records the time of a request.
    pub(super) fn record(&mut self, workspace: WorkspaceId, time: Duration) {
        *self.used.entry(workspace).or_default() += time;
    }

    /// Everything that has arrived is handled.
    pub(super) fn end_round(&mut self) {
        if self.waiting.is_empty() && !self.used.is_empty() {
            self.used.clear();
        }
    }
}

impl<T> Default for DeferredRequests<T> {
    fn default() -> Self {
        Self { used: BTreeMap::new(), waiting: WorkspaceQueue::default() }
    }
}

/// The workspace of a message that can be deferred.
pub(super) fn requester(message: &ToShard) -> Option<WorkspaceId> {
    match message {
        ToShard::Start(request) => Some(request.workspace),
        ToShard::Loaded(_, loaded) => loaded.as_ref().as_ref().ok().map(|(stored, _)| stored.run.workspace),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use everstep_core::time::Timestamp;

    use super::*;

    #[test]
    fn a_workspace_that_has_used_its_time_waits() {
        let [busy, calm] = [1, 2].map(|number| WorkspaceId::new(Timestamp::EPOCH, number));
        let mut deferred = DeferredRequests::default();
        assert_eq!(deferred.defer(busy, 1, true), Some(1));
        deferred.record(busy, TIME_MAX);
        assert_eq!(deferred.defer(busy, 2, false), Some(2), "a workspace alone");
        assert_eq!(deferred.defer(busy, 3, true), None);
        assert_eq!(deferred.defer(calm, 4, true), Some(4));
        deferred.end_round();
        assert_eq!(deferred.defer(busy, 5, false), None, "behind the one that waits");
        assert_eq!([deferred.next(), deferred.next(), deferred.next()], [Some(3), Some(5), None]);
        deferred.end_round();
        assert_eq!(deferred.defer(busy, 6, true), Some(6));
    }
}
