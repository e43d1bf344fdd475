//! A worker's session: what it serves, how much it takes, and what it is to be told.
//!
//! **Invariant**: what a worker is told is numbered, and kept until the worker says that it has seen it. So a lost
//! answer loses nothing.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use everstep_core::ids::{NodeId, RunId, WorkspaceId};
use everstep_core::time::Timestamp;
use tokio::sync::Notify;
use uuid::Uuid;

use super::lanes::lane_of;
use super::message::WorkerMessage;

/// Letters that one message holds at most.
const MESSAGE: usize = 1_024;
/// Bytes after which a message takes no more letters.
const BYTES: usize = 4 * 1024 * 1024;
/// Bytes of messages that were sent and not seen, after which nothing more is sent.
const KEPT: usize = 64 * 1024 * 1024;
/// Characters of a session's secret that may be shown.
const SHOWN: usize = 8;

/// The id of a session: the node that it belongs to, and 128 bits that nobody can guess.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId {
    pub node: NodeId,
    pub secret: Uuid,
}

impl SessionId {
    /// What may be shown to those who do not hold it.
    pub fn shown(&self) -> String {
        let mut text = self.secret.simple().to_string();
        text.truncate(SHOWN);
        text
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionId({}…)", self.shown())
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.node.uuid().simple(), self.secret.simple())
    }
}

impl FromStr for SessionId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let malformed = || "a session's id is what the server gave when it was opened".to_owned();
        let (node, secret) = text.split_once('.').ok_or_else(malformed)?;
        let node = node.parse::<Uuid>().map_err(|_| malformed())?;
        let secret = secret.parse::<Uuid>().map_err(|_| malformed())?;
        Ok(Self { node: NodeId::from_uuid(node), secret })
    }
}

/// A workflow that a worker serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedWorkflow {
    pub name: String,
    pub version: u32,
    pub retention_days: Option<u32>,
}

/// What a worker says of itself when it comes.
#[derive(Clone, Debug)]
pub struct Hello {
    pub workspace: WorkspaceId,
    /// What people call it: a host and a process, say.
    pub worker: String,
    pub sdk: Option<String>,
    pub workflows: Vec<ServedWorkflow>,
    /// Runs that it takes at once.
    pub capacity: usize,
    /// Runs that it has from a session before, with the numbers of their turns.
    pub holds: Vec<(RunId, u32)>,
}

/// Letters on their way to a worker.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerBatch {
    /// Counts from 1.
    pub m: u64,
    pub messages: Vec<WorkerMessage>,
}

impl WorkerBatch {
    /// Roughly the bytes that it takes.
    fn size(&self) -> usize {
        self.messages.iter().map(WorkerMessage::size).sum()
    }
}

/// What a session has under way.
#[derive(Clone, Copy, Debug)]
pub struct Backlog {
    /// Reports that are not answered yet.
    pub unanswered: usize,
    /// Messages that were sent and that the worker has not seen, as far as is known.
    pub unseen: usize,
    /// Letters that are in no message yet.
    pub unsent: usize,
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
    /// Something was put into the outbox, or the session has ended.
    news: Notify,
    /// The same, but for answers to reports: whoever waits for turns is not woken by each of them.
    turns: Notify,
    untold: Arc<Untold>,
}

/// The sessions of a node whose carriers are to be told that there is something.
#[derive(Default)]
pub(crate) struct Untold(Mutex<Vec<SessionId>>);

impl Untold {
    fn add(&self, id: SessionId) {
        self.0.lock().expect("no holder of the lock panics").push(id);
    }

    pub(crate) fn take(&self) -> Vec<SessionId> {
        std::mem::take(&mut *self.0.lock().expect("no holder of the lock panics"))
    }
}

