//! Lanes: the workers that a run needs, and the number of runs of each lane that may be claimed.
//!
//! A lane is one version of a code workflow of one workspace; the empty lane is for runs that the server performs. Runs
//! that find no free seat wait in the database, in their lane. The order of events:
//!
//! 1. The claimer reads the *room* of a lane: the free seats of its sessions, minus the runs that were claimed and have
//!    not yet arrived. This marks the lane as having a *backlog*.
//! 2. The claimer claims at most that many runs, and records whether more may wait. If not, the lane has no backlog.
//! 3. When a seat becomes free while any lane has a backlog, the claimer is notified and queries those lanes again.
//!
//! The mark must be set before the claim. Otherwise a seat that becomes free between the claim and the mark would not
//! notify the claimer, and the remaining runs of the lane would wait for the next unrelated event.
//!
//! A lane in which runs wait in the database has a *queue*. New runs of the lane take no free seat: they would overtake
//! the waiting ones, and under steady load those would never be claimed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use everstep_core::ids::{RunId, WorkspaceId};
use everstep_core::workflow::Workflow;

use super::registry::Workers;
use super::session::Session;
use crate::message::ToClaimer;

const WORKER_LANE_PREFIX: &str = "code/";

/// The lane of a workflow's runs: empty if the server performs them.
pub(crate) fn lane(workspace: WorkspaceId, workflow: &Workflow) -> Arc<str> {
    if workflow.needs_worker() { lane_of(workspace, &workflow.name, workflow.version) } else { "".into() }
}

pub(super) fn lane_of(workspace: WorkspaceId, name: &str, version: u32) -> Arc<str> {
    format!("{WORKER_LANE_PREFIX}{workspace}/{name}/{version}").into()
}

/// Whether runs of a lane need a worker.
pub(crate) fn is_worker_lane(lane: &str) -> bool {
    lane.starts_with(WORKER_LANE_PREFIX)
}

/// The lanes that workers of this node serve.
#[derive(Default)]
pub(super) struct Lanes {
    pub(super) sessions: BTreeMap<Arc<str>, Vec<Arc<Session>>>,
    /// Lanes of which more runs may wait in the database than there were free seats.
    pub(super) has_backlog: BTreeSet<Arc<str>>,
    /// Lanes in which runs wait in the database, as far as this node knows: new runs queue behind them.
    pub(super) has_queue: BTreeSet<Arc<str>>,
    /// Claimed runs that have no seat yet.
    incoming: BTreeSet<RunId>,
    /// The number of times that the lanes were listed. Each list begins with another lane.
    rounds: usize,
}

impl Lanes {
    pub(super) fn add(&mut self, session: &Arc<Session>) {
        for lane in session.lanes() {
            self.sessions.entry(Arc::clone(lane)).or_default().push(Arc::clone(session));
        }
    }

    /// Removes a session from one lane.
    fn remove(&mut self, session: &Session, lane: &str) {
        if let Some(sessions) = self.sessions.get_mut(lane) {
            sessions.retain(|other| other.id != session.id);
        }
        self.forget_unserved();
    }

    /// Removes a session from all lanes.
    pub(super) fn remove_everywhere(&mut self, session: &Session) {
        for sessions in self.sessions.values_mut() {
            sessions.retain(|other| other.id != session.id);
        }
        self.forget_unserved();
    }

    fn forget_unserved(&mut self) {
        let Self { sessions, has_backlog, has_queue, .. } = self;
        sessions.retain(|_, sessions| !sessions.is_empty());
        has_backlog.retain(|lane| sessions.contains_key(lane));
        has_queue.retain(|lane| sessions.contains_key(lane));
    }

    /// The last worker has disconnected: no seat is left for the claimed runs.
    pub(super) fn forget_incoming(&mut self) {
        self.incoming.clear();
    }

    fn room(&mut self, lane: &Arc<str>) -> usize {
        let Some(sessions) = self.sessions.get(lane) else { return 0 };
        let free: usize = sessions.iter().map(|session| session.inner().free()).sum();
        self.has_backlog.insert(Arc::clone(lane));
        free.saturating_sub(self.incoming.len())
    }
}

/// Whether more runs wait in a lane than were claimed.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum More {
    No,
    Unknown,
    Likely,
}

impl More {
    /// After a claim for at most `room` runs.
    pub(crate) fn after(claimed: usize, room: usize) -> Self {
        if claimed < room { Self::No } else { Self::Likely }
    }
}

