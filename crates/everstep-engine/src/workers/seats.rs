//! The workers of a node: who serves which lanes, and who has room.
//!
//! A run that needs a worker takes a [`Seat`] in a session. Where there is none it waits in the database, in its lane,
//! until the claimer finds room: a crowd of runs of one lane keeps nobody else out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use everstep_core::code::Progress;
use everstep_core::ids::{NodeId, RunId, WorkspaceId};
use everstep_core::planted::{self, Bug};
use everstep_core::run::Input;
use everstep_core::time::Timestamp;
use tokio::sync::{Notify, mpsc};
use uuid::Uuid;

use super::lanes::lane_of;
use super::message::WorkerMessage;
use super::session::{Hello, ServedWorkflow, Session, SessionId, Untold};
use crate::error::Error;
use crate::message::{Mail, ShardSender, ToClaimer, ToShard};
use crate::ports::World;
use crate::shard::shard_of;

/// A session whose socket has gone is given up after this part of its lease.
const DETACHED_PART: u32 = 6;
/// Workers of one workspace on one node.
const MOST_SESSIONS: usize = 1_000;

pub(crate) struct Workers {
    world: World,
    node: NodeId,
    lease: Duration,
    shards: Vec<ShardSender>,
    claimer: mpsc::UnboundedSender<ToClaimer>,
    inner: Mutex<Inner>,
    untold: Arc<Untold>,
    /// How many sessions there are.
    count: AtomicUsize,
    is_closed: AtomicBool,
    /// A session has come, or all have gone.
    changed: Notify,
}

#[derive(Default)]
struct Inner {
    sessions: BTreeMap<SessionId, Arc<Session>>,
    lanes: BTreeMap<Arc<str>, Vec<Arc<Session>>>,
    /// Lanes of which more runs may wait in the database than there was room for.
    starved: BTreeSet<Arc<str>>,
    /// Lanes in which runs wait in the database, as far as is known: new ones go behind them.
    waited_in: BTreeSet<Arc<str>>,
    /// Runs that were claimed and have no seat yet.
    coming: BTreeSet<RunId>,
    /// How often the lanes were gone through.
    rounds: usize,
}

impl Inner {
    fn forget_unserved(&mut self) {
        let Self { lanes, starved, waited_in, .. } = self;
        lanes.retain(|_, sessions| !sessions.is_empty());
        starved.retain(|lane| lanes.contains_key(lane));
        waited_in.retain(|lane| lanes.contains_key(lane));
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
    /// After a claim that had room for so many.
    pub(crate) fn after(claimed: usize, room: usize) -> Self {
        if claimed < room { Self::No } else { Self::Likely }
    }
}

/// A worker as lists show it.
#[derive(Clone, Debug)]
pub struct WorkerInfo {
    pub session: SessionId,
    pub worker: String,
    pub sdk: Option<String>,
    pub workflows: Vec<ServedWorkflow>,
    pub capacity: usize,
    pub running: usize,
    pub opened_at: Timestamp,
    pub last_seen: Timestamp,
}

/// A run's place in a session. Dropping it makes room for another.
pub(crate) struct Seat {
    pub(crate) workers: Arc<Workers>,
    pub(crate) session: Arc<Session>,
    run: RunId,
    pub(crate) turn: u32,
    /// Whether the worker had that turn already, in a session before.
    pub(crate) is_kept: bool,
}

impl Seat {
    /// Says whether the run's function only waits: then it takes nobody's room.
    pub(crate) fn set_blocked(&self, is_blocked: bool) {
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
            self.workers.freed();
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
        self.workers.freed();
    }
}

impl Workers {
    pub(crate) fn new(
        world: World,
        node: NodeId,
        lease: Duration,
        shards: Vec<ShardSender>,
        claimer: mpsc::UnboundedSender<ToClaimer>,
    ) -> Arc<Self> {
        Arc::new(Self {
            world,
            node,
            lease,
            shards,
            claimer,
            inner: Mutex::default(),
            untold: Arc::default(),
            count: AtomicUsize::new(0),
            is_closed: AtomicBool::new(false),
            changed: Notify::new(),
        })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("no holder of the lock panics")
    }

    /// Whether a workspace may have a worker more here.
    pub(crate) fn check_room(&self, workspace: WorkspaceId) -> Result<(), Error> {
        self.check(&self.inner(), workspace)
    }

