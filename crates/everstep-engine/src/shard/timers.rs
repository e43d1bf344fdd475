//! Looks after the runs in memory: timers, eviction, watchers, draining.

use std::sync::atomic::Ordering;
use std::time::Duration;

use everstep_core::ids::{NodeId, RunId};

use crate::engine::News;
use crate::error::Error;
use crate::peers::Hint;
use crate::run::active::{Becomes, Decided, Slot, Tenure};
use crate::shard::Shard;

/// How long another node is told of a run after it has asked.
const FOLLOWED: Duration = Duration::from_secs(10);

impl Shard {
    pub(crate) fn set_timer(&mut self, run: RunId) {
        let Some(Slot::Held(held)) = self.runs.get_mut(&run) else { return };
        let next = held.state.next_due().filter(|_| held.tenure == Tenure::Owned);
        if held.timer != next {
            if let Some(before) = held.timer {
                self.timers.remove(&(before, run));
            }
            if let Some(next) = next {
                self.timers.insert((next, run));
            }
            held.timer = next;
        }
        let weight = held.state.weight();
        self.weight = self.weight + weight - held.weight;
        held.weight = weight;
    }

    pub(crate) fn fire_timers(&mut self) {
        let now = self.world.clock.now();
        while let Some((due, run)) = self.timers.first().copied().filter(|(due, _)| *due <= now) {
            self.timers.remove(&(due, run));
            if let Some(Slot::Held(held)) = self.runs.get_mut(&run) {
                held.timer = None;
                self.advance(run);
            }
        }
    }

    /// Parks idle runs while they take more memory than they may: those that wait longest first.
    pub(crate) fn evict(&mut self) {
        if self.weight <= self.options.max_state_bytes / self.options.shards {
            return;
        }
        let now = self.world.clock.now();
        let mut excess = self.weight - self.options.max_state_bytes / self.options.shards;
        let mut idle = Vec::new();
        for (due, run) in self.timers.iter().rev() {
            if let Some(Slot::Held(held)) = self.runs.get(run)
                && held.is_idle()
            {
                idle.push((*due, *run));
                excess = excess.saturating_sub(held.weight);
                if excess == 0 {
                    break;
                }
            }
        }
        for (due, run) in idle {
            self.propose(run, Decided::default(), now, Some(Becomes::Parked(due)));
        }
    }

    pub(crate) fn tell_watchers(&mut self, run: RunId) {
        if self.watchers.is_empty() && self.followers.is_empty() {
            return;
        }
        let Some(Slot::Held(held)) = self.runs.get(&run) else { return };
        let (seq, has_ended) = (held.state.seq, held.state.has_ended());
        self.told(run, if has_ended { News::Ended(seq) } else { News::Written(seq) });
        let Some(followers) = self.followers.get_mut(&run) else { return };
        let now = self.world.clock.monotonic();
        followers.retain(|_, until| *until > now);
        for follower in followers.keys().filter_map(|node| self.shared.peer(*node)) {
            let hint = if has_ended { Hint::Ended { run, seq } } else { Hint::Written { run, seq } };
            self.world.peers.hint(&follower, hint);
        }
        if followers.is_empty() || has_ended {
            self.followers.remove(&run);
        }
    }

    /// Tells those who follow a run here.
    pub(crate) fn told(&mut self, run: RunId, news: News) {
        let Some(watchers) = self.watchers.get_mut(&run) else { return };
        watchers.retain(|watcher| watcher.tell(news));
        if watchers.is_empty() || matches!(news, News::Ended(_)) {
            self.watchers.remove(&run);
        }
    }

    /// Another node asks for news of a run. What it may have missed, it hears at once.
    pub(crate) fn follow(&mut self, run: RunId, by: NodeId) {
        let until = self.world.clock.monotonic() + FOLLOWED;
        self.followers.entry(run).or_default().insert(by, until);
        if let Some(Slot::Held(held)) = self.runs.get(&run)
            && held.flight.is_none()
            && let Some(peer) = self.shared.peer(by)
        {
            self.world.peers.hint(&peer, Hint::Written { run, seq: held.state.seq });
        }
    }

    /// Whoever follows a run that is not here looks for himself, once per tick.
    pub(crate) fn ticked(&mut self) {
        let runs = &self.runs;
        let is_here = |run: &RunId| matches!(runs.get(run), Some(Slot::Held(held)) if held.tenure == Tenure::Owned);
        self.watchers.retain(|run, watchers| {
            if !is_here(run) {
                watchers.retain(|watcher| watcher.tell(News::Look));
            }
            !watchers.is_empty()
        });
        let now = self.world.clock.monotonic();
        self.followers.retain(|_, followers| followers.values().any(|until| *until > now));
    }

    /// This node is none any more: its tasks are for others to do again. Of what waits here nothing was written; what
    /// became of what is on its way nobody knows.
    pub(crate) fn abort_tasks(self) {
        for slot in self.runs.into_values() {
            let (performing, mailbox) = match slot {
                Slot::Held(held) => (held.performing, held.mailbox),
                Slot::Loading(loading) => (loading.performing, loading.mailbox),
            };
            performing.abort();
            for mail in mailbox {
                mail.answer(Err(Error::Stopping));
            }
        }
    }

    /// Watchers of runs that end elsewhere, or never, go without a word: they are looked for now and then.
    pub(crate) fn forget_watchers(&mut self) {
        if self.watchers.len() > self.most_watched {
            self.watchers.retain(|_, watchers| watchers.iter().any(|watcher| !watcher.sender.is_closed()));
            self.most_watched = 1_024.max(2 * self.watchers.len());
        }
    }

    /// A shard is drained when no item is in flight and no task is performed any more.
    pub(crate) fn finish_draining(&mut self) {
        if self.drained.is_none() {
            return;
        }
        let is_busy = self.runs.values().any(|slot| match slot {
            Slot::Loading(_) => true,
            Slot::Held(held) => held.flight.is_some(),
        });
        let is_performing = self.shared.performing.load(Ordering::SeqCst) > 0;
        if !is_busy
            && !is_performing
            && let Some(done) = self.drained.take()
        {
            let _ = done.send(());
        }
    }
}
