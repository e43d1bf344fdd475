//! Bounds the number of runs that a node owns at the same time.
//!
//! A run that this node owns holds a [`RunPermit`]. The number of runs that a claim gets is known only from its reply, so
//! a claim holds a [`Reservation`] for as many as it requests, from before the query until after its reply. Without the
//! reservation a start could use the permit that a claim in progress uses a moment later.
//!
//! **Invariant**: permits and reservations together never exceed `max_active_runs`, except for runs that this node must
//! own in any case (see [`RunPermits::take_regardless`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future;
use tokio::sync::{Notify, mpsc};

use crate::message::ToClaimer;
use crate::node::clock::NodeClock;

/// The time for which a start waits for the reply of a claim that has reserved the last permits.
const CLAIM_ANSWER_WAIT: Duration = Duration::from_millis(100);
/// One reserved permit in [`RunPermits::counts`], whose lower half counts the permits in use.
const RESERVED_ONE: u64 = 1 << 32;

/// The performer of a run's steps. A quarter of the permits is reserved for runs that the server performs, so that runs
/// that wait for slow workers do not block all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    Server,
    Worker,
}

impl Share {
    /// The share of the runs of a lane.
    pub(crate) fn of_lane(lane: &str) -> Self {
        if lane.is_empty() { Self::Server } else { Self::Worker }
    }
}

/// The permits of a node.
pub(crate) struct RunPermits {
    /// The number of permits for all runs.
    max: u64,
    /// The part of them that runs of workers may use.
    worker_max: u64,
    /// Reserved permits in the upper half, permits in use in the lower half: one word, so that both change together.
    counts: AtomicU64,
    /// Whether due runs of the server's own lane may wait in the database for a permit.
    has_server_backlog: AtomicBool,
    /// Whether due runs of a worker's lane may wait in the database for a permit.
    has_worker_backlog: AtomicBool,
    /// Reserved permits were used or returned.
    settled: Notify,
    claimer: mpsc::UnboundedSender<ToClaimer>,
}

impl RunPermits {
    pub(crate) fn new(max_active_runs: usize, claimer: mpsc::UnboundedSender<ToClaimer>) -> Arc<Self> {
        let max = u64::from(u32::try_from(max_active_runs).unwrap_or(u32::MAX));
        Arc::new(Self {
            max,
            worker_max: max - max / 4,
            counts: AtomicU64::new(0),
            has_server_backlog: AtomicBool::new(false),
            has_worker_backlog: AtomicBool::new(false),
            settled: Notify::new(),
            claimer,
        })
    }

    /// The number of runs that hold a permit.
    pub(crate) fn active(&self) -> usize {
        (self.counts.load(Ordering::SeqCst) % RESERVED_ONE) as usize
    }

    /// The number of permits that are neither used nor reserved.
    pub(crate) fn free(&self, share: Share) -> usize {
        self.limit(share).saturating_sub(used(self.counts.load(Ordering::SeqCst))) as usize
    }

    fn limit(&self, share: Share) -> u64 {
        match share {
            Share::Server => self.max,
            Share::Worker => self.worker_max,
        }
    }

    /// Takes a permit if one is free.
    pub(crate) fn try_take(self: &Arc<Self>, share: Share) -> Option<RunPermit> {
        let limit = self.limit(share);
        let take = |counts| (used(counts) < limit).then_some(counts + 1);
        self.counts.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).ok()?;
        Some(RunPermit(Arc::clone(self)))
    }

    /// Takes a permit for a run that starts. While a claim has reserved the last permits, the start waits for its
    /// reply: the claim may leave some of them free.
    pub(crate) async fn take_for_start(self: &Arc<Self>, share: Share, clock: &NodeClock) -> Option<RunPermit> {
        if let Some(permit) = self.try_take(share) {
            return Some(permit);
        }
        let mut timeout = clock.sleep(CLAIM_ANSWER_WAIT);
        loop {
            let mut settled = std::pin::pin!(self.settled.notified());
            settled.as_mut().enable();
            if let Some(permit) = self.try_take(share) {
                return Some(permit);
            }
            if self.active() as u64 >= self.limit(share) {
                return None;
            }
            if let future::Either::Right(_) = future::select(settled, &mut timeout).await {
                return self.try_take(share);
            }
        }
    }

    /// Takes a permit whether or not one is free. Two runs need it: one that this node already owns in the database,
    /// because the reply of a claim was lost; and one that an input woke and that dispatches a task in the same item.
    /// While the node exceeds its limit, it claims nothing and parks starts.
    pub(crate) fn take_regardless(self: &Arc<Self>) -> RunPermit {
        self.counts.fetch_add(1, Ordering::SeqCst);
        RunPermit(Arc::clone(self))
    }

    /// Reserves permits for a claim: as many as are free, and at most `places`.
    pub(crate) fn reserve(self: &Arc<Self>, share: Share, places: usize) -> Reservation {
        let (limit, mut granted) = (self.limit(share), 0);
        let reserve = |counts| {
            granted = limit.saturating_sub(used(counts)).min(places as u64);
            (granted > 0).then(|| counts + granted * RESERVED_ONE)
        };
        let reserved = self.counts.fetch_update(Ordering::SeqCst, Ordering::SeqCst, reserve);
        Reservation { permits: Arc::clone(self), places: reserved.map_or(0, |_| granted) }
    }

    /// Sets whether due runs may wait in the database for a permit. If so, the next permit that becomes free wakes the
    /// claimer. A permit that became free before this call does not: read [`RunPermits::free`] afterwards.
    pub(crate) fn set_backlog(&self, share: Share, has_backlog: bool) {
        let flag = match share {
            Share::Server => &self.has_server_backlog,
            Share::Worker => &self.has_worker_backlog,
        };
        flag.store(has_backlog, Ordering::SeqCst);
    }

    /// Returns `count` permits, and wakes the claimer if runs wait for them.
    fn give_back(&self, count: u64) {
        let before = self.counts.fetch_sub(count, Ordering::SeqCst);
        let is_wanted = |flag: &AtomicBool| flag.load(Ordering::SeqCst) && flag.swap(false, Ordering::SeqCst);
        let has_worker_place = used(before - count) < self.worker_max;
        if is_wanted(&self.has_server_backlog) || (has_worker_place && is_wanted(&self.has_worker_backlog)) {
            let _ = self.claimer.send(ToClaimer::Room);
        }
    }
}

