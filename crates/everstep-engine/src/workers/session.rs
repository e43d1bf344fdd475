//! A worker's session: the workflows that it serves, its capacity, and the messages for it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use everstep_core::ids::{RunId, WorkspaceId};
use everstep_core::schema::Schema;
use everstep_core::time::Timestamp;
use everstep_core::topics::DeclaredTrigger;
use tokio::sync::Notify;

use super::lanes::lane_of;
use super::message::WorkerMessage;
use super::outbox::{Backlog, Outbox, WorkerBatch};
use super::session_id::SessionId;

/// A workflow that a worker serves.
#[derive(Clone, Debug, PartialEq)]
pub struct ServedWorkflow {
    pub name: String,
    pub version: u32,
    pub retention_days: Option<u32>,
    /// The schema of the input of its runs. A session that is open does not hold it.
    pub input_schema: Option<Arc<Schema>>,
    /// The events that start its runs while the version is active. A session that is open does not hold them.
    pub triggers: Vec<DeclaredTrigger>,
    /// The search attributes that the version declares. A session that is open does not hold them.
    pub index: Vec<String>,
}

/// The data that a worker sends when it connects.
#[derive(Clone, Debug)]
pub struct Hello {
    pub workspace: WorkspaceId,
    /// A name for people: host and process, for example.
    pub worker: String,
    pub sdk: Option<String>,
    pub workflows: Vec<ServedWorkflow>,
    /// The number of runs that it executes at the same time.
    pub capacity: usize,
    /// Runs that it holds from an earlier session, with the numbers of their turns.
    pub holds: Vec<(RunId, u32)>,
}

pub struct Session {
    pub id: SessionId,
    pub workspace: WorkspaceId,
    pub worker: String,
    pub sdk: Option<String>,
    pub workflows: Vec<ServedWorkflow>,
    lanes: BTreeSet<Arc<str>>,
    pub opened_at: Timestamp,
    inner: Mutex<Inner>,
    /// The outbox has messages, or the session has ended.
    news: Notify,
    /// Like `news`, except for replies to reports: a carrier that waits for turns is not woken by each reply.
    turns: Notify,
    unflushed: Arc<Unflushed>,
}

/// The sessions of a node whose carriers must be notified of new messages.
#[derive(Default)]
pub(super) struct Unflushed(Mutex<Vec<SessionId>>);

impl Unflushed {
    fn add(&self, id: SessionId) {
        self.0.lock().expect("no holder of the lock panics").push(id);
    }

    pub(super) fn take_sessions(&self) -> Vec<SessionId> {
        std::mem::take(&mut *self.0.lock().expect("no holder of the lock panics"))
    }
}

pub(super) struct Inner {
    pub(super) capacity: usize,
    /// Runs that have a seat here, with their turns.
    pub(super) live: BTreeMap<RunId, u32>,
    /// Those of them whose function only waits: their seats count as free.
    pub(super) blocked: BTreeSet<RunId>,
    /// Runs that the worker holds from an earlier session and that no node has claimed yet. After a lease both sides
    /// drop them.
    pub(super) holds: BTreeMap<RunId, u32>,
    /// Lanes whose runs the worker has declined.
    pub(super) declined: BTreeSet<Arc<str>>,
    /// Whether a lookup has found which of `holds` have ended.
    has_looked_up: bool,
    pub(super) opened: Duration,
    /// When bytes last arrived, on the monotonic clock and on the wall clock.
    pub(super) heard: Duration,
    pub(super) heard_at: Timestamp,
    /// When the carrier disconnected, if there is none.
    pub(super) detached: Option<Duration>,
    outbox: Outbox,
    /// The number of the newest carrier. An older one recognises by it that it was replaced.
    carrier: u64,
    is_over: bool,
}

impl Inner {
    /// The number of further runs for which the worker has room; none while it is not connected.
    pub(super) fn free(&self) -> usize {
        if self.detached.is_some() {
            return 0;
        }
        self.capacity.saturating_sub(self.live.len() - self.blocked.len())
    }
}

impl Session {
    pub(super) fn new(
        id: SessionId,
        hello: Hello,
        now: Timestamp,
        monotonic: Duration,
        unflushed: Arc<Unflushed>,
    ) -> Self {
        let lane = |served: &ServedWorkflow| lane_of(hello.workspace, &served.name, served.version);
        Self {
            id,
            lanes: hello.workflows.iter().map(lane).collect(),
            workspace: hello.workspace,
            worker: hello.worker,
            sdk: hello.sdk,
            workflows: hello.workflows,
            opened_at: now,
            inner: Mutex::new(Inner {
                capacity: hello.capacity,
                live: BTreeMap::new(),
                blocked: BTreeSet::new(),
                holds: hello.holds.into_iter().collect(),
                declined: BTreeSet::new(),
                has_looked_up: false,
                opened: monotonic,
                heard: monotonic,
                heard_at: now,
                detached: None,
                outbox: Outbox::default(),
                carrier: 0,
                is_over: false,
            }),
            news: Notify::new(),
            turns: Notify::new(),
            unflushed,
        }
    }

