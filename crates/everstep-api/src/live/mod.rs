//! Runs as they go. Whoever follows one is shown how it stands, then everything that its journal gains, in order and
//! once, whichever node writes it.
//!
//! * `hub` looks after the runs that are followed here; news of them only wakes the readers.
//! * `feed` reads a journal on, page by page, as fast as its reader takes it.
//! * `fold` keeps what the entries so far add up to: the status and the context.
//! * `pass` and `slots` say who may follow, and how many.
//! * `sse` and `socket` are the two ways to follow.

mod feed;
mod fold;
mod hub;
mod pass;
mod slots;
pub(crate) mod socket;
pub(crate) mod sse;

use std::sync::Arc;
use std::time::Duration;

use everstep_core::ids::{RunId, WorkspaceId};
use everstep_engine::Engine;
use tokio::sync::{Semaphore, watch};

use self::feed::Feed;
use self::fold::Snapshot;
use self::hub::{Hub, Seen, Stage};
pub(crate) use self::pass::LOOKED_AT;
use self::slots::Slots;
pub use self::slots::Streams;
use self::socket::Polls;
use crate::worker::list::RemoteWorkers;

/// What all followers at one node share.
pub struct Live {
    engine: Engine,
    hub: Arc<Hub>,
    slots: Arc<Slots>,
    heartbeat: Duration,
    /// Bounds the runs that are read whole at once.
    loads: Semaphore,
    polls: Polls,
    is_stopping: watch::Sender<bool>,
    /// Which workflows the workers of other nodes serve.
    pub(crate) elsewhere: RemoteWorkers,
}

const LOADS: usize = 4;

impl Live {
    pub fn new(engine: Engine, streams: Streams) -> Self {
        let (hub, slots) = (Arc::new(Hub::new(engine.clone())), Arc::new(Slots::new(streams)));
        Self {
            engine,
            hub,
            slots,
            heartbeat: streams.heartbeat,
            loads: Semaphore::new(LOADS),
            polls: Polls::default(),
            is_stopping: watch::Sender::new(false),
            elsewhere: RemoteWorkers::default(),
        }
    }

    /// Ends all streams at once: their readers go on at another node.
    pub(crate) fn stop(&self) {
        self.is_stopping.send_replace(true);
    }

    /// Waits until it is time to stop.
    pub(crate) async fn stopped(&self) {
        let mut is_stopping = self.is_stopping.subscribe();
        // The sender lives as long as this value.
        let _ = is_stopping.wait_for(|is_stopping| *is_stopping).await;
    }

    /// Everything after `after` in the journal of a run that its reader has seen so far.
    fn feed(&self, workspace: WorkspaceId, run: RunId, snapshot: &Snapshot, after: u64) -> Feed {
        let stage = if snapshot.fold.status().has_ended() { Stage::Ended } else { Stage::GoesOn };
        let seen = self.hub.follow(workspace, run, Seen { seq: snapshot.seq, stage });
        Feed::new(&self.engine, seen, run, after)
    }
}
