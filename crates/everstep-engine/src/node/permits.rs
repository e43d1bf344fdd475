//! Bounds the number of runs that a node owns at the same time, and shares it between workspaces.
//!
//! A run that this node owns holds a [`RunPermit`]. The number of runs that a claim gets is known only from its reply, so
//! a claim holds a [`Reservation`] for as many as it requests, from before the query until after its reply. Without the
//! reservation a start could use the permit that a claim in progress uses a moment later. The workspace of a claimed run
//! is known when the run is loaded; until then its permit belongs to no workspace.
//!
//! The workspaces share the permits as [`FairShare`] describes. While several are known, claims leave the last quarter
//! free, so that the start of a workspace with few runs always finds a permit, whatever its neighbours have started. A
//! claim of the due runs of such a workspace alone takes from the last quarter as well: in the server's own lane, and in
//! the lanes of its workers, which belong to one workspace each.
//!
//! A run that only waits for its deliveries lends its permit: a target that hangs keeps runs in memory, and without this
//! the runs that wait for it would stop the starts of their workspace. So many may be lent as bound the memory of such
//! runs; then they count as others do.
//!
//! **Invariant**: permits and reservations together never exceed `max_active_runs`, except for runs that this node must
//! own in any case (see [`RunPermits::take_regardless`]), and for runs that need a permit again which they have lent.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use everstep_core::fair_share::{FairShare, ShareBounds};
use everstep_core::ids::WorkspaceId;
use futures_util::future;
use tokio::sync::{Notify, mpsc};

use crate::message::ToClaimer;
use crate::node::clock::NodeClock;

/// The time for which a start waits for the reply of a claim that has reserved the last permits.
const CLAIM_ANSWER_WAIT: Duration = Duration::from_millis(100);

/// The permits that may be lent, as a multiple of all permits.
const LENT_FACTOR: u64 = 4;

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
    counts: Mutex<Counts>,
    /// Whether due runs of the server's own lane may wait in the database for a permit.
    has_server_backlog: AtomicBool,
    /// Whether due runs of a worker's lane may wait in the database for a permit.
    has_worker_backlog: AtomicBool,
    /// Reserved permits were used or returned.
    settled: Notify,
    claimer: mpsc::UnboundedSender<ToClaimer>,
}

struct Counts {
    /// The permits in use and the reserved ones.
    share: FairShare<(), ()>,
    /// The permits that claims have reserved.
    reserved: u64,
    /// The runs whose permits are lent.
    lent: u64,
}

impl RunPermits {
    pub(crate) fn new(max_active_runs: usize, claimer: mpsc::UnboundedSender<ToClaimer>) -> Arc<Self> {
        let max = max_active_runs as u64;
        Arc::new(Self {
            max,
            worker_max: max - max / 4,
            counts: Mutex::new(Counts { share: FairShare::new(ShareBounds::new(max)), reserved: 0, lent: 0 }),
            has_server_backlog: AtomicBool::new(false),
            has_worker_backlog: AtomicBool::new(false),
            settled: Notify::new(),
            claimer,
        })
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().expect("no holder of the lock panics")
    }

    /// The number of runs that hold a permit, also if it is lent.
    pub(crate) fn active(&self) -> usize {
        let counts = self.counts();
        (counts.share.used() - counts.reserved + counts.lent) as usize
    }

    /// The number of permits that a claim can reserve.
    pub(crate) fn free(&self, share: Share) -> usize {
        self.counts().room(self.limit(share)) as usize
    }

    /// Whether only workspaces with little use may take the permits that are free.
    pub(crate) fn has_last(&self) -> bool {
        let counts = self.counts();
        counts.room(self.max) == 0 && counts.share.used() < self.max
    }

    fn limit(&self, share: Share) -> u64 {
        match share {
            Share::Server => self.max,
            Share::Worker => self.worker_max,
        }
    }

    /// The number of permits that runs of a share may use together with the next ones of a workspace. The part of the
    /// server is for workspaces with few runs as well, also if workers perform them.
    fn limit_of(&self, share: Share, workspace: WorkspaceId, counts: &Counts) -> u64 {
        if counts.share.has_little_use(workspace) { self.max } else { self.limit(share) }
    }

    /// Takes a permit for a run of a workspace, if one is free. From then on the workspace is known in any case.
    pub(crate) fn try_take(self: &Arc<Self>, share: Share, workspace: WorkspaceId) -> Option<RunPermit> {
        let mut counts = self.counts();
        let limit = self.limit_of(share, workspace, &counts);
        if counts.share.used() < limit && counts.share.try_take(workspace, &(), 1) {
            return Some(RunPermit { permits: Arc::clone(self), workspace: Some(workspace), is_lent: false });
        }
        counts.share.introduce(workspace);
        None
    }