pub(crate) struct Inner {
    pub(crate) capacity: usize,
    /// Runs whose turn is here.
    pub(crate) live: BTreeMap<RunId, u32>,
    /// Those of them that only wait: they take nobody's room.
    pub(crate) blocked: BTreeSet<RunId>,
    /// Runs that the worker brought along and that nobody has claimed yet. After a lease they are forgotten, here and
    /// there.
    pub(crate) holds: BTreeMap<RunId, u32>,
    /// Lanes whose runs the worker has declined.
    pub(crate) declined: BTreeSet<Arc<str>>,
    /// Whether it was looked up which of the runs that it brought have ended.
    has_asked: bool,
    pub(crate) opened: Duration,
    /// When bytes came last, on the monotonic clock, and when.
    pub(crate) heard: Duration,
    pub(crate) heard_at: Timestamp,
    /// When its carrier went, if it has none.
    pub(crate) detached: Option<Duration>,
    outbox: Vec<WorkerMessage>,
    /// Whether the outbox holds more than answers to reports.
    has_more_than_answers: bool,
    sent: VecDeque<Arc<WorkerBatch>>,
    /// Their bytes.
    kept: usize,
    last: u64,
    /// The last message that was sent when somebody asked what is overdue.
    asked: u64,
    /// Reports that are not answered yet.
    pending: BTreeSet<u64>,
    /// Counted up by whoever carries the session, so that an older carrier knows that it is one.
    carrier: u64,
    is_over: bool,
    /// Whether letters were put there since the carrier was told.
    has_untold: bool,
}

impl Inner {
    /// How many runs more the worker takes: none while nobody knows where it is.
    pub(crate) fn free(&self) -> usize {
        if self.detached.is_some() {
            return 0;
        }
        self.capacity.saturating_sub(self.live.len() - self.blocked.len())
    }

    /// Whether the worker is to see something before it is sent more.
    fn is_full(&self) -> bool {
        self.kept > KEPT
    }
}

