//! The updates of a workspace from all nodes, as one sequence of pages.
//!
//! 1. A page has at most one update of a run: the one with the highest seq. A run that moves from one node to another may
//!    have changed on both since the page before.
//! 2. An update that is older than one of the last pages is dropped. Nodes are asked one after the other, and gather an
//!    update some time after its commit, so that the update of a run's next owner may arrive some pages before the last
//!    update of its previous owner.
//! 3. A page has a gap whenever updates may be missing or late: a node has lost updates, has appeared, is gone, or replies
//!    again after a silence.
//! 4. Some pages after a gap, and after the first page, there is another gap. A list that is read after the first one may
//!    be newer than an update that arrives later, and whose successor was lost or was gathered before the first page: the
//!    run would keep the status of that update. The list after the second gap is newer than all of these updates.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use everstep_core::ids::{NodeId, RunId, WorkspaceId};
use everstep_core::planted::{self, Bug};
use futures_util::future;
use serde::{Deserialize, Serialize};

use super::{FeedCursor, FeedPage, StatusUpdate};
use crate::engine::Engine;
use crate::node::peers::{Peer, Question};

/// The path of the question with which a node asks another one for its updates.
pub const FEED_PATH: &str = "/cluster/v1/feed";
/// Pages after which no update arrives that is older than an update of the first of them. A node gathers an update at most
/// a second after its commit, a page is read every second, and a node replies within its timeout.
const ORDERED_AFTER_PAGES: usize = 3;
/// A node that does not reply in this time is silent.
const PEER_TIMEOUT: Duration = Duration::from_millis(800);

/// Reads the updates of a workspace from all nodes, page by page.
pub struct WorkspaceFeed {
    workspace: WorkspaceId,
    /// The position in the updates of this node.
    own: Option<FeedCursor>,
    /// The position in the updates of each other node.
    cursors: BTreeMap<NodeId, FeedCursor>,
    /// Nodes that did not reply to the last question.
    silent: BTreeSet<NodeId>,
    /// The seqs of the updates of the last pages.
    reported: VecDeque<BTreeMap<RunId, u64>>,
    /// The number of pages up to the second gap, if one is due.
    second_gap_in: Option<usize>,
    is_first: bool,
}

/// The updates of all nodes since the page before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkspacePage {
    pub updates: Vec<StatusUpdate>,
    /// Whether updates may be missing: the list of runs has the statuses.
    pub has_gap: bool,
    /// Nodes that have not replied. Their updates are late.
    pub silent: Vec<NodeId>,
}

#[derive(Serialize, Deserialize)]
struct FeedQuestion {
    after: Option<FeedCursor>,
}

impl WorkspaceFeed {
    /// The updates begin with the first read, which returns none.
    pub fn new(workspace: WorkspaceId) -> Self {
        Self {
            workspace,
            own: None,
            cursors: BTreeMap::new(),
            silent: BTreeSet::new(),
            reported: VecDeque::new(),
            second_gap_in: Some(ORDERED_AFTER_PAGES),
            is_first: true,
        }
    }

    /// Reads the updates since the last read.
    pub async fn read(&mut self, engine: &Engine) -> WorkspacePage {
        let own = engine.status_updates(self.workspace, self.own);
        self.own = Some(own.cursor);
        let mut page = WorkspacePage { updates: own.updates, has_gap: own.has_gap, silent: Vec::new() };
        match engine.peers().await {
            Ok(peers) => self.read_peers(engine, &peers, &mut page).await,
            // Which nodes exist is not known, so that updates may be missing.
            Err(_) => page.has_gap = true,
        }
        self.is_first = false;
        page.updates = self.latest(page.updates);
        page.has_gap |= self.second_gap(page.has_gap);
        page.has_gap &= !planted::is_planted(Bug::FeedForgetsAGap);
        page
    }

    async fn read_peers(&mut self, engine: &Engine, peers: &[Peer], page: &mut WorkspacePage) {
        let answers = future::join_all(peers.iter().map(|peer| self.ask(engine, peer))).await;
        for (peer, answer) in peers.iter().zip(answers) {
            let Some(answer) = answer else {
                page.silent.push(peer.id);
                continue;
            };
            let is_known = self.cursors.insert(peer.id, answer.cursor).is_some();
            // Runs of a node that has just appeared may have changed before the first question.
            let has_appeared = !is_known && !self.is_first;
            page.has_gap |= answer.has_gap || has_appeared || self.silent.contains(&peer.id);
            page.updates.extend(answer.updates);
        }
        self.silent = page.silent.iter().copied().collect();
        let known = self.cursors.len();
        self.cursors.retain(|node, _| peers.iter().any(|peer| peer.id == *node));
        // The last updates of a node that is gone were not received.
        page.has_gap |= self.cursors.len() < known;
    }