    /// Takes a permit for a run that starts. While a claim has reserved the last permits, the start waits for its
    /// reply: the claim may leave some of them free.
    pub(crate) async fn take_for_start(
        self: &Arc<Self>,
        share: Share,
        workspace: WorkspaceId,
        clock: &NodeClock,
    ) -> Option<RunPermit> {
        if let Some(permit) = self.try_take(share, workspace) {
            return Some(permit);
        }
        let mut timeout = clock.sleep(CLAIM_ANSWER_WAIT);
        loop {
            let mut settled = std::pin::pin!(self.settled.notified());
            settled.as_mut().enable();
            if let Some(permit) = self.try_take(share, workspace) {
                return Some(permit);
            }
            if !self.may_become_free(share) {
                return None;
            }
            if let future::Either::Right(_) = future::select(settled, &mut timeout).await {
                return self.try_take(share, workspace);
            }
        }
    }

    /// Whether claims in progress have reserved permits that they may return.
    fn may_become_free(&self, share: Share) -> bool {
        let counts = self.counts();
        counts.reserved > 0 && counts.share.used() - counts.reserved < self.limit(share)
    }

    /// Takes a permit whether or not one is free. Two runs need it: one that this node already owns in the database,
    /// because the reply of a claim was lost; and one that an input woke and that dispatches a task in the same item.
    /// While the node exceeds its limit, it claims nothing and parks starts.
    pub(crate) fn take_regardless(self: &Arc<Self>) -> RunPermit {
        self.counts().share.reserve(1);
        RunPermit { permits: Arc::clone(self), workspace: None, is_lent: false }
    }

    /// Reserves permits for a claim: as many as are free, and at most `places`.
    pub(crate) fn reserve(self: &Arc<Self>, share: Share, places: usize) -> Reservation {
        let mut counts = self.counts();
        let granted = counts.room(self.limit(share)).min(places as u64);
        counts.share.reserve(granted);
        counts.reserved += granted;
        Reservation { permits: Arc::clone(self), places: granted }
    }

    /// The number of permits that a claim for a workspace alone can reserve.
    pub(crate) fn free_for(&self, share: Share, workspace: WorkspaceId) -> usize {
        self.room_for(share, workspace, &self.counts()) as usize
    }

    fn room_for(&self, share: Share, workspace: WorkspaceId, counts: &Counts) -> u64 {
        let free = self.limit_of(share, workspace, counts).saturating_sub(counts.share.used());
        counts.share.room_of(workspace).min(free)
    }

    /// Reserves permits for new runs of a workspace: as many as it may take, and at most `places`. A workspace that gets
    /// none is known from then on, so that others leave the last quarter free.
    pub(crate) fn reserve_for(self: &Arc<Self>, share: Share, workspace: WorkspaceId, places: usize) -> Reservation {
        let mut counts = self.counts();
        let room = self.room_for(share, workspace, &counts);
        if room == 0 {
            counts.share.introduce(workspace);
        }
        let granted = room.min(places as u64);
        counts.share.reserve(granted);
        counts.reserved += granted;
        Reservation { permits: Arc::clone(self), places: granted }
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

    /// Wakes the claimer after a permit was returned, if runs wait for it and a claim could reserve it: any claim, or one
    /// for a workspace with little use.
    fn wake_claimer(&self, counts: MutexGuard<'_, Counts>) {
        let free = self.max.saturating_sub(counts.share.used());
        let worker_room = if counts.share.is_shared() { free } else { counts.room(self.worker_max) };
        self.wake_for(counts, free, worker_room);
    }

    fn wake_for(&self, counts: MutexGuard<'_, Counts>, server_room: u64, worker_room: u64) {
        drop(counts);
        let is_wanted = |flag: &AtomicBool| flag.load(Ordering::SeqCst) && flag.swap(false, Ordering::SeqCst);
        if (server_room > 0 && is_wanted(&self.has_server_backlog))
            || (worker_room > 0 && is_wanted(&self.has_worker_backlog))
        {
            let _ = self.claimer.send(ToClaimer::Room);
        }
    }
}

impl Counts {
    /// The number of permits that claims can reserve, of those up to a limit.
    fn room(&self, limit: u64) -> u64 {
        limit.saturating_sub(self.share.used()).min(self.share.room())
    }
}

/// A run's permit to be owned by a node. Dropping it returns the permit.
pub(crate) struct RunPermit {
    permits: Arc<RunPermits>,
    /// The workspace that the permit counts for. A claimed run has none until it is loaded.
    workspace: Option<WorkspaceId>,
    /// Whether the run only waits for its deliveries, so that another run may use the permit.
    is_lent: bool,
}

impl RunPermit {
    /// The workspace of the run is known.
    pub(crate) fn assign(mut self, workspace: WorkspaceId) -> Self {
        if self.workspace.is_none() {
            let mut counts = self.permits.counts();
            counts.share.return_reserved(1);
            counts.share.take_regardless(workspace, &(), 1);
            drop(counts);
            self.workspace = Some(workspace);
        }
        self
    }