impl Session {
    pub(crate) fn new(id: SessionId, hello: Hello, now: Timestamp, monotonic: Duration, untold: Arc<Untold>) -> Self {
        Self {
            id,
            lanes: hello
                .workflows
                .iter()
                .map(|served| lane_of(hello.workspace, &served.name, served.version))
                .collect(),
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
                has_asked: false,
                opened: monotonic,
                heard: monotonic,
                heard_at: now,
                detached: None,
                outbox: Vec::new(),
                has_more_than_answers: false,
                sent: VecDeque::new(),
                kept: 0,
                last: 0,
                asked: 0,
                pending: BTreeSet::new(),
                carrier: 0,
                is_over: false,
                has_untold: false,
            }),
            news: Notify::new(),
            turns: Notify::new(),
            untold,
        }
    }

    /// Whether it may have runs of a lane, and speak of them.
    pub(crate) fn serves(&self, lane: &str) -> bool {
        self.lanes.contains(lane)
    }

    pub(crate) fn lanes(&self) -> impl Iterator<Item = &Arc<str>> {
        self.lanes.iter()
    }

    pub(crate) fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("no holder of the lock panics")
    }

    /// Somebody carries the session from now on: a socket. Returns its number, and whether there was nobody before.
    pub(crate) fn attach(&self) -> (u64, bool) {
        let mut inner = self.inner();
        inner.carrier += 1;
        let was_detached = inner.detached.take().is_some();
        let carrier = inner.carrier;
        drop(inner);
        self.tell_all();
        (carrier, was_detached)
    }

    /// Whether this carrier is the last that came, and the session goes on.
    pub fn is_carried_by(&self, carrier: u64) -> bool {
        let inner = self.inner();
        inner.carrier == carrier && !inner.is_over
    }

    /// A carrier has gone. Its session is soon given up unless another comes.
    pub fn detach(&self, carrier: u64, monotonic: Duration) {
        let mut inner = self.inner();
        if inner.carrier == carrier {
            inner.detached = Some(monotonic);
        }
    }

    pub fn is_over(&self) -> bool {
        self.inner().is_over
    }

    /// The worker has seen all messages up to this one.
    pub fn seen(&self, m: u64) {
        let mut inner = self.inner();
        let was_full = inner.is_full();
        while let Some(message) = inner.sent.front().filter(|message| message.m <= m) {
            let size = message.size();
            inner.kept -= size;
            inner.sent.pop_front();
        }
        let has_room = was_full && !inner.is_full();
        drop(inner);
        if has_room {
            self.tell_all();
        }
    }

    /// Messages that were sent and that the worker has not seen, as far as is known.
    pub fn unseen(&self) -> Vec<Arc<WorkerBatch>> {
        self.inner().sent.iter().cloned().collect()
    }

    /// Messages that the worker had not seen when this was asked before, and has not seen yet. What was sent since may
    /// be on its way.
    pub fn overdue(&self) -> Vec<Arc<WorkerBatch>> {
        let mut inner = self.inner();
        let last = inner.last;
        let asked = std::mem::replace(&mut inner.asked, last);
        inner.sent.iter().take_while(|message| message.m <= asked).cloned().collect()
    }

    pub fn backlog(&self) -> Backlog {
        let inner = self.inner();
        Backlog { unanswered: inner.pending.len(), unseen: inner.sent.len(), unsent: inner.outbox.len() }
    }

    /// Takes what has gathered, as the next message.
    pub fn take(&self) -> Option<Arc<WorkerBatch>> {
        Self::take_from(self.inner())
    }

    /// The same for a carrier that others may have replaced: what it took after that would never arrive.
    pub fn take_as(&self, carrier: u64) -> Option<Arc<WorkerBatch>> {
        let inner = self.inner();
        if inner.carrier == carrier { Self::take_from(inner) } else { None }
    }

    fn take_from(mut inner: MutexGuard<'_, Inner>) -> Option<Arc<WorkerBatch>> {
        if inner.outbox.is_empty() || inner.is_full() {
            return None;
        }
        let mut bytes = 0;
        let fits = |letter: &&WorkerMessage| {
            let is_room = bytes < BYTES;
            bytes += letter.size();
            is_room
        };
        let count = inner.outbox.iter().take(MESSAGE).take_while(fits).count();
        let rest = inner.outbox.split_off(count);
        inner.last += 1;
        let message = Arc::new(WorkerBatch { m: inner.last, messages: std::mem::replace(&mut inner.outbox, rest) });
        inner.has_more_than_answers = inner.outbox.iter().any(|letter| !is_answer(letter));
        inner.kept += message.size();
        inner.sent.push_back(Arc::clone(&message));
        Some(message)
    }

    /// Waits until there is anything to be taken, or the session is over, or another carries it.
    pub async fn any_news(&self, carrier: u64) {
        let is_so = |inner: &Inner| !inner.outbox.is_empty() && !inner.is_full() || inner.carrier != carrier;
        self.until(&self.news, is_so).await;
    }

    /// Waits until there is more to be taken than answers to reports, or the session is over, or another carries it.
    pub async fn turn_news(&self, carrier: u64) {
        let is_so = |inner: &Inner| inner.has_more_than_answers && !inner.is_full() || inner.carrier != carrier;
        self.until(&self.turns, is_so).await;
    }

    /// Answers reports that cannot be understood, by their numbers.
    pub fn refuse(&self, reports: Vec<(u64, String)>) {
        if reports.is_empty() {
            return;
        }
        for (n, detail) in reports {
            self.put(WorkerMessage::Refused { n, code: Cow::Borrowed("VALIDATION_ERROR"), detail });
        }
        self.flush();
    }

    /// Waits until every report is answered, or the session is over.
    pub async fn all_answered(&self) {
        self.until(&self.news, |inner| inner.pending.is_empty()).await;
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

    pub(crate) fn expect(&self, reports: impl Iterator<Item = u64>) {
        self.inner().pending.extend(reports);
    }

    /// Puts letters into the outbox. Whoever does so calls [`Session::flush`] when there are no more.
    pub(crate) fn put(&self, letter: WorkerMessage) {
        let mut inner = self.inner();
        if inner.is_over {
            return;
        }
        match &letter {
            WorkerMessage::Ack { n, .. } | WorkerMessage::Refused { n, .. } | WorkerMessage::Later { n } => {
                _ = inner.pending.remove(n)
            }
            WorkerMessage::Turn(_)
            | WorkerMessage::Wake { .. }
            | WorkerMessage::Cancelled { .. }
            | WorkerMessage::Revoked { .. } => {
                inner.has_more_than_answers = true;
            }
        }
        inner.outbox.push(letter);
        if !std::mem::replace(&mut inner.has_untold, true) {
            self.untold.add(self.id);
        }
    }

    /// Tells whoever carries the session that there is something.
    pub(crate) fn flush(&self) {
        let mut inner = self.inner();
        if !std::mem::take(&mut inner.has_untold) {
            return;
        }
        let has_more_than_answers = inner.has_more_than_answers;
        drop(inner);
        self.news.notify_waiters();
        if has_more_than_answers {
            self.turns.notify_waiters();
        }
    }

    /// Something has changed for whoever waits.
    fn tell_all(&self) {
        self.news.notify_waiters();
        self.turns.notify_waiters();
    }

    /// Runs that the worker brought along and that nobody has claimed in a while. They are asked for once.
    pub(crate) fn unclaimed(&self) -> Vec<RunId> {
        let mut inner = self.inner();
        if std::mem::replace(&mut inner.has_asked, true) { Vec::new() } else { inner.holds.keys().copied().collect() }
    }

    /// Ends the session. Returns the runs whose turns were here.
    pub(crate) fn end(&self) -> Vec<(RunId, u32)> {
        let mut inner = self.inner();
        inner.is_over = true;
        inner.outbox.clear();
        inner.sent.clear();
        inner.kept = 0;
        inner.pending.clear();
        inner.holds.clear();
        inner.blocked.clear();
        let runs = std::mem::take(&mut inner.live).into_iter().collect();
        drop(inner);
        self.tell_all();
        runs
    }
}

