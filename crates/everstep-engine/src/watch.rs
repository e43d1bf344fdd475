//! Following runs: their new entries, and their ends.

use std::fmt;
use std::time::Duration;

use everstep_core::ids::{NodeId, RunId, WorkspaceId};
use everstep_core::status::Status;
use everstep_store::RunRow;
use tokio::sync::mpsc;

use crate::engine::Engine;
use crate::error::Error;
use crate::node::peers::Hint;
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
    /// Another node owns the run, and it may have continued: read it.
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
    /// Has followed the run since before it began.
    watch: Option<Watch>,
}

impl fmt::Debug for RunEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunEnd").field("run", &self.run).finish_non_exhaustive()
    }
}

impl RunEnd {
    pub(crate) fn new(engine: Engine, workspace: WorkspaceId, run: RunId, watch: Option<Watch>) -> Self {
        Self { engine, workspace, run, watch }
    }

    /// Waits until the run has ended or is paused, and returns its row.
    pub async fn row(self) -> Result<RunRow, Error> {
        if let Some(mut watch) = self.watch
            && let Some(Notification::Ended(_)) = watch.next().await
            && let Some(row) = self.engine.world().runs.get_run(self.workspace, self.run).await?
            && row.ended_at.is_some()
        {
            return Ok(row);
        }
        self.engine.wait_for_halt(self.workspace, self.run).await
    }
}

impl Engine {
    /// Follows a run. Entries that were written before must be read from the journal.
    pub fn watch(&self, run: RunId) -> Watch {
        self.watch_with(run, false)
    }

    /// Follows a run, for its end only.
    pub(crate) fn watch_end(&self, run: RunId) -> Watch {
        self.watch_with(run, true)
    }

    fn watch_with(&self, run: RunId, only_end: bool) -> Watch {
        let (sender, receiver) = mpsc::unbounded_channel();
        let _ = self.member().tell(run, ToShard::Watch(run, Watcher { sender, only_end }));
        Watch(receiver)
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
        self.wait_until(workspace, run, |row| row.ended_at.is_some()).await
    }

    /// Waits until a run has ended or is paused, and returns its row. A paused run continues only after a request, so
    /// a caller that waits for its end could wait forever.
    pub async fn wait_for_halt(&self, workspace: WorkspaceId, run: RunId) -> Result<RunRow, Error> {
        self.wait_until(workspace, run, |row| row.ended_at.is_some() || row.status == Status::Paused).await
    }

    async fn wait_until(
        &self,
        workspace: WorkspaceId,
        run: RunId,
        is_reached: impl Fn(&RunRow) -> bool,
    ) -> Result<RunRow, Error> {
        loop {
            let mut watch = self.watch_end(run);
            let mut request = FollowRequest::default();
            loop {
                let row = self.world().runs.get_run(workspace, run).await?.ok_or(Error::RunNotFound(run))?;
                if is_reached(&row) {
                    return Ok(row);
                }
                self.follow(&row, &mut request);
                if watch.next().await.is_none() {
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