    /// The run only waits for its deliveries: its permit does not count, as long as few others are lent.
    pub(crate) fn lend(&mut self) {
        let Some(workspace) = self.workspace.filter(|_| !self.is_lent) else { return };
        let mut counts = self.permits.counts();
        if counts.lent < LENT_FACTOR * self.permits.max {
            self.is_lent = true;
            counts.lent += 1;
            counts.share.release(workspace, &(), 1);
            self.permits.wake_claimer(counts);
        }
    }

    /// The run has other work: its permit counts again, whether or not one is free.
    pub(crate) fn take_back(&mut self) {
        let Some(workspace) = self.workspace.filter(|_| self.is_lent) else { return };
        let mut counts = self.permits.counts();
        self.is_lent = false;
        counts.lent -= 1;
        counts.share.take_regardless(workspace, &(), 1);
    }
}

impl Drop for RunPermit {
    fn drop(&mut self) {
        let mut counts = self.permits.counts();
        match self.workspace {
            Some(_) if self.is_lent => counts.lent -= 1,
            Some(workspace) => counts.share.release(workspace, &(), 1),
            None => counts.share.return_reserved(1),
        }
        self.permits.wake_claimer(counts);
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
        self.permits.counts().reserved -= 1;
        RunPermit { permits: Arc::clone(&self.permits), workspace: None, is_lent: false }
    }

    /// Returns the permits that were not used, as the claimer does it. It is woken only if any claim could reserve them:
    /// it visits the workspaces with little use one after the other, and the permits that were reserved for one of them
    /// would wake it without end while a lane of another one has a backlog.
    pub(crate) fn give_back(mut self) {
        let places = std::mem::take(&mut self.places);
        let mut counts = self.permits.counts();
        counts.share.return_reserved(places);
        counts.reserved -= places;
        let (server_room, worker_room) = (counts.room(self.permits.max), counts.room(self.permits.worker_max));
        self.permits.wake_for(counts, server_room, worker_room);
    }

