//! The workers of a node: their sessions, from hello to the end of the lease.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use everstep_core::fair_share::{FairShare, ShareBounds};
use everstep_core::ids::{NodeId, RunId, WorkspaceId};
use everstep_core::planted::{self, Bug};
use everstep_core::run::Input;
use everstep_core::time::Timestamp;
use tokio::sync::{Notify, mpsc};
use uuid::Uuid;

use super::lanes::{Lanes, lane_of};
use super::message::WorkerMessage;
use super::session::{Hello, ServedWorkflow, Session, Unflushed};
use super::session_id::SessionId;
use super::turn_end::TurnEnd;
use crate::error::Error;
use crate::message::ToClaimer;
use crate::ports::World;
use crate::run::Envelope;
use crate::shard::{ShardSender, ToShard, shard_of};

/// A session without a carrier is ended after this part of its lease.
const DETACHED_LEASE_PART: u32 = 6;
/// The maximum number of workers of one workspace on one node.
const SESSIONS_PER_WORKSPACE_MAX: u64 = 1_000;
/// The maximum number of workers on one node; workspaces share them.
const SESSIONS_MAX: u64 = 4_000;

pub(crate) struct Workers {
    world: World,
    node: NodeId,
    lease: Duration,
    shards: Vec<ShardSender>,
    pub(super) claimer: mpsc::UnboundedSender<ToClaimer>,
    inner: Mutex<Inner>,
    unflushed: Arc<Unflushed>,
    /// The number of sessions.
    count: AtomicUsize,
    is_closed: AtomicBool,
    /// A session was opened, or all have ended.
    changed: Notify,
}

pub(super) struct Inner {
    pub(super) sessions: BTreeMap<SessionId, Arc<Session>>,
    /// The sessions of workspaces. None waits for a place.
    places: FairShare<(), ()>,
    pub(super) lanes: Lanes,
}

impl Default for Inner {
    fn default() -> Self {
        let bounds = ShareBounds { workspace_max: SESSIONS_PER_WORKSPACE_MAX, ..ShareBounds::new(SESSIONS_MAX) };
        Self { sessions: BTreeMap::new(), places: FairShare::new(bounds), lanes: Lanes::default() }
    }
}

impl Inner {
    /// Whether a workspace may open another session.
    fn check_room(&self, workspace: WorkspaceId) -> Result<(), Error> {
        if self.places.used_by(workspace) >= SESSIONS_PER_WORKSPACE_MAX {
            return Err(Error::Busy(format!(
                "a workspace has at most {SESSIONS_PER_WORKSPACE_MAX} workers on one node; connect this worker to \
                 another node"
            )));
        }
        if self.places.room_of(workspace) == 0 {
            return Err(too_many_workers());
        }
        Ok(())
    }
}