    async fn ask(&self, engine: &Engine, peer: &Peer) -> Option<FeedPage> {
        let question = FeedQuestion { after: self.cursors.get(&peer.id).copied() };
        let body = serde_json::to_vec(&question).expect("a question is plain data");
        let question = Question { path: FEED_PATH, workspace: self.workspace, body, patience: PEER_TIMEOUT };
        match engine.world().peers.ask(peer, question).await {
            Ok((200, body)) => serde_json::from_slice(&body).ok(),
            Ok(_) | Err(_) => None,
        }
    }

    /// Whether a second gap is due in a page.
    fn second_gap(&mut self, has_gap: bool) -> bool {
        self.second_gap_in = match self.second_gap_in {
            _ if has_gap => Some(ORDERED_AFTER_PAGES),
            Some(0) => {
                self.second_gap_in = None;
                return true;
            }
            Some(pages) => Some(pages - 1),
            None => None,
        };
        false
    }

    /// The last update of each run, without those that are older than one of the last pages.
    fn latest(&mut self, updates: Vec<StatusUpdate>) -> Vec<StatusUpdate> {
        let mut latest: BTreeMap<RunId, StatusUpdate> = BTreeMap::new();
        for update in updates {
            let reported = self.reported.iter().filter_map(|page| page.get(&update.run)).copied().max();
            let newest = latest.get(&update.run).map(|known| known.seq).max(reported);
            if newest.is_none_or(|newest| newest <= update.seq) {
                latest.insert(update.run, update);
            }
        }
        self.reported.push_back(latest.values().map(|update| (update.run, update.seq)).collect());
        if self.reported.len() > ORDERED_AFTER_PAGES {
            self.reported.pop_front();
        }
        latest.into_values().collect()
    }
}

impl Engine {
    /// Answers the question of another node's [`WorkspaceFeed`].
    pub fn answer_feed(&self, workspace: WorkspaceId, body: &[u8]) -> Result<Vec<u8>, serde_json::Error> {
        let FeedQuestion { after } = serde_json::from_slice(body)?;
        serde_json::to_vec(&self.status_updates(workspace, after))
    }
}

#[cfg(test)]
mod tests {
    use everstep_core::status::Status;
    use everstep_core::time::Timestamp;

    use super::*;

    fn update(status: Status, seq: u64) -> StatusUpdate {
        let (run, created_at) = (RunId::new(Timestamp::EPOCH, 1), Timestamp::EPOCH);
        StatusUpdate { run, workflow: "w".to_owned(), status, created_at, ended_at: None, seq }
    }

    #[test]
    fn the_last_update_of_a_run_wins_whichever_node_is_asked_first() {
        let (waiting, completed) = (update(Status::Waiting, 4), update(Status::Completed, 6));
        for updates in [[waiting.clone(), completed.clone()], [completed.clone(), waiting.clone()]] {
            let mut feed = WorkspaceFeed::new(WorkspaceId::DEFAULT);
            assert_eq!(feed.latest(updates.to_vec()), std::slice::from_ref(&completed));
            assert_eq!(feed.latest(vec![waiting.clone()]), [], "the previous owner is asked again, and is late");
            assert_eq!(feed.latest(vec![update(Status::Running, 8)]).len(), 1, "a retry is later");
        }
    }

    #[test]
    fn a_gap_is_repeated_when_no_older_update_can_arrive() {
        let mut feed = WorkspaceFeed::new(WorkspaceId::DEFAULT);
        let mut gaps = |pages: &[bool]| pages.iter().map(|has_gap| feed.second_gap(*has_gap)).collect::<Vec<_>>();
        assert_eq!(gaps(&[false; 6]), [false, false, false, true, false, false], "after the first page");
        assert_eq!(
            gaps(&[true, false, true, false, false, false, false]),
            [false, false, false, false, false, false, true]
        );
    }
}