fn is_answer(letter: &WorkerMessage) -> bool {
    matches!(letter, WorkerMessage::Ack { .. } | WorkerMessage::Refused { .. } | WorkerMessage::Later { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

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

    fn letter(n: u64) -> WorkerMessage {
        WorkerMessage::Refused { n, code: Cow::Borrowed("X"), detail: "x".repeat(BYTES) }
    }

    #[tokio::test]
    async fn a_worker_that_sees_nothing_is_told_no_more_than_is_kept() {
        let session = session();
        let (carrier, _) = session.attach();
        (1..=40).for_each(|n| session.put(letter(n)));
        let told = std::iter::from_fn(|| session.take()).count();
        assert_eq!(told, KEPT / BYTES);
        let news = tokio::spawn({
            let session = Arc::new(session);
            let waits = Arc::clone(&session);
            tokio::spawn(async move {
                tokio::task::yield_now().await;
                waits.seen(1);
            });
            async move {
                session.any_news(carrier).await;
                session.take().map(|message| message.m)
            }
        });
        assert_eq!(news.await.unwrap(), Some(told as u64 + 1));
    }

    #[test]
    fn a_carrier_that_was_replaced_takes_nothing_more() {
        let session = session();
        let (old, _) = session.attach();
        (1..=2).for_each(|n| session.put(letter(n)));
        assert_eq!(session.take_as(old).map(|message| message.m), Some(1));
        let (new, _) = session.attach();
        assert_eq!(session.unseen().len(), 1);
        assert!(session.take_as(old).is_none());
        assert_eq!(session.take_as(new).map(|message| message.m), Some(2));
    }

    #[test]
    fn a_message_is_overdue_once_it_was_asked_for_twice() {
        let session = session();
        session.put(letter(1));
        session.take();
        assert!(session.overdue().is_empty());
        session.put(letter(2));
        session.take();
        assert_eq!(session.overdue().iter().map(|message| message.m).collect::<Vec<_>>(), [1]);
        session.seen(1);
        assert_eq!(session.overdue().iter().map(|message| message.m).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn the_secret_of_a_session_is_not_shown() {
        let SessionId { secret, .. } = session().id;
        let text = format!("{:?}", session().id);
        assert!(text.contains(&secret.simple().to_string()[..SHOWN]));
        assert!(text.len() < 32, "{text}");
    }
}
