//! When the runs of a shard are due, and how much memory they use.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use everstep_core::ids::RunId;
use everstep_core::time::Timestamp;

use super::{DeferredDecision, Shard, ToShard};
use crate::error::Error;
use crate::run::{ActiveRun, Ownership, RunSlot};

/// The timers of a shard's runs: for each owned run at rest, the time of its next timer.
#[derive(Default)]
pub(crate) struct Schedule {
    timers: BTreeSet<(Timestamp, RunId)>,
    /// The weight of all runs, in bytes.
    weight: usize,
}

/// The schedule's record of one run.
#[derive(Default)]
pub(crate) struct Scheduled {
    timer: Option<Timestamp>,
    weight: usize,
}

impl Scheduled {
    /// Makes the schedule assume that a timer is set, as a planted bug does.
    pub(crate) fn pretend(&mut self, timer: Option<Timestamp>) {
        self.timer = timer;
    }
}

impl Schedule {
    /// Sets the timer of a run by its state.
    pub(crate) fn set(&mut self, run: &mut ActiveRun) {
        let next = run.state().next_due().filter(|_| run.ownership() == Ownership::Owner);
        let (id, weight) = (run.id(), run.state().weight());
        let scheduled = run.scheduled();
        if scheduled.timer != next {
            if let Some(before) = scheduled.timer {
                self.timers.remove(&(before, id));
            }
            if let Some(next) = next {
                self.timers.insert((next, id));
            }
            scheduled.timer = next;
        }
        self.weight = self.weight + weight - scheduled.weight;
        scheduled.weight = weight;
    }

    /// Removes a run that leaves memory.
    pub(super) fn forget(&mut self, run: &mut ActiveRun) {
        let id = run.id();
        let scheduled = run.scheduled();
        if let Some(due) = scheduled.timer.take() {
            self.timers.remove(&(due, id));
        }
        self.weight -= std::mem::take(&mut scheduled.weight);
    }

    /// The time of the first timer.
    pub(super) fn first(&self) -> Option<Timestamp> {
        self.timers.first().map(|(due, _)| *due)
    }

    fn pop_due(&mut self, now: Timestamp) -> Option<RunId> {
        let (due, run) = self.timers.first().copied().filter(|(due, _)| *due <= now)?;
        self.timers.remove(&(due, run));
        Some(run)
    }
}

impl Shard {
    pub(super) fn fire_timers(&mut self) {
        if self.services.schedule.first().is_none() {
            return;
        }
        let now = self.services.now();
        while let Some(id) = self.services.schedule.pop_due(now) {
            if let Some(RunSlot::Active(run)) = self.runs.get_mut(&id) {
                run.scheduled().timer = None;
                let next = run.advance(&mut self.services);
                self.apply(id, next);
            }
        }
    }

    /// Parks idle runs while all runs use more memory than allowed: those with the longest wait first.
    pub(super) fn evict(&mut self) {
        let options = &self.services.options;
        let weight_max = options.max_state_bytes / options.shards;
        if self.services.schedule.weight <= weight_max {
            return;
        }
        let mut excess = self.services.schedule.weight - weight_max;
        let mut idle = Vec::new();
        for (due, id) in self.services.schedule.timers.iter().rev() {
            if let Some(RunSlot::Active(run)) = self.runs.get_mut(id)
                && run.is_idle()
            {
                idle.push((*due, *id));
                excess = excess.saturating_sub(run.scheduled().weight);
                if excess == 0 {
                    break;
                }
            }
        }
        for (due, id) in idle {
            if let Some(RunSlot::Active(run)) = self.runs.get_mut(&id) {
                let next = run.park(due, &mut self.services);
                self.apply(id, next);
            }
        }
    }

    /// Ends the shard. Tasks are aborted: the next owners of their runs dispatch them again. Waiting inputs, and the starts
    /// and inputs among the messages that were received or sent last, were not written; the outcome of inputs whose item is
    /// in flight is unknown.
    pub(super) async fn quit(mut self, received: Vec<ToShard>) {
        let refusal = self.services.shared.end_error();
        self.messages.close();
        received.into_iter().for_each(|message| reject(message, &refusal));
        while let Some(message) = self.messages.recv().await {
            reject(message, &refusal);
        }
        let mut deferred = self.services.deferred;
        while let Some((_, decision)) = deferred.next() {
            match decision {
                DeferredDecision::Start(request) => _ = request.reply.send(Err(Error::Stopping)),
                DeferredDecision::Run(_) => {}
            }
        }
        for slot in self.runs.into_values() {
            let (performer, mailbox) = match slot {
                RunSlot::Active(run) => run.into_parts(),
                RunSlot::Loading(loading) => (loading.performer, loading.mailbox),
            };
            performer.abort();
            for envelope in mailbox {
                envelope.answer(Err(refusal.clone()));
            }
        }
    }

    /// Replies to a drain when no item is in flight and no task is performed.
    pub(super) fn finish_draining(&mut self) {
        if self.drained.is_none() {
            return;
        }
        let is_busy = !self.services.deferred.is_empty()
            || self.runs.values().any(|slot| match slot {
                RunSlot::Loading(_) => true,
                RunSlot::Active(run) => run.is_in_flight(),
            });
        let is_performing = self.services.shared.performing.load(Ordering::SeqCst) > 0;
        if !is_busy
            && !is_performing
            && let Some(done) = self.drained.take()
        {
            let _ = done.send(());
        }
    }
}

/// Replies to a message that a shard received when it had ended. The engine's own starts end with [`Error::Stopping`].
fn reject(message: ToShard, refusal: &Error) {
    match message {
        ToShard::Start(request) => _ = request.reply.send(Err(Error::Stopping)),
        ToShard::Input(_, envelope) => envelope.answer(Err(refusal.clone())),
        _ => {}
    }
}
