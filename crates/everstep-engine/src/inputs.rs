//! Inputs of runs: from a caller, through nodes, to the shard of the run.

use std::sync::{Arc, OnceLock};

use everstep_core::ids::{NodeId, RunId, WorkspaceId};
use everstep_core::run::{Input, Reply};
use everstep_core::workflow::Workflow;
use everstep_store::RunGlance;
use tokio::sync::oneshot;

use crate::engine::Engine;
use crate::error::Error;
use crate::hold::Hold;
use crate::message::ToClaimer;
use crate::node::peers::{Hint, Peer, RunInput};
use crate::requests;
use crate::run::{Envelope, ReplyTo};
use crate::shard::{Presence, ToShard};
use crate::watch::Notification;

/// The number of times that an input follows a run that moves from node to node.
const MOVES_MAX: usize = 3;

/// The place of a run, as an input that arrives at this node finds it.
pub(crate) enum RunLocation {
    /// In the memory of this node, or in a database that no other node uses: the shard of this node decides. With the
    /// workflow, if it is known.
    Here(Option<Arc<Workflow>>),
    /// In the database, and perhaps in the memory of the owner that its row names.
    Stored(RunGlance),
}

impl Engine {
    /// Sends an input to the node that owns its run, and replies after the commit. Requests to a machine are checked
    /// before and sent again: see [`crate::requests`].
    pub async fn route(&self, mut input: RunInput) -> Result<Reply, Error> {
        if requests::is_request(&input.input) {
            return self.request(input).await.reply;
        }
        match self.locate(&input).await? {
            RunLocation::Here(_) => self.route_to(None, &mut input).await,
            RunLocation::Stored(glance) => self.route_to(glance.owner, &mut input).await,
        }
    }

    /// Sends an input to the owner of its run; without one, to the shard of this node. A request keeps the version that
    /// it has got on the way.
    pub(crate) async fn route_to(&self, owner: Option<NodeId>, input: &mut RunInput) -> Result<Reply, Error> {
        let owner = owner.filter(|owner| *owner != self.node());
        let mut answer = match owner {
            Some(owner) => Err(Error::Elsewhere(owner)),
            None => self.receive_here(input).await,
        };
        // A run may move while an input follows it.
        for _ in 0..MOVES_MAX {
            let Err(Error::Elsewhere(owner)) = answer else { return answer };
            self.see_version(input).await?;
            let peer = self.peer(owner).await?.ok_or(Error::Unreachable(owner))?;
            answer = self.world().peers.send(&peer, input.clone()).await;
            if let Err(Error::Elsewhere(_)) = answer {
                answer = self.receive_here(input).await;
            }
        }
        answer
    }

    /// Accepts an input of this node. If its shard gives it a version, the input has it from then on.
    async fn receive_here(&self, input: &mut RunInput) -> Result<Reply, Error> {
        if !requests::lacks_version(&input.input) {
            return self.receive(input.clone()).await;
        }
        let seen = Arc::new(OnceLock::new());
        let answer = self.receive_noting(input.clone(), Some(Arc::clone(&seen))).await;
        requests::fill_version(&mut input.input, seen.get().copied());
        answer
    }

    /// Finds the run of an input, without loading it.
    pub(crate) async fn locate(&self, input: &RunInput) -> Result<RunLocation, Error> {
        if !self.world().runs.is_shared() {
            return Ok(RunLocation::Here(None));
        }
        let (reply, answer) = oneshot::channel();
        self.member().tell(input.run, ToShard::Find(input.run, input.workspace, reply))?;
        match answer.await.unwrap_or(Presence::Absent) {
            Presence::Present(workflow) => Ok(RunLocation::Here(workflow)),
            Presence::Absent => Ok(RunLocation::Stored(self.runs().glance(input.workspace, input.run).await?)),
        }
    }

    /// Accepts an input that another node has sent, for a run that this node owns or that no node owns.
    pub async fn receive(&self, input: RunInput) -> Result<Reply, Error> {
        self.receive_noting(input, None).await
    }

    async fn receive_noting(&self, input: RunInput, seen_version: Option<Arc<OnceLock<u32>>>) -> Result<Reply, Error> {
        let RunInput { workspace, run, input, expected, key, audit } = input;
        let workspace = Some(workspace);
        self.post(run, Envelope { expected, key, workspace, audit, seen_version, ..Envelope::new(input) }).await
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

    /// Sends an input to the shard of its run. A pause or a resumption of a run that has not begun is not the shard's.
    async fn post(&self, run: RunId, envelope: Envelope) -> Result<Reply, Error> {
        let Some(hold) = Hold::from_envelope(&envelope) else {
            return self.post_once(run, envelope).await;
        };
        for _ in 0..MOVES_MAX {
            match self.post_once(run, envelope.repeat()).await {
                Err(Error::NotBegun(_)) => {}
                answer => return answer,
            }
            if let Some(reply) = self.hold_start(run, &hold).await? {
                return Ok(reply);
            }
        }
        Err(Error::Busy(format!("run {run} is about to begin; try again")))
    }

    async fn post_once(&self, run: RunId, envelope: Envelope) -> Result<Reply, Error> {
        // Only tests send inputs without a workspace.
        let _place = self.pending(envelope.workspace.unwrap_or(WorkspaceId::DEFAULT)).await?;
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
