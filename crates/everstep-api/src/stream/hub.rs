//! The shared state of a node's streams.

use std::sync::Arc;
use std::time::Duration;

use everstep_core::ids::WorkspaceId;
use tokio::sync::{Semaphore, watch};

use super::slots::{Slots, Streams};
use super::socketio::Polls;
use super::workspace::WorkspaceFeeds;
use crate::workers::list::RemoteWorkers;

/// The shared state of all streams of a node: their slots, their heartbeat and their end.
pub struct StreamHub {
    pub(crate) slots: Arc<Slots>,
    pub(super) heartbeat: Duration,
    pub(super) ping_interval: Duration,
    pub(super) pong_timeout: Duration,
    /// Bounds the runs that are loaded at the same time.
    pub(super) loads: Semaphore,
    pub(super) polls: Polls,
    /// The followed workspaces.
    pub(super) workspaces: Arc<WorkspaceFeeds>,
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
            ping_interval: streams.ping_interval,
            pong_timeout: streams.pong_timeout,
            loads: Semaphore::new(CONCURRENT_LOADS),
            polls: Polls::default(),
            workspaces: Arc::default(),
            is_stopping: watch::Sender::new(false),
            elsewhere: RemoteWorkers::default(),
        }
    }

    /// The streams of a workspace at this node, and how many it may have.
    pub(crate) fn streams_of(&self, workspace: WorkspaceId) -> (usize, usize) {
        self.slots.use_of(workspace)
    }

    /// Ends all streams at once: their readers continue at another node.
    pub(crate) fn stop(&self) {
        self.is_stopping.send_replace(true);
    }

    /// Waits until the server stops.
    pub(crate) async fn stopped(&self) {
        let mut is_stopping = self.is_stopping.subscribe();
        // The sender exists as long as this value.
        let _ = is_stopping.wait_for(|is_stopping| *is_stopping).await;
    }
}