    /// Whether the worker may have runs of a lane, and report on them.
    pub(crate) fn serves(&self, lane: &str) -> bool {
        self.lanes.contains(lane)
    }

    pub(super) fn lanes(&self) -> impl Iterator<Item = &Arc<str>> {
        self.lanes.iter()
    }

    pub(super) fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("no holder of the lock panics")
    }

    pub(super) fn capacity(&self) -> usize {
        self.inner().capacity
    }

    /// Attaches a new carrier, such as a socket, to the session. Returns its number, and whether there was none before.
    pub(super) fn attach(&self) -> (u64, bool) {
        let mut inner = self.inner();
        inner.carrier += 1;
        let was_detached = inner.detached.take().is_some();
        let carrier = inner.carrier;
        drop(inner);
        self.notify_all();
        (carrier, was_detached)
    }

    /// Whether this carrier is the newest, and the session has not ended.
    pub fn is_carried_by(&self, carrier: u64) -> bool {
        let inner = self.inner();
        inner.carrier == carrier && !inner.is_over
    }

    /// A carrier has disconnected. Its session ends soon unless another carrier is attached.
    pub fn detach(&self, carrier: u64, monotonic: Duration) {
        let mut inner = self.inner();
        if inner.carrier == carrier {
            inner.detached = Some(monotonic);
        }
    }

    pub fn is_over(&self) -> bool {
        self.inner().is_over
    }

    /// The worker has seen all batches up to this one.
    pub fn seen(&self, m: u64) {
        let has_room = self.inner().outbox.seen(m);
        if has_room {
            self.notify_all();
        }
    }

    /// Batches that were sent and that the worker has not acknowledged yet.
    pub fn unseen(&self) -> Vec<Arc<WorkerBatch>> {
        self.inner().outbox.unseen()
    }

    /// Batches that the worker had not acknowledged at the last call, and has not acknowledged yet. Later ones may
    /// still be in flight.
    pub fn overdue(&self) -> Vec<Arc<WorkerBatch>> {
        self.inner().outbox.overdue()
    }

    pub fn backlog(&self) -> Backlog {
        self.inner().outbox.backlog()
    }

    /// The next batch, if there are messages.
    pub fn next_batch(&self) -> Option<Arc<WorkerBatch>> {
        self.inner().outbox.next_batch()
    }

    /// Like `next_batch`, for a carrier that may have been replaced: a batch that it took after that would never
    /// arrive.
    pub fn next_batch_for(&self, carrier: u64) -> Option<Arc<WorkerBatch>> {
        let mut inner = self.inner();
        if inner.carrier == carrier { inner.outbox.next_batch() } else { None }
    }

    /// Waits until there is a batch, or the session has ended, or another carrier is attached.
    pub async fn any_news(&self, carrier: u64) {
        self.until(&self.news, |inner| inner.outbox.has_batch() || inner.carrier != carrier).await;
    }

    /// Waits until there is a batch with more than replies to reports, or the session has ended, or another carrier is
    /// attached.
    pub async fn turn_news(&self, carrier: u64) {
        self.until(&self.turns, |inner| inner.outbox.has_turn_news() || inner.carrier != carrier).await;
    }

    /// Waits until every report has a reply, or the session has ended.
    pub async fn all_answered(&self) {
        self.until(&self.news, |inner| inner.outbox.has_answered()).await;
    }

    /// Rejects reports that cannot be decoded, by their numbers.
    pub fn refuse(&self, reports: Vec<(u64, String)>) {
        if reports.is_empty() {
            return;
        }
        for (n, detail) in reports {
            self.put(WorkerMessage::Refused { n, code: Cow::Borrowed("VALIDATION_ERROR"), detail });
        }
        self.flush();
    }

    async fn until(&self, news: &Notify, is_so: impl Fn(&Inner) -> bool) {
        loop {
            let mut news = std::pin::pin!(news.notified());
            news.as_mut().enable();
            {
                let inner = self.inner();
                if inner.is_over || is_so(&inner) {
                    return;
                }
            }
            news.await;
        }
    }

    /// Records reports that will receive a reply.
    pub(super) fn expect(&self, reports: impl Iterator<Item = u64>) {
        self.inner().outbox.expect(reports);
    }

    /// Adds a message. It is sent after [`Session::flush`], which the shard calls once for many messages.
    pub(crate) fn put(&self, message: WorkerMessage) {
        let mut inner = self.inner();
        if !inner.is_over && inner.outbox.put(message) {
            self.unflushed.add(self.id);
        }
    }

    /// Sends a message at once.
    pub(crate) fn send(&self, message: WorkerMessage) {
        self.put(message);
        self.flush();
    }

    /// Notifies the carrier of new messages.
    pub(super) fn flush(&self) {
        let mut inner = self.inner();
        if !inner.outbox.flush() {
            return;
        }
        let has_turn_news = inner.outbox.has_more_than_replies();
        drop(inner);
        self.news.notify_waiters();
        if has_turn_news {
            self.turns.notify_waiters();
        }
    }

    fn notify_all(&self) {
        self.news.notify_waiters();
        self.turns.notify_waiters();
    }

    /// Runs that the worker holds from an earlier session and that no node has claimed for some time. They are returned
    /// once.
    pub(super) fn unclaimed(&self) -> Vec<RunId> {
        let mut inner = self.inner();
        if std::mem::replace(&mut inner.has_looked_up, true) {
            return Vec::new();
        }
        inner.holds.keys().copied().collect()
    }

    /// Ends the session. Returns the runs that had a seat here, with their turns.
    pub(super) fn end(&self) -> Vec<(RunId, u32)> {
        let mut inner = self.inner();
        inner.is_over = true;
        inner.outbox.clear();
        inner.holds.clear();
        inner.blocked.clear();
        let runs = std::mem::take(&mut inner.live).into_iter().collect();
        drop(inner);
        self.notify_all();
        runs
    }
}

