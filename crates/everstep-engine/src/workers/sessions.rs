//! Worker-session methods of [`Engine`], used by the transport layer.

use std::sync::Arc;
use std::time::Duration;

use everstep_core::ids::WorkspaceId;

use super::lanes::lane_of;
use super::registry::WorkerInfo;
use super::session::{Hello, Session};
use super::session_id::SessionId;
use super::turns::WorkerReport;
use crate::engine::Engine;
use crate::error::Error;
use crate::shard::{ToShard, shard_of};

/// The maximum number of workflows that one worker serves.
const WORKFLOWS_PER_WORKER_MAX: usize = 1_000;

impl Engine {
    /// Opens a session for a worker, and registers the workflows that it serves.
    pub async fn open_session(&self, mut hello: Hello) -> Result<Arc<Session>, Error> {
        if hello.workflows.is_empty() || hello.workflows.len() > WORKFLOWS_PER_WORKER_MAX {
            // The transport layer refuses them before.
            return Err(Error::Invalid(format!("a worker serves 1 to {WORKFLOWS_PER_WORKER_MAX} workflows")));
        }
        // A worker that is rejected registers no workflows.
        self.member().workers.check_room(hello.workspace)?;
        self.library().register(hello.workspace, &hello.workflows).await?;
        for served in &mut hello.workflows {
            // The library has them now.
            served.input_schema = None;
            served.triggers = Vec::new();
            served.index = Vec::new();
        }
        self.member().workers.open(hello)
    }

    /// A session of this node, unless it has ended.
    pub fn session(&self, workspace: WorkspaceId, id: SessionId) -> Option<Arc<Session>> {
        self.member().workers.find(workspace, id)
    }

    /// Attaches a new carrier to a session. Returns the carrier's number.
    pub fn attach(&self, session: &Session) -> u64 {
        self.member().workers.attach(session)
    }

    /// Renews the lease of a worker: bytes have arrived from it.
    pub fn heard(&self, session: &Session) {
        self.member().workers.heard(session);
    }

    /// Accepts reports of a worker. A message replies to each, after its commit.
    pub fn report(&self, session: &Arc<Session>, reports: Vec<WorkerReport>) {
        let member = self.member();
        session.expect(reports.iter().map(|report| report.n));
        let shards = member.shards.len();
        if shards == 1 {
            let _ = member.shards[0].send(ToShard::Reports(Arc::clone(session), reports));
            return;
        }
        let mut by_shard: Vec<Vec<_>> = (0..shards).map(|_| Vec::new()).collect();
        for report in reports {
            by_shard[shard_of(report.run, shards)].push(report);
        }
        for (shard, reports) in member.shards.iter().zip(by_shard).filter(|(_, reports)| !reports.is_empty()) {
            let _ = shard.send(ToShard::Reports(Arc::clone(session), reports));
        }
    }

    /// Sets the number of runs that a worker executes at the same time. With 0 it receives no more runs.
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
