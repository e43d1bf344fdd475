//! Looks after the runs in memory: timers, eviction, watchers, draining.

use std::sync::atomic::Ordering;

use everstep_core::ids::RunId;

use crate::held::{Becomes, Decided, Slot, Tenure};
use crate::shard::Shard;

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
            let decided = Decided { entries: Vec::new(), answered: Vec::new() };
            self.propose(run, decided, now, Some(Becomes::Parked(due)));
        }
    }

    pub(crate) fn tell_watchers(&mut self, run: RunId) {
        let Some(watchers) = self.watchers.get_mut(&run) else { return };
        let Some(Slot::Held(held)) = self.runs.get(&run) else { return };
        watchers.retain(|watcher| watcher.send(held.state.seq).is_ok());
        if watchers.is_empty() || held.state.has_ended() {
            self.watchers.remove(&run);
        }
    }

    /// Watchers of runs that end elsewhere, or never, go without a word: they are looked for now and then.
    pub(crate) fn forget_watchers(&mut self) {
        if self.watchers.len() > self.most_watched {
            self.watchers.retain(|_, watchers| watchers.iter().any(|watcher| !watcher.is_closed()));
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
