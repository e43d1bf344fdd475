//! Looks after the runs that somebody follows here: one watch and one look for all who follow the same run.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use everstep_core::ids::{RunId, WorkspaceId};
use everstep_engine::{Engine, News, Watch};
use tokio::sync::watch;

/// Another node says for ten seconds how a run of its goes on; then it must have been asked again.
const RENEWED: Duration = Duration::from_secs(4);
/// How long to wait before a watch that has ended is begun again.
const PAUSE: Duration = Duration::from_millis(100);

pub(crate) struct Hub {
    engine: Engine,
    followed: Mutex<HashMap<RunId, watch::Sender<Seen>>>,
}

/// How far a run is known to have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// The seq of its last entry.
    pub(crate) seq: u64,
    pub(crate) stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    GoesOn,
    Ended,
    /// The run was deleted.
    Gone,
}

impl Hub {
    pub(crate) fn new(engine: Engine) -> Self {
        Self { engine, followed: Mutex::default() }
    }

    /// Says how far a run has come from now on. `seen` is what its follower knows already: others may have stopped
    /// looking when the run ended, and it may have been tried again.
    pub(crate) fn follow(self: &Arc<Self>, workspace: WorkspaceId, run: RunId, seen: Seen) -> watch::Receiver<Seen> {
        let mut followed = self.followed();
        if let Some(sender) = followed.get(&run) {
            tell(sender, seen);
            return sender.subscribe();
        }
        let (sender, receiver) = watch::channel(seen);
        followed.insert(run, sender.clone());
        drop(followed);
        tokio::spawn(Arc::clone(self).tend(workspace, run, sender));
        receiver
    }

    /// Keeps the followers of one run up to date until nobody follows it.
    async fn tend(self: Arc<Self>, workspace: WorkspaceId, run: RunId, sender: watch::Sender<Seen>) {
        let mut watch = self.engine.watch(run);
        loop {
            self.look(workspace, run, &sender).await;
            let ended = tokio::select! {
                () = sender.closed() => {
                    if self.forget(run, &sender) {
                        return;
                    }
                    false
                }
                ended = listen(&mut watch, &sender) => ended,
                () = tokio::time::sleep(RENEWED) => false,
            };
            if ended {
                // The run has ended, or this node joins anew. What is written meanwhile is seen by the next look.
                tokio::time::sleep(PAUSE).await;
                watch = self.engine.watch(run);
            }
        }
    }

    /// Reads where the run is, and asks its owner to say when it goes on.
    async fn look(&self, workspace: WorkspaceId, run: RunId, sender: &watch::Sender<Seen>) {
        match self.engine.world().runs.get_run(workspace, run).await {
            Ok(Some(row)) => {
                self.engine.follow(&row);
                let stage = if row.ended_at.is_some() { Stage::Ended } else { Stage::GoesOn };
                tell(sender, Seen { seq: row.seq, stage });
            }
            Ok(None) => tell(sender, Seen { seq: u64::MAX, stage: Stage::Gone }),
            // The followers wait; the next look is soon.
            Err(error) => tracing::debug!(%run, %error, "a run that is followed could not be looked at"),
        }
    }

    /// Forgets a run, unless somebody has begun to follow it just now.
    fn forget(&self, run: RunId, sender: &watch::Sender<Seen>) -> bool {
        let mut followed = self.followed();
        let is_alone = sender.receiver_count() == 0;
        if is_alone {
            followed.remove(&run);
        }
        is_alone
    }

    fn followed(&self) -> MutexGuard<'_, HashMap<RunId, watch::Sender<Seen>>> {
        self.followed.lock().expect("no holder of the lock panics")
    }
}

/// Passes news on until the run must be looked at. True when there will be no more.
async fn listen(watch: &mut Watch, sender: &watch::Sender<Seen>) -> bool {
    loop {
        match watch.next().await {
            Some(News::Written(seq)) => tell(sender, Seen { seq, stage: Stage::GoesOn }),
            Some(News::Ended(seq)) => tell(sender, Seen { seq, stage: Stage::Ended }),
            Some(News::Look) => return false,
            None => return true,
        }
    }
}

/// Old news changes nothing: a look and a word from the owner may overtake each other.
fn tell(sender: &watch::Sender<Seen>, seen: Seen) {
    sender.send_if_modified(|before| {
        let is_end = before.stage == Stage::GoesOn && seen.stage != Stage::GoesOn;
        let is_new = before.seq < seen.seq || before.seq == seen.seq && is_end;
        if is_new {
            *before = seen;
        }
        is_new
    });
}