    fn check(&self, inner: &Inner, workspace: WorkspaceId) -> Result<(), Error> {
        if self.is_closed.load(Ordering::SeqCst) {
            return Err(Error::Stopping);
        }
        let others = inner.sessions.values().filter(|other| other.workspace == workspace).count();
        if others >= MOST_SESSIONS {
            return Err(Error::Busy(format!("a workspace has at most {MOST_SESSIONS} workers on one node")));
        }
        Ok(())
    }

    /// Opens a session, unless this node takes none any more.
    pub(crate) fn open(&self, hello: Hello) -> Result<Arc<Session>, Error> {
        // Ids of the engine name things; this one guards something.
        let id = SessionId { node: self.node, secret: Uuid::new_v4() };
        let clock = &self.world.clock;
        let session = Arc::new(Session::new(id, hello, clock.now(), clock.monotonic(), Arc::clone(&self.untold)));
        let mut inner = self.inner();
        self.check(&inner, session.workspace)?;
        for lane in session.lanes() {
            inner.lanes.entry(Arc::clone(lane)).or_default().push(Arc::clone(&session));
        }
        inner.sessions.insert(id, Arc::clone(&session));
        self.count.store(inner.sessions.len(), Ordering::SeqCst);
        drop(inner);
        self.changed.notify_one();
        let _ = self.claimer.send(ToClaimer::Room);
        Ok(session)
    }

    pub(crate) fn find(&self, workspace: WorkspaceId, id: SessionId) -> Option<Arc<Session>> {
        self.inner().sessions.get(&id).filter(|session| session.workspace == workspace).cloned()
    }

    /// Bytes came from a worker.
    pub(crate) fn heard(&self, session: &Session) {
        let mut inner = session.inner();
        inner.heard = self.world.clock.monotonic();
        inner.heard_at = self.world.clock.now();
    }

    pub(crate) fn attach(&self, session: &Session) -> u64 {
        let (carrier, was_detached) = session.attach();
        if was_detached {
            let _ = self.claimer.send(ToClaimer::Room);
        }
        carrier
    }

    pub(crate) fn set_capacity(&self, session: &Session, capacity: usize) {
        let before = std::mem::replace(&mut session.inner().capacity, capacity);
        if capacity > before {
            let _ = self.claimer.send(ToClaimer::Room);
        }
    }

    pub(crate) fn is_served(&self, lane: &str) -> bool {
        self.inner().lanes.contains_key(lane)
    }