impl Workers {
    pub(crate) fn is_served(&self, lane: &str) -> bool {
        self.inner().lanes.sessions.contains_key(lane)
    }

    /// The workspace that a lane belongs to; none if no session serves the lane.
    pub(crate) fn workspace_of(&self, lane: &str) -> Option<WorkspaceId> {
        self.inner().lanes.sessions.get(lane)?.first().map(|session| session.workspace)
    }

    /// Whether any lane is served.
    pub(crate) fn has_lanes(&self) -> bool {
        self.has_sessions() && !self.inner().lanes.sessions.is_empty()
    }

    /// The lanes that are served. Each list begins with another lane.
    pub(crate) fn lanes(&self) -> Vec<Arc<str>> {
        if !self.has_sessions() {
            return Vec::new();
        }
        let mut inner = self.inner();
        let lanes = &mut inner.lanes;
        let mut list: Vec<_> = lanes.sessions.keys().cloned().collect();
        if !list.is_empty() {
            lanes.rounds = lanes.rounds.wrapping_add(1);
            let first = lanes.rounds % list.len();
            list.rotate_left(first);
        }
        list
    }

    /// The number of runs of a lane that may be claimed. Marks the lane as having a backlog, until [`Workers::claimed`]
    /// records that no more runs wait.
    pub(crate) fn room(&self, lane: &Arc<str>) -> usize {
        self.inner().lanes.room(lane)
    }

    /// The number of new runs of a lane that may begin at once: none while other runs wait in the lane, because they would
    /// overtake them.
    pub(crate) fn room_for_new(&self, lane: &Arc<str>) -> usize {
        if !self.has_sessions() {
            return 0;
        }
        let mut inner = self.inner();
        if inner.lanes.has_queue.contains(lane) { 0 } else { inner.lanes.room(lane) }
    }

    /// All lanes with room, for a tick that queries them together. Lanes with a backlog share the room.
    pub(crate) fn rooms(&self) -> Vec<(Arc<str>, usize)> {
        let list = self.lanes();
        let mut inner = self.inner();
        let lanes = &mut inner.lanes;
        let sharing = lanes.has_backlog.len().max(1);
        let of_lane = |lane: Arc<str>| {
            let has_backlog = lanes.has_backlog.contains(&lane);
            let room = lanes.room(&lane);
            let share = if has_backlog { room.div_ceil(sharing) } else { room };
            (share > 0).then_some((lane, share))
        };
        list.into_iter().filter_map(of_lane).collect()
    }

    /// Records runs that were claimed and have not reached their seats yet.
    pub(crate) fn claimed(&self, lane: &Arc<str>, runs: &[RunId], more: More) {
        let mut inner = self.inner();
        let has_sessions = !inner.sessions.is_empty();
        let lanes = &mut inner.lanes;
        // If the last worker has disconnected in the interval, the runs find no seat.
        if has_sessions {
            lanes.incoming.extend(runs);
        }
        match more {
            More::No => {
                lanes.has_backlog.remove(lane);
                lanes.has_queue.remove(lane);
            }
            More::Unknown => {}
            More::Likely => {
                if lanes.sessions.contains_key(lane) {
                    lanes.has_queue.insert(Arc::clone(lane));
                }
            }
        }
    }

    /// Records that a claimed run is in memory: it has a seat, or needs none.
    pub(crate) fn arrived(&self, run: RunId) {
        if self.has_sessions() && self.inner().lanes.incoming.remove(&run) {
            self.announce_free_seat();
        }
    }

    /// The lanes of which more runs may wait than there were free seats.
    pub(crate) fn backlog(&self) -> Vec<Arc<str>> {
        self.inner().lanes.has_backlog.iter().cloned().collect()
    }

    /// Records that a run may wait in a lane.
    pub(crate) fn set_backlog(&self, lane: &Arc<str>) {
        self.inner().lanes.has_backlog.insert(Arc::clone(lane));
    }

    /// A seat has become free: a run may wait for it.
    pub(super) fn announce_free_seat(&self) {
        if !self.inner().lanes.has_backlog.is_empty() {
            let _ = self.claimer.send(ToClaimer::Seats);
        }
    }

    /// Records that a worker has declined a lane's runs: it receives no more of them.
    pub(crate) fn decline(&self, session: &Session, lane: &Arc<str>) {
        session.inner().declined.insert(Arc::clone(lane));
        self.inner().lanes.remove(session, lane);
    }
}