#[cfg(test)]
mod tests {
    use everstep_core::ids::NodeId;
    use uuid::Uuid;

    use super::*;
    use crate::workers::outbox::{BATCH_BYTES_MAX, UNSEEN_BYTES_MAX};

    fn session() -> Session {
        let hello = Hello {
            workspace: WorkspaceId::DEFAULT,
            worker: "host:1".to_owned(),
            sdk: None,
            workflows: Vec::new(),
            capacity: 1,
            holds: Vec::new(),
        };
        let id = SessionId { node: NodeId::from_uuid(Uuid::nil()), secret: Uuid::from_u128(u128::MAX / 7) };
        Session::new(id, hello, Timestamp::EPOCH, Duration::ZERO, Arc::default())
    }

    fn message(n: u64) -> WorkerMessage {
        WorkerMessage::Refused { n, code: Cow::Borrowed("X"), detail: "x".repeat(BATCH_BYTES_MAX) }
    }

    #[tokio::test]
    async fn a_worker_that_acknowledges_nothing_receives_a_bounded_number_of_messages() {
        let session = session();
        let (carrier, _) = session.attach();
        (1..=40).for_each(|n| session.put(message(n)));
        let sent = std::iter::from_fn(|| session.next_batch()).count();
        assert_eq!(sent, UNSEEN_BYTES_MAX / BATCH_BYTES_MAX);
        let news = tokio::spawn({
            let session = Arc::new(session);
            let waits = Arc::clone(&session);
            tokio::spawn(async move {
                tokio::task::yield_now().await;
                waits.seen(1);
            });
            async move {
                session.any_news(carrier).await;
                session.next_batch().map(|batch| batch.m)
            }
        });
        assert_eq!(news.await.unwrap(), Some(sent as u64 + 1));
    }

    #[test]
    fn a_carrier_that_was_replaced_takes_nothing_more() {
        let session = session();
        let (old, _) = session.attach();
        (1..=2).for_each(|n| session.put(message(n)));
        assert_eq!(session.next_batch_for(old).map(|batch| batch.m), Some(1));
        let (new, _) = session.attach();
        assert_eq!(session.unseen().len(), 1);
        assert!(session.next_batch_for(old).is_none());
        assert_eq!(session.next_batch_for(new).map(|batch| batch.m), Some(2));
    }

    #[test]
    fn a_message_is_overdue_once_it_was_asked_for_twice() {
        let session = session();
        session.put(message(1));
        session.next_batch();
        assert!(session.overdue().is_empty());
        session.put(message(2));
        session.next_batch();
        assert_eq!(session.overdue().iter().map(|batch| batch.m).collect::<Vec<_>>(), [1]);
        session.seen(1);
        assert_eq!(session.overdue().iter().map(|batch| batch.m).collect::<Vec<_>>(), [2]);
    }
}
