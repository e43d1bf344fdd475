//! Inputs of runs: from a caller, through nodes, to the shard of the run.

use everstep_core::ids::{NodeId, RunId};
use everstep_core::run::{Input, Reply};
use everstep_store::RunGlance;
use tokio::sync::oneshot;

use crate::engine::Engine;
use crate::error::Error;
use crate::message::ToClaimer;
use crate::node::peers::{Hint, Peer, RunInput};
use crate::requests;
use crate::run::{Envelope, ReplyTo};
use crate::shard::ToShard;
use crate::watch::Notification;

/// The number of times that an input follows a run that moves from node to node.
const MOVES_MAX: usize = 3;

impl Engine {
    /// Sends an input to the node that owns its run, and replies after the commit. Requests to a machine are checked
    /// before and sent again: see [`crate::requests`].
    pub async fn route(&self, input: RunInput) -> Result<Reply, Error> {
        if requests::is_request(&input.input) {
            return self.route_request(input).await;
        }
        let glance = self.glance_elsewhere(&input).await?;
        self.route_by(glance.as_ref(), &input).await
    }

    /// Sends an input to the owner that the run's row names; without a row, to the shard of this node.
    pub(crate) async fn route_by(&self, glance: Option<&RunGlance>, input: &RunInput) -> Result<Reply, Error> {
        let owner = glance.and_then(|glance| glance.owner).filter(|owner| *owner != self.node());
        let mut answer = match owner {
            Some(owner) => Err(Error::Elsewhere(owner)),
            None => self.receive(input.clone()).await,
        };
        // A run may move while an input follows it.
        for _ in 0..MOVES_MAX {
            let Err(Error::Elsewhere(owner)) = answer else { return answer };
            let peer = self.peer(owner).await?.ok_or(Error::Unreachable(owner))?;
            answer = self.world().peers.send(&peer, input.clone()).await;
            if let Err(Error::Elsewhere(_)) = answer {
                answer = self.receive(input.clone()).await;
            }
        }
        answer
    }

    /// The small columns of a run that another node may own; none if the run is in memory here, or no other node uses
    /// the database. The run need not be loaded to find its owner.
    pub(crate) async fn glance_elsewhere(&self, input: &RunInput) -> Result<Option<RunGlance>, Error> {
        let store = &self.world().runs;
        if !store.is_shared() {
            return Ok(None);
        }
        let (reply, answer) = oneshot::channel();
        self.member().tell(input.run, ToShard::Has(input.run, reply))?;
        if answer.await.unwrap_or(false) {
            return Ok(None);
        }
        let glance = store.glance(input.workspace, input.run).await?;
        glance.ok_or(Error::RunNotFound(input.run)).map(Some)
    }

    /// Accepts an input that another node has sent, for a run that this node owns or that no node owns.
    pub async fn receive(&self, input: RunInput) -> Result<Reply, Error> {
        let RunInput { workspace, run, input, expected, key, audit } = input;
        self.post(run, Envelope { expected, key, workspace: Some(workspace), audit, ..Envelope::new(input) }).await
    }

    /// Sends an input to a run that this node owns or that no node owns, and replies after the commit.
    pub async fn send(&self, run: RunId, input: Input) -> Result<Reply, Error> {
        self.send_at(run, input, None).await
    }

    /// Like [`Engine::send`], but only if the run has the expected version. Otherwise the input is rejected as
    /// `CONCURRENCY_ERROR` and nothing is changed.
    pub async fn send_at(&self, run: RunId, input: Input, expected: Option<u64>) -> Result<Reply, Error> {
        self.post(run, Envelope { expected, ..Envelope::new(input) }).await
    }

    async fn post(&self, run: RunId, envelope: Envelope) -> Result<Reply, Error> {
        let _permit = self.pending().await?;
        let (reply, answer) = oneshot::channel();
        let envelope = Envelope { reply_to: ReplyTo::Caller(reply), ..envelope };
        self.member().tell(run, ToShard::Input(run, envelope))?;
        answer.await.map_err(|_| self.unanswered())?
    }

    /// Accepts a hint of another node.
    pub fn hinted(&self, hint: Hint) {
        let member = self.member();
        // A loop that has ended needs no hint.
        let _ = match hint {
            Hint::Inbox => member.claimer.send(ToClaimer::Inbox).map_err(|_| Error::Stopping),
            Hint::Work => member.claimer.send(ToClaimer::Room).map_err(|_| Error::Stopping),
            Hint::Watch { run, by } => member.tell(run, ToShard::Follow(run, by)),
            Hint::Written { run, seq } => member.tell(run, ToShard::Notify(run, Notification::Written(seq))),
            Hint::Ended { run, seq } => member.tell(run, ToShard::Notify(run, Notification::Ended(seq))),
        };
    }

    /// Requests a read of the inbox.
    pub fn hint_inbox(&self) {
        self.hinted(Hint::Inbox);
    }

    /// The other nodes that may be alive.
    pub async fn peers(&self) -> Result<Vec<Peer>, Error> {
        if !self.world().runs.is_shared() {
            return Ok(Vec::new());
        }
        let member = self.member();
        let nodes = self.world().runs.nodes().await?;
        member.shared.see_peers(member.node, &nodes);
        Ok(member.shared.peers())
    }

    /// Another node that was alive at the last tick.
    pub fn known_peer(&self, node: NodeId) -> Option<Peer> {
        self.member().shared.peer(node)
    }

    /// Another node, if it may be alive.
    pub async fn peer(&self, node: NodeId) -> Result<Option<Peer>, Error> {
        let member = self.member();
        if let Some(peer) = member.shared.peer(node) {
            return Ok(Some(peer));
        }
        // It may have joined since the last tick.
        let nodes = self.world().runs.nodes().await?;
        member.shared.see_peers(member.node, &nodes);
        Ok(member.shared.peer(node))
    }
}
