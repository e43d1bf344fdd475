//! Live streams of runs. A follower receives the run as it is, then every later entry of its journal, in order and once,
//! whichever node writes it. The engine's `Follower` reads them.
//!
//! * `feed` is the run as it is when a follower joins it.
//! * `pass` checks the follower's permission while the stream lasts; `slots` bounds the number of followers.
//! * `sse` and `socketio` are the two transports.

mod feed;
mod pass;
mod routes;
mod slots;
mod socketio;
mod sse;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, watch};

pub(crate) use self::pass::KEY_CHECK_INTERVAL;
pub(crate) use self::routes::add;
use self::slots::Slots;
pub use self::slots::Streams;
use self::socketio::Polls;
use crate::workers::list::RemoteWorkers;

/// The shared state of all streams of a node: their slots, their heartbeat and their end.
pub struct StreamHub {
    slots: Arc<Slots>,
    heartbeat: Duration,
    /// Bounds the runs that are loaded at the same time.
    loads: Semaphore,
    polls: Polls,
    is_stopping: watch::Sender<bool>,
    /// Which workflows the workers of other nodes serve.
    pub(crate) elsewhere: RemoteWorkers,
}

const CONCURRENT_LOADS: usize = 4;

impl StreamHub {
    pub fn new(streams: Streams) -> Self {
        Self {
            slots: Arc::new(Slots::new(streams)),
            heartbeat: streams.heartbeat,
            loads: Semaphore::new(CONCURRENT_LOADS),
            polls: Polls::default(),
            is_stopping: watch::Sender::new(false),
            elsewhere: RemoteWorkers::default(),
        }
    }

    /// Ends all streams at once: their readers continue at another node.
    pub(crate) fn stop(&self) {
        self.is_stopping.send_replace(true);
    }

    /// Waits until the server stops.
    pub(crate) async fn stopped(&self) {
        let mut is_stopping = self.is_stopping.subscribe();
        // The sender lives as long as this value.
        let _ = is_stopping.wait_for(|is_stopping| *is_stopping).await;
    }
}