    /// A place for a run at a worker of its lane. A worker that has its last turn already keeps it.
    pub(crate) fn seat(self: &Arc<Self>, lane: &Arc<str>, run: RunId, code: &Progress) -> Option<Seat> {
        let last_turn = code.turn;
        if self.count.load(Ordering::SeqCst) == 0 {
            return None;
        }
        let mut inner = self.inner();
        let sessions = inner.lanes.get(lane)?;
        let holder = sessions.iter().find(|session| {
            let held = session.inner().holds.remove(&run);
            let is_holder = held.is_some_and(|turn| code.may_go_on(turn));
            if let Some(turn) = held.filter(|_| !is_holder) {
                session.put(WorkerMessage::Revoked { run, turn });
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
            inner.starved.insert(Arc::clone(lane));
            inner.waited_in.insert(Arc::clone(lane));
            return None;
        };
        let (session, turn) = (Arc::clone(session), last_turn + 1);
        session.inner().live.insert(run, turn);
        Some(Seat { workers: Arc::clone(self), session, run, turn, is_kept: false })
    }

    /// A run that is at no worker has ended. Those who brought it along are told, or all who serve its lane.
    pub(crate) fn cancelled(&self, lane: &str, run: RunId, turn: u32, is_for_all: bool) {
        for session in self.inner().lanes.get(lane).into_iter().flatten() {
            let held = session.inner().holds.remove(&run);
            if let Some(turn) = held.or(is_for_all.then_some(turn)) {
                session.put(WorkerMessage::Cancelled { run, turn });
            }
        }
    }

    /// A worker has declined a lane's runs: it gets no more of them.
    pub(crate) fn decline(&self, session: &Session, lane: &Arc<str>) {
        session.inner().declined.insert(Arc::clone(lane));
        let mut inner = self.inner();
        if let Some(sessions) = inner.lanes.get_mut(lane) {
            sessions.retain(|other| other.id != session.id);
        }
        inner.forget_unserved();
    }

    /// The lanes that are served, each time beginning with another.
    pub(crate) fn lanes(&self) -> Vec<Arc<str>> {
        if self.count.load(Ordering::SeqCst) == 0 {
            return Vec::new();
        }
        let mut inner = self.inner();
        let mut lanes: Vec<_> = inner.lanes.keys().cloned().collect();
        if !lanes.is_empty() {
            inner.rounds = inner.rounds.wrapping_add(1);
            let first = inner.rounds % lanes.len();
            lanes.rotate_left(first);
        }
        lanes
    }

    /// How many runs of a lane may be claimed. Until [`Workers::claimed`] is told that no more wait, whoever makes room
    /// has the lane asked again.
    pub(crate) fn room(&self, lane: &Arc<str>) -> usize {
        let mut inner = self.inner();
        let Some(sessions) = inner.lanes.get(lane) else { return 0 };
        let free: usize = sessions.iter().map(|session| session.inner().free()).sum();
        let room = free.saturating_sub(inner.coming.len());
        inner.starved.insert(Arc::clone(lane));
        room
    }

    /// All lanes with room, for a tick that asks for them together: those of which more wait share it.
    pub(crate) fn rooms(&self) -> Vec<(Arc<str>, usize)> {
        let lanes = self.lanes();
        let sharing = self.inner().starved.len().max(1);
        let of_lane = |lane: Arc<str>| {
            let is_starved = self.inner().starved.contains(&lane);
            let room = self.room(&lane);
            let share = if is_starved { room.div_ceil(sharing) } else { room };
            (share > 0).then_some((lane, share))
        };
        lanes.into_iter().filter_map(of_lane).collect()
    }

    /// Runs were claimed and are on their way to their seats.
    pub(crate) fn claimed(&self, lane: &Arc<str>, runs: &[RunId], more: More) {
        let mut inner = self.inner();
        // When the last worker has gone meanwhile nobody counts them.
        if !inner.sessions.is_empty() {
            inner.coming.extend(runs);
        }
        match more {
            More::No => {
                inner.starved.remove(lane);
                inner.waited_in.remove(lane);
            }
            More::Unknown => {}
            More::Likely => {
                if inner.lanes.contains_key(lane) {
                    inner.waited_in.insert(Arc::clone(lane));
                }
            }
        }
    }

    /// A place for a run that starts: none while others wait in its lane, who would never come to theirs.
    pub(crate) fn seat_of_new(self: &Arc<Self>, lane: &Arc<str>, run: RunId, code: &Progress) -> Option<Seat> {
        if self.inner().waited_in.contains(lane) {
            return None;
        }
        self.seat(lane, run, code)
    }

    /// A run may wait in a lane: it is to be asked.
    pub(crate) fn starve(&self, lane: &Arc<str>) {
        self.inner().starved.insert(Arc::clone(lane));
    }

    /// A run that was claimed is in memory: it has a seat, or went its way without one.
    pub(crate) fn came(&self, run: RunId) {
        if self.count.load(Ordering::SeqCst) > 0 && self.inner().coming.remove(&run) {
            self.freed();
        }
    }

    /// The lanes of which more may wait than there was room for.
    pub(crate) fn starved(&self) -> Vec<Arc<str>> {
        self.inner().starved.iter().cloned().collect()
    }

    /// Room has freed: somebody may have waited for it.
    fn freed(&self) {
        if !self.inner().starved.is_empty() {
            let _ = self.claimer.send(ToClaimer::Seats);
        }
    }

    /// Tells the carriers of all sessions that have something to be told.
    pub(crate) fn flush(&self) {
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let untold = self.untold.take();
        if untold.is_empty() {
            return;
        }
        let inner = self.inner();
        for session in untold.iter().filter_map(|id| inner.sessions.get(id)) {
            session.flush();
        }
    }

    pub(crate) fn list(&self, workspace: WorkspaceId) -> Vec<WorkerInfo> {
        let inner = self.inner();
        let sessions = inner.sessions.values().filter(|session| session.workspace == workspace);
        let info = sessions.map(|session| {
            let inner = session.inner();
            let mut workflows = session.workflows.clone();
            if !inner.declined.is_empty() {
                let lane = |served: &Served| lane_of(workspace, &served.name, served.version);
                workflows.retain(|served| !inner.declined.contains(&lane(served)));
            }
            WorkerInfo {
                session: session.id,
                worker: session.worker.clone(),
                sdk: session.sdk.clone(),
                workflows,
                capacity: inner.capacity,
                running: inner.live.len(),
                opened_at: session.opened_at,
                last_seen: inner.heard_at,
            }
        });
        let mut list: Vec<_> = info.collect();
        list.sort_by_key(|worker| worker.opened_at);
        list
    }

    /// A worker leaves in order: its turns go to others.
    pub(crate) fn close(&self, session: &Session) {
        for (run, turn) in self.remove(session) {
            self.tell(run, ToShard::TurnBack(run, turn));
        }
    }

    /// A worker is not heard of any more: its turns are lost.
    fn lose(&self, session: &Session) {
        let runs = self.remove(session);
        let (worker, runs_lost) = (&session.worker, runs.len());
        tracing::warn!(worker, runs_lost, "a worker was not heard of for its lease; its runs go to others");
        if planted::is_planted(Bug::LostTurnForgotten) {
            return;
        }
        for (run, turn) in runs {
            self.tell(run, ToShard::Mail(run, Mail::of(Input::LoseTurn { turn })));
        }
    }

    /// Ends all sessions: this node stops, or is none any more. Workers go elsewhere and take their runs along.
    pub(crate) fn close_all(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        let mut inner = self.inner();
        let sessions = std::mem::take(&mut inner.sessions);
        inner.lanes.clear();
        inner.starved.clear();
        inner.waited_in.clear();
        inner.coming.clear();
        self.count.store(0, Ordering::SeqCst);
        drop(inner);
        for session in sessions.values() {
            session.end();
        }
        self.changed.notify_one();
    }

    fn remove(&self, session: &Session) -> Vec<(RunId, u32)> {
        let mut inner = self.inner();
        inner.sessions.remove(&session.id);
        for sessions in inner.lanes.values_mut() {
            sessions.retain(|other| other.id != session.id);
        }
        inner.forget_unserved();
        if inner.sessions.is_empty() {
            inner.coming.clear();
        }
        self.count.store(inner.sessions.len(), Ordering::SeqCst);
        drop(inner);
        session.end()
    }

    fn tell(&self, run: RunId, message: ToShard) {
        let _ = self.shards[shard_of(run, self.shards.len())].send(message);
    }

    /// Gives up sessions whose lease is over. Sleeps while there are none.
    pub(crate) async fn watch(self: Arc<Self>) {
        loop {
            if self.is_closed.load(Ordering::SeqCst) {
                return;
            }
            if self.count.load(Ordering::SeqCst) == 0 {
                self.changed.notified().await;
                continue;
            }
            self.world.sleep(self.lease / 10).await;
            let now = self.world.clock.monotonic();
            let is_over = |session: &&Arc<Session>| {
                let inner = session.inner();
                let is_gone = inner.detached.is_some_and(|since| now > since + self.lease / DETACHED_PART);
                is_gone || now > inner.heard + self.lease
            };
            let (mut over, mut held) = (Vec::new(), Vec::new());
            for session in self.inner().sessions.values() {
                let age = now.saturating_sub(session.inner().opened);
                if is_over(&session) {
                    over.push(Arc::clone(session));
                } else if age > self.lease + self.lease / 5 {
                    session.inner().holds.clear();
                } else if age > self.lease / 5 {
                    held.push(Arc::clone(session));
                }
            }
            held.sort_by_key(|session| session.opened_at);
            for session in held {
                self.look_up(&session);
            }
            over.sort_by_key(|session| session.opened_at);
            for session in over {
                self.lose(&session);
            }
        }
    }

    /// A worker that was away may have brought along runs that ended meanwhile: nobody claims them, and it is told.
    fn look_up(&self, session: &Arc<Session>) {
        let runs = session.unclaimed();
        if runs.is_empty() {
            return;
        }
        let (session, world) = (Arc::clone(session), self.world.clone());
        self.world.spawn.spawn(Box::pin(async move {
            for run in runs {
                let row = world.runs.get_run(session.workspace, run).await;
                if !row.is_ok_and(|row| row.is_none_or(|row| row.ended_at.is_some())) {
                    continue;
                }
                let held = session.inner().holds.remove(&run);
                if let Some(turn) = held {
                    Self::say(&session, WorkerMessage::Cancelled { run, turn });
                }
            }
        }));
    }

    /// Tells a session something at once.
    pub(crate) fn say(session: &Session, letter: WorkerMessage) {
        session.put(letter);
        session.flush();
    }
}
