//! What whoever speaks with workers asks of the engine.

use std::sync::Arc;
use std::time::Duration;

use everstep_core::ids::WorkspaceId;

use super::lanes::lane_of;
use super::seats::WorkerInfo;
use super::session::{Hello, Session, SessionId};
use super::turns::WorkerReport;
use crate::engine::Engine;
use crate::error::Error;
use crate::message::ToShard;
use crate::shard::shard_of;

/// Workflows that one worker serves.
const MOST_WORKFLOWS: usize = 1_000;

impl Engine {
    /// Opens a session for a worker, and registers what it serves.
    pub async fn open_session(&self, hello: Hello) -> Result<Arc<Session>, Error> {
        if hello.workflows.is_empty() || hello.workflows.len() > MOST_WORKFLOWS {
            return Err(Error::Invalid(format!("a worker serves 1 to {MOST_WORKFLOWS} workflows")));
        }
        // Whoever is refused registers nothing.
        self.member().workers.check_room(hello.workspace)?;
        self.library().register(hello.workspace, &hello.workflows).await?;
        self.member().workers.open(hello)
    }

    /// A session of this node. `None`: there is none any more.
    pub fn session(&self, workspace: WorkspaceId, id: SessionId) -> Option<Arc<Session>> {
        self.member().workers.find(workspace, id)
    }

    /// Somebody carries a session from now on. Returns its number.
    pub fn attach(&self, session: &Session) -> u64 {
        self.member().workers.attach(session)
    }

    /// Bytes came from a worker: its lease runs anew.
    pub fn heard(&self, session: &Session) {
        self.member().workers.heard(session);
    }

    /// Takes what a worker says. Each report is answered by a letter, after its commit.
    pub fn report(&self, session: &Arc<Session>, reports: Vec<WorkerReport>) {
        let member = self.member();
        session.expect(reports.iter().map(|reported| reported.n));
        let shards = member.shards.len();
        if shards == 1 {
            let _ = member.shards[0].send(ToShard::Reports(Arc::clone(session), reports));
            return;
        }
        let mut by_shard: Vec<Vec<_>> = (0..shards).map(|_| Vec::new()).collect();
        for reported in reports {
            by_shard[shard_of(reported.run, shards)].push(reported);
        }
        for (shard, reports) in member.shards.iter().zip(by_shard).filter(|(_, reports)| !reports.is_empty()) {
            let _ = shard.send(ToShard::Reports(Arc::clone(session), reports));
        }
    }

    /// How many runs a worker takes at once from now on. With 0 it gets no more.
    pub fn set_capacity(&self, session: &Session, capacity: usize) {
        self.member().workers.set_capacity(session, capacity);
    }

    /// A worker leaves in order.
    pub fn close_session(&self, session: &Session) {
        self.member().workers.close(session);
    }

    /// The workers of this node.
    pub fn workers(&self, workspace: WorkspaceId) -> Vec<WorkerInfo> {
        self.member().workers.list(workspace)
    }

    /// Whether a worker of this node serves a version of a workflow.
    pub fn is_served(&self, workspace: WorkspaceId, workflow: &str, version: u32) -> bool {
        self.member().workers.is_served(&lane_of(workspace, workflow, version))
    }

    pub fn worker_lease(&self) -> Duration {
        self.options().worker_lease
    }
}
