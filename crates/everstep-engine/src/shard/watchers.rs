//! The followers of a shard's runs: watchers on this node, and other nodes.

use std::collections::BTreeMap;
use std::time::Duration;

use everstep_core::ids::{NodeId, RunId};
use tokio::sync::oneshot;

use super::Shard;
use crate::node::peers::Hint;
use crate::run::{Ownership, RunSlot};
use crate::watch::{EndFacts, Notification, Watcher};

/// The time for which another node is notified after its request.
const FOLLOW_DURATION: Duration = Duration::from_secs(10);
/// The number of watched runs at which closed watchers are searched for the first time.
const SWEEP_RUNS_MIN: usize = 1_024;

pub(crate) struct Watchers {
    here: BTreeMap<RunId, Vec<Watcher>>,
    /// Nodes that follow a run of this shard, each with the end of its subscription.
    elsewhere: BTreeMap<RunId, BTreeMap<NodeId, Duration>>,
    /// The number of watched runs at which closed watchers are searched next.
    sweep_at: usize,
}

impl Default for Watchers {
    fn default() -> Self {
        Self { here: BTreeMap::new(), elsewhere: BTreeMap::new(), sweep_at: SWEEP_RUNS_MIN }
    }
}

impl Watchers {
    pub(super) fn is_empty(&self) -> bool {
        self.here.is_empty() && self.elsewhere.is_empty()
    }

    pub(super) fn add(&mut self, run: RunId, watcher: Watcher) {
        let watchers = self.here.entry(run).or_default();
        watchers.retain(|watcher| !watcher.is_closed());
        watchers.push(watcher);
        // Watchers of runs that end elsewhere, or never, close without a notification: they are searched from time to
        // time.
        if self.here.len() > self.sweep_at {
            self.here.retain(|_, watchers| watchers.iter().any(|watcher| !watcher.is_closed()));
            self.sweep_at = SWEEP_RUNS_MIN.max(2 * self.here.len());
        }
    }

    /// Whether a run has watchers on this node.
    pub(super) fn has(&self, run: RunId) -> bool {
        self.here.get(&run).is_some_and(|watchers| watchers.iter().any(|watcher| !watcher.is_closed()))
    }

    /// The callers that wait for the end of a run with nothing to read.
    pub(crate) fn take_ends(&mut self, run: RunId) -> Vec<oneshot::Sender<EndFacts>> {
        let watchers = self.here.get_mut(&run).into_iter().flatten();
        watchers.filter(|watcher| !watcher.is_closed()).filter_map(Watcher::take_end).collect()
    }

    /// Notifies the watchers of a run on this node.
    pub(super) fn notify(&mut self, run: RunId, notification: Notification) {
        let Some(watchers) = self.here.get_mut(&run) else { return };
        watchers.retain(|watcher| watcher.notify(notification));
        if watchers.is_empty() || matches!(notification, Notification::Ended(_)) {
            self.here.remove(&run);
        }
    }

    /// Whether other nodes follow any run.
    pub(super) fn has_followers(&self) -> bool {
        !self.elsewhere.is_empty()
    }

    /// The nodes that follow a run.
    pub(super) fn followers(&mut self, run: RunId, now: Duration, has_ended: bool) -> impl Iterator<Item = NodeId> {
        let mut nodes = BTreeMap::new();
        if let Some(followers) = self.elsewhere.get_mut(&run) {
            followers.retain(|_, until| *until > now);
            if followers.is_empty() || has_ended {
                nodes = self.elsewhere.remove(&run).unwrap_or_default();
            } else {
                nodes.clone_from(followers);
            }
        }
        nodes.into_keys()
    }
}

impl Shard {
    /// Adds a watcher. If its caller has not read the run, it receives [`Notification::Look`], unless this node owns the run
    /// and the run continues: then the watcher receives every later notification.
    pub(super) fn watch(&mut self, id: RunId, watcher: Watcher) {
        let continues = matches!(
            self.runs.get(&id),
            Some(RunSlot::Active(run)) if run.ownership() == Ownership::Owner && !run.state().is_paused()
        );
        if watcher.is_unread() && !continues {
            watcher.notify(Notification::Look);
        }
        self.services.watchers.add(id, watcher);
    }

    /// Another node requests notifications of a run. It is notified at once of entries that it may have missed.
    pub(super) fn follow(&mut self, id: RunId, by: NodeId) {
        let until = self.services.world.clock.monotonic() + FOLLOW_DURATION;
        self.services.watchers.elsewhere.entry(id).or_default().insert(by, until);
        if let Some(RunSlot::Active(run)) = self.runs.get(&id)
            && !run.is_in_flight()
            && let Some(peer) = self.services.shared.peer(by)
        {
            self.services.world.peers.hint(&peer, Hint::Written { run: id, seq: run.state().seq });
        }
    }

    /// Makes watchers of runs that this node does not own read the run, once per tick.
    pub(super) fn ticked(&mut self) {
        let runs = &self.runs;
        let is_owned =
            |run: &RunId| matches!(runs.get(run), Some(RunSlot::Active(run)) if run.ownership() == Ownership::Owner);
        let now = self.services.world.clock.monotonic();
        let Watchers { here, elsewhere, .. } = &mut self.services.watchers;
        here.retain(|run, watchers| {
            if !is_owned(run) {
                watchers.retain(|watcher| watcher.notify(Notification::Look));
            }
            !watchers.is_empty()
        });
        elsewhere.retain(|_, followers| followers.values().any(|until| *until > now));
    }
}
