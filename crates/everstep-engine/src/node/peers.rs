//! The port to other nodes. Without it the engine is correct, and slower.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use everstep_core::ids::{NodeId, RunId, WorkspaceId};
use everstep_core::run::{Input, Reply};
use everstep_store::AuditRow;
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// Sends inputs, hints and questions from one node to another.
#[async_trait]
pub trait Peers: Send + Sync {
    /// Makes another node decide an input, and returns its reply.
    ///
    /// [`Error::Unreachable`] promises that nothing was written; [`Error::OutcomeUnknown`] promises nothing.
    async fn send(&self, peer: &Peer, input: RunInput) -> Result<Reply, Error>;

    /// Notifies another node of a fact that it would find in its next tick. May be lost.
    fn hint(&self, peer: &Peer, hint: Hint);

    /// Sends a question to the API of another node, and returns the status and the body of the answer. The engine
    /// itself sends no questions.
    async fn ask(&self, peer: &Peer, _: Question) -> Result<(u16, Vec<u8>), Error> {
        Err(Error::Unreachable(peer.id))
    }
}

/// A question of one node to another, on behalf of a caller.
#[derive(Clone, Debug)]
pub struct Question {
    pub path: &'static str,
    /// The workspace of the caller.
    pub workspace: WorkspaceId,
    pub body: Vec<u8>,
    /// The time limit of the answer.
    pub patience: Duration,
}

/// Another node, and its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    pub id: NodeId,
    pub address: String,
}

/// An input on its way to the node that decides it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunInput {
    pub workspace: WorkspaceId,
    pub run: RunId,
    pub input: Input,
    /// The version that the run must have for the input to be accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<u64>,
    /// The idempotency key of a signal or control.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The row of the audit that exists with the entry that the input writes. It is written if
    /// [`Reply::is_recorded`] is true for the reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<Arc<AuditRow>>,
}

impl RunInput {
    /// An input without conditions.
    pub fn new(workspace: WorkspaceId, run: RunId, input: Input) -> Self {
        Self { workspace, run, input, expected: None, key: None, audit: None }
    }
}

/// A notification from one node to another that needs no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Hint {
    /// The inbox has a row for a run that the receiver owns.
    Inbox,
    /// There are runs to claim.
    Work,
    /// A caller at this node follows a run that the receiver owns, or that no node owns: notify this node when the
    /// receiver continues the run.
    Watch { run: RunId, by: NodeId },
    /// A run that the receiver follows has an entry with this seq.
    Written { run: RunId, seq: u64 },
    /// A run that the receiver follows has ended.
    Ended { run: RunId, seq: u64 },
}

/// The peers of a node without peers.
pub struct NoPeers;

#[async_trait]
impl Peers for NoPeers {
    async fn send(&self, peer: &Peer, _: RunInput) -> Result<Reply, Error> {
        Err(Error::Unreachable(peer.id))
    }

    fn hint(&self, _: &Peer, _: Hint) {}
}

#[cfg(test)]
mod tests {
    use everstep_core::actor::Actor;
    use everstep_core::payload::Payload;
    use everstep_core::time::Timestamp;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_input_has_its_audit_row_also_on_another_node() {
        let run = RunId::new(Timestamp::EPOCH, 1);
        let row = AuditRow {
            id: run.uuid(),
            workspace: WorkspaceId::DEFAULT,
            at: Timestamp::EPOCH,
            actor: Actor::key("1"),
            action: "POST /v1/runs/{id}/cancel".to_owned(),
            target: "/v1/runs/1/cancel".to_owned(),
            details: Payload::from(json!({"status": 200})),
        };
        let cancel = RunInput::new(WorkspaceId::DEFAULT, run, Input::Cancel { reason: None });
        for input in [RunInput { audit: Some(Arc::new(row)), ..cancel.clone() }, cancel] {
            let sent = serde_json::to_vec(&input).expect("an input is plain data");
            assert_eq!(serde_json::from_slice::<RunInput>(&sent).expect("it is an input"), input);
        }
    }
}
