//! The runs that are followed at this node: one watch and one periodic read per run, shared by all its followers.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use everstep_core::ids::{RunId, WorkspaceId};
use everstep_store::RunRow;
use futures_util::future::{self, Either};
use tokio::sync::watch;

use crate::engine::Engine;
use crate::error::Error;
use crate::watch::{FollowRequest, Notification, RENEW_AFTER, Watch};

/// The pause before a watch that has ended is replaced.
const WATCH_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// The followed runs of a node.
#[derive(Default)]
pub(crate) struct FollowedRuns(Mutex<HashMap<RunId, watch::Sender<RunHead>>>);

/// The known progress of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunHead {
    /// The seq of its last entry.
    pub(crate) seq: u64,
    pub(crate) stage: RunStage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunStage {
    Open,
    Ended,
    Deleted,
}

impl FollowedRuns {
    /// Reports the progress of a run from now on. `head` is the progress that the follower knows: other followers may
    /// have seen the run end, and it may have been retried since.
    pub(crate) fn follow(
        &self,
        engine: &Engine,
        workspace: WorkspaceId,
        run: RunId,
        head: RunHead,
    ) -> watch::Receiver<RunHead> {
        let mut followed = self.lock();
        if let Some(sender) = followed.get(&run) {
            publish(sender, head);
            return sender.subscribe();
        }
        let (sender, receiver) = watch::channel(head);
        followed.insert(run, sender.clone());
        drop(followed);
        engine.world().spawn.spawn(Box::pin(keep(engine.clone(), workspace, run, sender)));
        receiver
    }

    /// Removes a run, unless a new follower has subscribed in between.
    fn forget(&self, run: RunId, sender: &watch::Sender<RunHead>) -> bool {
        let mut followed = self.lock();
        let is_unused = sender.receiver_count() == 0;
        if is_unused {
            followed.remove(&run);
        }
        is_unused
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RunId, watch::Sender<RunHead>>> {
        self.0.lock().expect("no holder of the lock panics")
    }
}

/// Keeps the followers of one run up to date until it has none.
async fn keep(engine: Engine, workspace: WorkspaceId, run: RunId, sender: watch::Sender<RunHead>) {
    let mut watch = engine.watch(run);
    let mut request = FollowRequest::default();
    loop {
        if let Some(row) = read_head(&engine, workspace, run, &sender).await {
            engine.follow(&row, &mut request);
        }
        let renew = Box::pin(engine.world().sleep(RENEW_AFTER));
        let listening = Box::pin(listen(&mut watch, &sender));
        let unused = Box::pin(sender.closed());
        let has_ended = match future::select(unused, future::select(listening, renew)).await {
            Either::Left(_) if engine.followed().forget(run, &sender) => return,
            Either::Left(_) => false,
            Either::Right((Either::Left((has_ended, _)), _)) => has_ended,
            Either::Right((Either::Right(_), _)) => false,
        };
        if has_ended {
            // The run has ended, or this node joins again. The next read finds the entries that are written in between.
            engine.world().sleep(WATCH_AGAIN_AFTER).await;
            watch = engine.watch(run);
        }
    }
}

/// Reads the progress of the run, and returns its row.
async fn read_head(
    engine: &Engine,
    workspace: WorkspaceId,
    run: RunId,
    sender: &watch::Sender<RunHead>,
) -> Option<RunRow> {
    match engine.runs().row(workspace, run).await {
        Ok(row) => {
            let stage = if row.ended_at.is_some() { RunStage::Ended } else { RunStage::Open };
            publish(sender, RunHead { seq: row.seq, stage });
            return Some(row);
        }
        Err(Error::RunNotFound(_)) => publish(sender, RunHead { seq: u64::MAX, stage: RunStage::Deleted }),
        // The followers wait; the next read is soon.
        Err(error) => tracing::debug!(%run, %error, "a followed run could not be read"),
    }
    None
}

/// Passes the owner's reports on until the run must be read. True if the watch has ended.
async fn listen(watch: &mut Watch, sender: &watch::Sender<RunHead>) -> bool {
    loop {
        match watch.next().await {
            Some(Notification::Written(seq) | Notification::Paused(seq)) => {
                publish(sender, RunHead { seq, stage: RunStage::Open });
            }
            Some(Notification::Ended(seq)) => publish(sender, RunHead { seq, stage: RunStage::Ended }),
            Some(Notification::Look) => return false,
            None => return true,
        }
    }
}

/// Publishes a head that is newer than the last: a read and a report of the owner may overtake each other.
fn publish(sender: &watch::Sender<RunHead>, head: RunHead) {
    sender.send_if_modified(|before| {
        let is_end = before.stage == RunStage::Open && head.stage != RunStage::Open;
        let is_new = before.seq < head.seq || before.seq == head.seq && is_end;
        if is_new {
            *before = head;
        }
        is_new
    });
}