fn too_many_workers() -> Error {
    let message = format!(
        "this node serves at most {SESSIONS_MAX} workers, and the remaining places are for workspaces with fewer; \
         connect this worker to another node"
    );
    Error::Busy(message)
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
            unflushed: Arc::default(),
            count: AtomicUsize::new(0),
            is_closed: AtomicBool::new(false),
            changed: Notify::new(),
        })
    }

    pub(super) fn has_sessions(&self) -> bool {
        self.count.load(Ordering::SeqCst) > 0
    }

    pub(super) fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("no holder of the lock panics")
    }

    /// Whether a workspace may have another worker on this node.
    pub(crate) fn check_room(&self, workspace: WorkspaceId) -> Result<(), Error> {
        self.check(&self.inner(), workspace)
    }

    fn check(&self, inner: &Inner, workspace: WorkspaceId) -> Result<(), Error> {
        if self.is_closed.load(Ordering::SeqCst) {
            return Err(Error::Stopping);
        }
        inner.check_room(workspace)
    }

    /// Opens a session, unless this node is stopping.
    pub(crate) fn open(&self, hello: Hello) -> Result<Arc<Session>, Error> {
        // Other ids only identify things. This one is a secret.
        let id = SessionId { node: self.node, secret: Uuid::new_v4() };
        let clock = &self.world.clock;
        let session = Arc::new(Session::new(id, hello, clock.now(), clock.monotonic(), Arc::clone(&self.unflushed)));
        let mut inner = self.inner();
        self.check(&inner, session.workspace)?;
        if !inner.places.try_take(session.workspace, &(), 1) {
            return Err(too_many_workers());
        }
        inner.lanes.add(&session);
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

    /// Renews the lease of a worker: bytes have arrived from it.
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

    /// Notifies the carriers of all sessions that have new messages.
    pub(crate) fn flush(&self) {
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let unflushed = self.unflushed.take_sessions();
        if unflushed.is_empty() {
            return;
        }
        let inner = self.inner();
        for session in unflushed.iter().filter_map(|id| inner.sessions.get(id)) {
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
                let lane = |served: &ServedWorkflow| lane_of(workspace, &served.name, served.version);
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

    /// A worker leaves in order: it gives its turns back.
    pub(crate) fn close(&self, session: &Session) {
        for (run, turn) in self.remove(session) {
            self.send(run, ToShard::TurnBack(run, turn));
        }
    }

    /// The lease of a worker has expired: its turns are lost.
    fn lose(&self, session: &Session) {
        let runs = self.remove(session);
        let (worker, runs_lost) = (&session.worker, runs.len());
        tracing::warn!(worker, runs_lost, "the lease of a worker has expired; its runs go to other workers");
        if planted::is_planted(Bug::LostTurnForgotten) {
            return;
        }
        for (run, turn) in runs {
            self.send(run, ToShard::Input(run, Envelope::new(Input::LoseTurn { turn })));
        }
    }

    /// Ends all sessions because this node stops or was fenced. Workers connect to other nodes and keep their turns.
    pub(crate) fn close_all(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        let mut inner = self.inner();
        let sessions = std::mem::take(&mut *inner).sessions;
        self.count.store(0, Ordering::SeqCst);
        drop(inner);
        for session in sessions.values() {
            session.end();
        }
        self.changed.notify_one();
    }

    fn remove(&self, session: &Session) -> Vec<(RunId, u32)> {
        let mut inner = self.inner();
        if inner.sessions.remove(&session.id).is_some() {
            inner.places.release(session.workspace, &(), 1);
        }
        inner.lanes.remove_everywhere(session);
        if inner.sessions.is_empty() {
            inner.lanes.forget_incoming();
        }
        self.count.store(inner.sessions.len(), Ordering::SeqCst);
        drop(inner);
        session.end()
    }

    fn send(&self, run: RunId, message: ToShard) {
        let _ = self.shards[shard_of(run, self.shards.len())].send(message);
    }

    /// Ends sessions whose lease has expired. Sleeps while there are no sessions.
    pub(crate) async fn watch(self: Arc<Self>) {
        loop {
            if self.is_closed.load(Ordering::SeqCst) {
                return;
            }
            if !self.has_sessions() {
                self.changed.notified().await;
                continue;
            }
            self.world.sleep(self.lease / 10).await;
            let now = self.world.clock.monotonic();
            let is_over = |session: &&Arc<Session>| {
                let inner = session.inner();
                let is_gone = inner.detached.is_some_and(|since| now > since + self.lease / DETACHED_LEASE_PART);
                is_gone || now > inner.heard + self.lease
            };
            let (mut over, mut settled) = (Vec::new(), Vec::new());
            for session in self.inner().sessions.values() {
                let age = now.saturating_sub(session.inner().opened);
                if is_over(&session) {
                    over.push(Arc::clone(session));
                } else if age > self.lease + self.lease / 5 {
                    session.inner().holds.clear();
                } else if age > self.lease / 5 {
                    settled.push(Arc::clone(session));
                }
            }
            settled.sort_by_key(|session| session.opened_at);
            for session in settled {
                self.cancel_ended_holds(&session);
            }
            over.sort_by_key(|session| session.opened_at);
            for session in over {
                self.lose(&session);
            }
        }
    }

    /// Cancels runs that a worker holds from an earlier session and that have ended since: no claim would assign them
    /// to it.
    fn cancel_ended_holds(&self, session: &Arc<Session>) {
        let runs = session.unclaimed();
        if runs.is_empty() {
            return;
        }
        let (session, world) = (Arc::clone(session), self.world.clone());
        self.world.spawn.spawn(Box::pin(async move {
            for run in runs {
                let end = match world.runs.get_run(session.workspace, run).await {
                    Ok(Some(row)) if row.ended_at.is_some() => TurnEnd::of_status(row.status, row.error.as_ref()),
                    // The run was deleted after its end.
                    Ok(None) => TurnEnd::Ended,
                    Ok(Some(_)) | Err(_) => continue,
                };
                let held = session.inner().holds.remove(&run);
                if let Some(turn) = held {
                    session.send(WorkerMessage::Cancelled { run, turn, end });
                }
            }
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workspaces_share_the_sessions_of_a_node() {
        let mut inner = Inner::default();
        let mut take_all = |number: u128| {
            let workspace = WorkspaceId::new(Timestamp::EPOCH, number);
            while inner.check_room(workspace).is_ok() && inner.places.try_take(workspace, &(), 1) {}
            inner.places.used_by(workspace)
        };
        assert_eq!([1, 2, 3].map(&mut take_all), [SESSIONS_PER_WORKSPACE_MAX; 3]);
        let of_fourth = take_all(4);
        assert!((1..SESSIONS_PER_WORKSPACE_MAX).contains(&of_fourth), "the last quarter is shared: {of_fourth}");
        assert!(take_all(5) > 0);
    }
}
