//! Seats: a run that needs a worker takes a seat in a session of its lane.
//!
//! The order of events:
//!
//! 1. A run that needs a turn requests a seat. If a worker held the run's last turn in an earlier session, and lists it
//!    when it connects (`holds`), that worker keeps the turn: its function continues in memory instead of running from
//!    the top.
//! 2. Otherwise the session with the most free seats gets the run's next turn. The seat is taken before the item that
//!    records the turn is written, so that two runs cannot take the last seat.
//! 3. While the run's function only waits, its seat counts as free: the worker has capacity for another run.
//! 4. Dropping the seat frees it. Runs that wait in the lane are then claimed.

use std::sync::Arc;

use everstep_core::code::Progress;
use everstep_core::ids::RunId;

use super::message::WorkerMessage;
use super::registry::Workers;
use super::session::Session;
use super::turn_end::TurnEnd;

/// A run's seat in a session. Dropping it frees the seat.
pub(crate) struct Seat {
    pub(super) workers: Arc<Workers>,
    pub(crate) session: Arc<Session>,
    run: RunId,
    pub(super) turn: u32,
    /// Whether the worker already held that turn, in an earlier session.
    pub(crate) is_kept: bool,
}

impl Seat {
    /// Sets whether the run's function only waits: then the seat counts as free.
    pub(super) fn set_blocked(&self, is_blocked: bool) {
        let mut inner = self.session.inner();
        if inner.live.get(&self.run) != Some(&self.turn) {
            return;
        }
        let has_freed = is_blocked && inner.blocked.insert(self.run);
        if !is_blocked {
            inner.blocked.remove(&self.run);
        }
        drop(inner);
        if has_freed {
            self.workers.announce_free_seat();
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut inner = self.session.inner();
        if inner.live.get(&self.run) == Some(&self.turn) {
            inner.live.remove(&self.run);
            inner.blocked.remove(&self.run);
        }
        drop(inner);
        self.workers.announce_free_seat();
    }
}

impl Workers {
    /// A seat for a run at a worker of its lane. A worker that holds the run's last turn keeps it.
    pub(crate) fn seat(self: &Arc<Self>, lane: &Arc<str>, run: RunId, code: &Progress) -> Option<Seat> {
        let last_turn = code.turn;
        if !self.has_sessions() {
            return None;
        }
        let mut inner = self.inner();
        let lanes = &mut inner.lanes;
        let sessions = lanes.sessions.get(lane)?;
        let holder = sessions.iter().find(|session| {
            let held = session.inner().holds.remove(&run);
            let is_holder = held.is_some_and(|turn| code.may_go_on(turn));
            if let Some(turn) = held.filter(|_| !is_holder) {
                session.put(WorkerMessage::Revoked { run, turn, end: TurnEnd::Moved });
            }
            if is_holder {
                session.inner().live.insert(run, last_turn);
            }
            is_holder
        });
        if let Some(session) = holder.cloned() {
            return Some(Seat { workers: Arc::clone(self), session, run, turn: last_turn, is_kept: true });
        }
        let free = |session: &Arc<Session>| session.inner().free();
        let freest = sessions.iter().map(|session| (free(session), session)).max_by_key(|(free, _)| *free);
        let Some((_, session)) = freest.filter(|(free, _)| *free > 0) else {
            lanes.has_backlog.insert(Arc::clone(lane));
            lanes.has_queue.insert(Arc::clone(lane));
            return None;
        };
        let (session, turn) = (Arc::clone(session), last_turn + 1);
        session.inner().live.insert(run, turn);
        Some(Seat { workers: Arc::clone(self), session, run, turn, is_kept: false })
    }

    /// A seat for a run that starts: none while other runs wait in its lane, because it would overtake them.
    pub(crate) fn seat_new_run(self: &Arc<Self>, lane: &Arc<str>, run: RunId, code: &Progress) -> Option<Seat> {
        if self.inner().lanes.has_queue.contains(lane) {
            return None;
        }
        self.seat(lane, run, code)
    }

    /// A run without a seat has ended. Workers that hold it from an earlier session stop, or all that serve its lane.
    pub(crate) fn cancel_ended(&self, lane: &str, run: RunId, turn: u32, is_for_all: bool, end: impl Fn() -> TurnEnd) {
        for session in self.inner().lanes.sessions.get(lane).into_iter().flatten() {
            let held = session.inner().holds.remove(&run);
            if let Some(turn) = held.or(is_for_all.then_some(turn)) {
                session.put(WorkerMessage::Cancelled { run, turn, end: end() });
            }
        }
    }
}
