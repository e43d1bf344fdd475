//! Following runs: their new entries, and their ends.

use std::fmt;
use std::time::Duration;

use everstep_core::failure::Failure;
use everstep_core::ids::{NodeId, RunId, WorkspaceId};
use everstep_core::journal::Event;
use everstep_core::payload::Payload;
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_store::{MachinePlace, RunRow};
use tokio::sync::{mpsc, oneshot};

use crate::engine::Engine;
use crate::error::Error;
use crate::node::peers::Hint;
use crate::read::{FunctionEnd, MachineSnapshot};
use crate::shard::ToShard;

/// Another node reports the progress of a run for ten seconds after a request; the request must be renewed before that.
pub(crate) const RENEW_AFTER: Duration = Duration::from_secs(4);
/// The pause of a waiting caller while this node joins again after it was fenced.
const REJOIN_WAIT: Duration = Duration::from_millis(500);

/// Follows one run. It ends with the run.
pub struct Watch(mpsc::UnboundedReceiver<Notification>);

impl Watch {
    pub async fn next(&mut self) -> Option<Notification> {
        self.0.recv().await
    }
}

/// The content of a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notification {
    /// The run's last entry has this seq.
    Written(u64),
    /// The run may have continued on another node, or it does not continue on this one: read it.
    Look,
    /// The run is paused; its last entry has this seq.
    Paused(u64),
    /// The run has ended, with the entry of this seq.
    Ended(u64),
}

impl Notification {
    /// The seq of the last entry, if it is known.
    pub fn seq(self) -> Option<u64> {
        match self {
            Self::Written(seq) | Self::Paused(seq) | Self::Ended(seq) => Some(seq),
            Self::Look => None,
        }
    }
}

/// The shard's end of a watch.
pub(crate) struct Watcher {
    sender: mpsc::UnboundedSender<Notification>,
    /// Whether [`Notification::Written`] is left out.
    only_end: bool,
    /// Receives the facts of the end before [`Notification::Ended`], if the run ends on this node.
    end: Option<oneshot::Sender<EndFacts>>,
    /// Whether the caller knows the row that the start has written, and has not read the run since.
    is_unread: bool,
}

impl Watcher {
    /// Notifies the watch, unless it leaves out this kind of notification. False if the watch is closed.
    pub(crate) fn notify(&self, notification: Notification) -> bool {
        if self.only_end && matches!(notification, Notification::Written(_)) {
            return !self.sender.is_closed();
        }
        self.sender.send(notification).is_ok()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    pub(crate) fn is_unread(&self) -> bool {
        self.is_unread
    }

    /// Where the facts of the end are sent.
    pub(crate) fn take_end(&mut self) -> Option<oneshot::Sender<EndFacts>> {
        self.end.take()
    }
}

/// The columns of a run's row that its end changes, and the other facts about the end.
#[derive(Clone)]
pub(crate) struct EndFacts {
    pub(crate) status: Status,
    pub(crate) format: u32,
    pub(crate) output: Option<Payload>,
    pub(crate) error: Option<Failure>,
    pub(crate) ended_at: Timestamp,
    pub(crate) place: Option<MachinePlace>,
    pub(crate) seq: u64,
    /// The last event of the journal.
    pub(crate) last: Option<Event>,
    pub(crate) machine: Option<MachineSnapshot>,
}

/// The last request of a follower to other nodes: it is renewed before it expires, and not with every read.
#[derive(Default)]
pub(crate) struct FollowRequest {
    /// The owner of the run at that time, and the time.
    sent: Option<(Option<NodeId>, Duration)>,
}

impl FollowRequest {
    /// Whether the owner of the run, or all nodes if it has none, were asked and still notify this node.
    fn is_fresh(&self, owner: Option<NodeId>, now: Duration) -> bool {
        self.sent.is_some_and(|(asked, at)| asked == owner && now.saturating_sub(at) < RENEW_AFTER)
    }
}

/// The end of a run that was just started, or found.
pub struct RunEnd {
    engine: Engine,
    workspace: WorkspaceId,
    run: RunId,
    /// Receives the end if the run stays in the memory of this node until then.
    ended: oneshot::Receiver<EndedRun>,
}

/// A run as it was when its end was written. No read is needed for it.
#[derive(Clone, Debug)]
pub struct EndedRun {
    pub row: RunRow,
    pub function: FunctionEnd,
    /// The place of a run of a machine.
    pub machine: Option<MachineSnapshot>,
}

/// A run that has ended or is paused.
#[derive(Debug)]
pub enum AwaitedEnd {
    Ended(Box<EndedRun>),
    /// The run's row, as it was read.
    Read(Box<RunRow>),
}

impl AwaitedEnd {
    pub fn into_row(self) -> RunRow {
        match self {
            Self::Ended(ended) => ended.row,
            Self::Read(row) => *row,
        }
    }
}

impl fmt::Debug for RunEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunEnd").field("run", &self.run).finish_non_exhaustive()
    }
}