    /// Adds another reservation to this one.
    pub(crate) fn add(&mut self, mut other: Self) {
        self.places += std::mem::take(&mut other.places);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.places > 0 {
            let mut counts = self.permits.counts();
            counts.share.return_reserved(self.places);
            counts.reserved -= self.places;
            self.permits.wake_claimer(counts);
        }
        self.permits.settled.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALONE: WorkspaceId = WorkspaceId::DEFAULT;

    fn permits(max: usize) -> (Arc<RunPermits>, mpsc::UnboundedReceiver<ToClaimer>) {
        let (claimer, messages) = mpsc::unbounded_channel();
        (RunPermits::new(max, claimer), messages)
    }

    #[test]
    fn a_claim_under_way_uses_places() {
        let (permits, _messages) = permits(5);
        let _first = permits.try_take(Share::Server, ALONE).unwrap();
        let mut reservation = permits.reserve(Share::Server, 500);
        assert_eq!((reservation.places(), permits.active()), (4, 1));
        assert!(permits.try_take(Share::Server, ALONE).is_none());
        let _claimed = reservation.fill();
        assert_eq!(permits.active(), 2);
        drop(reservation);
        assert_eq!(permits.free(Share::Server), 3);
    }

    #[test]
    fn runs_of_workers_leave_a_quarter_of_the_places() {
        let (permits, _messages) = permits(8);
        let workers: Vec<_> = std::iter::from_fn(|| permits.try_take(Share::Worker, ALONE)).collect();
        assert_eq!(workers.len(), 6);
        assert_eq!(permits.reserve(Share::Worker, 5).places(), 0);
        assert_eq!(permits.reserve(Share::Server, 5).places(), 2);
    }

    #[test]
    fn a_place_that_becomes_free_wakes_the_claimer_once() {
        let (permits, mut messages) = permits(4);
        let mut taken: Vec<_> = std::iter::from_fn(|| permits.try_take(Share::Server, ALONE)).collect();
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
        let mut taken: Vec<_> = std::iter::from_fn(|| permits.try_take(Share::Server, ALONE)).collect();
        permits.set_backlog(Share::Worker, true);
        drop(taken.pop());
        assert!(messages.try_recv().is_err());
        drop(taken.pop());
        assert!(matches!(messages.try_recv(), Ok(ToClaimer::Room)));
    }

    #[test]
    fn a_permit_that_is_lent_is_used_by_another_run() {
        let (permits, mut messages) = permits(2);
        let mut taken: Vec<_> = std::iter::from_fn(|| permits.try_take(Share::Server, ALONE)).collect();
        permits.set_backlog(Share::Server, true);
        taken[0].lend();
        taken[0].lend();
        assert!(matches!(messages.try_recv(), Ok(ToClaimer::Room)));
        assert_eq!((permits.active(), permits.free(Share::Server)), (2, 1));
        let other = permits.try_take(Share::Server, ALONE).unwrap();
        assert_eq!((permits.active(), permits.free(Share::Server)), (3, 0));
        taken[0].take_back();
        taken[0].take_back();
        drop(other);
        assert_eq!((permits.active(), permits.free(Share::Server)), (2, 0));
        taken[1].lend();
        drop(taken);
        assert_eq!((permits.active(), permits.free(Share::Server)), (0, 2));
    }

    #[test]
    fn the_number_of_permits_that_are_lent_is_bounded() {
        let (permits, _messages) = permits(3);
        let mut taken = Vec::new();
        while let Some(mut permit) = permits.try_take(Share::Server, ALONE) {
            permit.lend();
            taken.push(permit);
        }
        assert_eq!((taken.len(), permits.active()), (15, 15));
    }

    #[test]
    fn a_workspace_leaves_the_last_quarter_of_the_permits_to_others() {
        let (permits, mut messages) = permits(16);
        let [good, bad] = [2, 3].map(|number| WorkspaceId::from_uuid(uuid::Uuid::from_u128(number)));
        drop(permits.try_take(Share::Server, good));
        let mut of_bad: Vec<_> = std::iter::from_fn(|| permits.try_take(Share::Server, bad)).collect();
        assert_eq!(of_bad.len(), 12);
        assert_eq!(permits.free(Share::Server), 0, "a claim does not know whose runs it gets");
        assert!(permits.has_last());
        assert!(permits.try_take(Share::Server, good).is_some());
        assert!(permits.try_take(Share::Worker, good).is_some());
        permits.set_backlog(Share::Server, true);
        drop(permits.try_take(Share::Server, good));
        assert!(matches!(messages.try_recv(), Ok(ToClaimer::Room)), "a claim for the good workspace can use it");
        assert_eq!(permits.reserve_for(Share::Server, good, 9).places(), 2, "of four that are free");
        assert_eq!(permits.reserve_for(Share::Server, bad, 9).places(), 0);
        drop(of_bad.pop());
        assert_eq!(permits.reserve_for(Share::Server, good, 9).places(), 3, "of five that are free");
        // A claimed run counts for its workspace as soon as that is known.
        let claimed = permits.reserve(Share::Server, 5).fill().assign(bad);
        assert!(permits.try_take(Share::Server, bad).is_none());
        drop(claimed);
        assert!(permits.try_take(Share::Server, bad).is_some());
    }

    #[test]
    fn a_worker_s_lane_of_a_small_workspace_takes_from_the_last_quarter() {
        let (permits, mut messages) = permits(16);
        let [good, bad] = [2, 3].map(|number| WorkspaceId::from_uuid(uuid::Uuid::from_u128(number)));
        let mut of_bad: Vec<_> = std::iter::from_fn(|| permits.try_take(Share::Server, bad)).collect();
        assert_eq!(of_bad.len(), 16, "no other workspace is known");
        assert_eq!(permits.reserve_for(Share::Worker, good, 9).places(), 0);
        // The workspace is known now, and its lane has a backlog.
        permits.set_backlog(Share::Worker, true);
        drop(of_bad.pop());
        assert!(matches!(messages.try_recv(), Ok(ToClaimer::Room)));
        assert!(permits.try_take(Share::Server, bad).is_none());
        assert_eq!(permits.free_for(Share::Worker, good), 1);
        of_bad.truncate(12);
        assert_eq!(permits.free(Share::Worker), 0);
        assert_eq!(permits.free_for(Share::Worker, bad), 0);
        permits.set_backlog(Share::Worker, true);
        permits.set_backlog(Share::Server, true);
        let mut reserved = permits.reserve_for(Share::Worker, good, 9);
        assert_eq!(reserved.places(), 2, "of four that are free");
        let _claimed = reserved.fill().assign(good);
        while messages.try_recv().is_ok() {}
        reserved.give_back();
        assert!(messages.try_recv().is_err(), "a claim for any workspace could not use it");
    }
}