fn used(counts: u64) -> u64 {
    counts % RESERVED_ONE + counts / RESERVED_ONE
}

/// A run's permit to be owned by a node. Dropping it returns the permit.
pub(crate) struct RunPermit(Arc<RunPermits>);

impl Drop for RunPermit {
    fn drop(&mut self) {
        self.0.give_back(1);
    }
}

/// Permits that a claim in progress may use. Dropping it returns those that were not used.
pub(crate) struct Reservation {
    permits: Arc<RunPermits>,
    places: u64,
}

impl Reservation {
    pub(crate) fn places(&self) -> usize {
        self.places as usize
    }

    /// Turns one reserved permit into the permit of a claimed run.
    pub(crate) fn fill(&mut self) -> RunPermit {
        if self.places == 0 {
            return self.permits.take_regardless();
        }
        self.places -= 1;
        self.permits.counts.fetch_sub(RESERVED_ONE - 1, Ordering::SeqCst);
        RunPermit(Arc::clone(&self.permits))
    }

    /// Adds another reservation to this one.
    pub(crate) fn add(&mut self, mut other: Self) {
        self.places += std::mem::take(&mut other.places);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.places > 0 {
            self.permits.give_back(self.places * RESERVED_ONE);
        }
        self.permits.settled.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permits(max: usize) -> (Arc<RunPermits>, mpsc::UnboundedReceiver<ToClaimer>) {
        let (claimer, messages) = mpsc::unbounded_channel();
        (RunPermits::new(max, claimer), messages)
    }

    #[test]
    fn a_claim_under_way_uses_places() {
        let (permits, _messages) = permits(5);
        let _first = permits.try_take(Share::Server).unwrap();
        let mut reservation = permits.reserve(Share::Server, 500);
        assert_eq!((reservation.places(), permits.active()), (4, 1));
        assert!(permits.try_take(Share::Server).is_none());
        let _claimed = reservation.fill();
        assert_eq!(permits.active(), 2);
        drop(reservation);
        assert_eq!(permits.free(Share::Server), 3);
    }

    #[test]
    fn runs_of_workers_leave_a_quarter_of_the_places() {
        let (permits, _messages) = permits(8);
        let workers: Vec<_> = std::iter::from_fn(|| permits.try_take(Share::Worker)).collect();
        assert_eq!(workers.len(), 6);
        assert_eq!(permits.reserve(Share::Worker, 5).places(), 0);
        assert_eq!(permits.reserve(Share::Server, 5).places(), 2);
    }

    #[test]
    fn a_place_that_becomes_free_wakes_the_claimer_once() {
        let (permits, mut messages) = permits(4);
        let mut taken: Vec<_> = std::iter::from_fn(|| permits.try_take(Share::Server)).collect();
        drop(taken.pop());
        assert!(messages.try_recv().is_err(), "no run waits");
        permits.set_backlog(Share::Server, true);
        drop(taken.pop());
        assert!(matches!(messages.try_recv(), Ok(ToClaimer::Room)));
        drop(taken.pop());
        assert!(messages.try_recv().is_err(), "the claimer was notified");
    }

    #[test]
    fn a_run_of_a_worker_is_not_announced_a_place_that_is_kept_for_the_server() {
        let (permits, mut messages) = permits(4);
        let mut taken: Vec<_> = std::iter::from_fn(|| permits.try_take(Share::Server)).collect();
        permits.set_backlog(Share::Worker, true);
        drop(taken.pop());
        assert!(messages.try_recv().is_err());
        drop(taken.pop());
        assert!(matches!(messages.try_recv(), Ok(ToClaimer::Room)));
    }
}