impl RunEnd {
    pub(crate) fn new(engine: Engine, workspace: WorkspaceId, run: RunId, ended: oneshot::Receiver<EndedRun>) -> Self {
        Self { engine, workspace, run, ended }
    }

    /// Waits until the run has ended or is paused.
    pub async fn halt(self) -> Result<AwaitedEnd, Error> {
        if let Ok(ended) = self.ended.await {
            return Ok(AwaitedEnd::Ended(Box::new(ended)));
        }
        self.engine.wait_for_halt(self.workspace, None, self.run).await
    }
}

impl Engine {
    /// Follows a run. Entries that were written before must be read from the journal.
    pub fn watch(&self, run: RunId) -> Watch {
        let (sender, receiver) = mpsc::unbounded_channel();
        let watcher = Watcher { sender, only_end: false, end: None, is_unread: false };
        let _ = self.member().tell(run, ToShard::Watch(run, watcher));
        Watch(receiver)
    }

    /// Follows a run, for its end only. If its caller has not read the run, the first notification is
    /// [`Notification::Look`], unless the run continues on this node.
    fn watch_end(&self, run: RunId, is_unread: bool) -> (Watch, oneshot::Receiver<EndFacts>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let (end, facts) = oneshot::channel();
        let watcher = Watcher { sender, only_end: true, end: Some(end), is_unread };
        let _ = self.member().tell(run, ToShard::Watch(run, watcher));
        (Watch(receiver), facts)
    }

    /// Asks the node that owns a run to notify this one when it continues. A run without an owner may be continued by
    /// any node: then all of them are asked. Without it a watch reads the run once per tick.
    pub(crate) fn follow(&self, row: &RunRow, request: &mut FollowRequest) {
        let now = self.world().clock.monotonic();
        if row.ended_at.is_some() || request.is_fresh(row.owner, now) {
            return;
        }
        let member = self.member();
        let peers = match row.owner {
            Some(owner) => member.shared.peer(owner).into_iter().collect(),
            None => member.shared.peers(),
        };
        for peer in &peers {
            self.world().peers.hint(peer, Hint::Watch { run: row.id, by: member.node });
            request.sent = Some((row.owner, now));
        }
    }

    /// Waits until a run has ended and returns its row.
    pub async fn wait(&self, workspace: WorkspaceId, run: RunId) -> Result<RunRow, Error> {
        let ended = self.wait_until(workspace, None, run, |row| row.ended_at.is_some()).await?;
        Ok(ended.into_row())
    }

    /// Waits until a run has ended or is paused. A paused run continues only after a request, so a caller that waits for
    /// its end could wait forever. A run of another workflow than the one that is named does not exist.
    pub async fn wait_for_halt(
        &self,
        workspace: WorkspaceId,
        workflow: Option<&str>,
        run: RunId,
    ) -> Result<AwaitedEnd, Error> {
        let has_halted = |row: &RunRow| row.ended_at.is_some() || row.status == Status::Paused;
        self.wait_until(workspace, workflow, run, has_halted).await
    }

    /// The row is read once, after the watch has begun. A run that ends on this node is not read again. A run that was
    /// just started here, and that continues here, is not read at all: its start has written a row that is still known.
    async fn wait_until(
        &self,
        workspace: WorkspaceId,
        workflow: Option<&str>,
        run: RunId,
        is_reached: impl Fn(&RunRow) -> bool,
    ) -> Result<AwaitedEnd, Error> {
        let mut known = self.started_rows().take(workspace, run);
        loop {
            let (mut watch, mut facts) = self.watch_end(run, known.is_some());
            let mut request = FollowRequest::default();
            loop {
                let row = match known.take() {
                    Some(row) => *row,
                    None => self.world().runs.get_run(workspace, run).await?.ok_or(Error::RunNotFound(run))?,
                };
                if workflow.is_some_and(|workflow| row.workflow != workflow) {
                    return Err(Error::RunNotFound(run));
                }
                if is_reached(&row) {
                    return Ok(AwaitedEnd::Read(Box::new(row)));
                }
                self.follow(&row, &mut request);
                let notification = watch.next().await;
                if let (Some(Notification::Ended(_)), Ok(facts)) = (notification, facts.try_recv()) {
                    return Ok(AwaitedEnd::Ended(Box::new(facts.complete(row))));
                }
                if notification.is_none() {
                    break;
                }
            }
            if self.is_stopping() {
                return Err(Error::Stopping);
            }
            // The run has ended, or this node joins again.
            if self.is_fenced() {
                self.world().sleep(REJOIN_WAIT).await;
            }
        }
    }
}
