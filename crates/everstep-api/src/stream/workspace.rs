//! The runs of a workspace as they change, for all followers of the workspace at this node.
//!
//! 1. One task serves all followers of a workspace. It ends when the last one has left.
//! 2. Once a second it reads the updates of this node, asks the other nodes for theirs, and reads the counts.
//! 3. The feed is a hint. After `many` a follower requests the list again: more runs changed than a message lists, or
//!    updates were lost.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use everstep_core::ids::{NodeId, RunId, WorkspaceId};
use everstep_core::status::Status;
use everstep_engine::{Engine, FeedCursor, FeedPage, Peer, Question, StatusUpdate};
use futures_util::future;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::broadcast;
use tokio::time::{MissedTickBehavior, interval};

use crate::http::problem::Problem;
use crate::http::time::Time;

/// Asks another node for its updates.
pub(crate) const FEED_PATH: &str = "/cluster/v1/feed";
/// The period of messages.
const PERIOD: Duration = Duration::from_secs(1);
/// A node that does not reply in this time is listed as silent.
const PEER_TIMEOUT: Duration = Duration::from_millis(800);
/// Runs of one message.
const RUNS_MAX: usize = 200;
/// Messages that a slow follower may have ahead of it.
const QUEUED_MESSAGES_MAX: usize = 16;

/// The followed workspaces of a node.
#[derive(Default)]
pub(super) struct WorkspaceFeeds(Mutex<HashMap<WorkspaceId, Followed>>);

struct Followed {
    sender: broadcast::Sender<Arc<str>>,
    /// The last message with counts, for a follower that joins.
    counts: Option<Arc<str>>,
}

/// The messages of a workspace for one follower.
pub(super) struct WorkspaceFollower {
    receiver: broadcast::Receiver<Arc<str>>,
    /// The counts as they were when it joined.
    first: Option<Arc<str>>,
}

impl WorkspaceFollower {
    /// The next message, as JSON. Nothing is lost when the future is dropped.
    pub(super) async fn next(&mut self) -> Option<Arc<str>> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        match self.receiver.recv().await {
            Ok(message) => Some(message),
            Err(broadcast::error::RecvError::Lagged(_)) => Some(many()),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

impl WorkspaceFeeds {
    /// Follows a workspace.
    pub(super) fn follow(self: &Arc<Self>, engine: &Engine, workspace: WorkspaceId) -> WorkspaceFollower {
        let mut feeds = self.lock();
        if let Some(followed) = feeds.get(&workspace) {
            return WorkspaceFollower { receiver: followed.sender.subscribe(), first: followed.counts.clone() };
        }
        let (sender, receiver) = broadcast::channel(QUEUED_MESSAGES_MAX);
        feeds.insert(workspace, Followed { sender: sender.clone(), counts: None });
        drop(feeds);
        tokio::spawn(run(Arc::clone(self), engine.clone(), workspace, sender));
        WorkspaceFollower { receiver, first: None }
    }

    /// Removes a workspace, unless a new follower has joined in between.
    fn forget(&self, workspace: WorkspaceId) -> bool {
        let mut feeds = self.lock();
        let is_unused = feeds.get(&workspace).is_none_or(|followed| followed.sender.receiver_count() == 0);
        if is_unused {
            feeds.remove(&workspace);
        }
        is_unused
    }

    fn keep_counts(&self, workspace: WorkspaceId, message: &Arc<str>) {
        if let Some(followed) = self.lock().get_mut(&workspace) {
            followed.counts = Some(Arc::clone(message));
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<WorkspaceId, Followed>> {
        self.0.lock().expect("no holder of the lock panics")
    }
}

/// Serves the followers of a workspace until there is none.
async fn run(feeds: Arc<WorkspaceFeeds>, engine: Engine, workspace: WorkspaceId, sender: broadcast::Sender<Arc<str>>) {
    let mut reader = Reader { engine, workspace, cursors: HashMap::new(), own: None, is_first: true };
    let mut sent = None;
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if sender.receiver_count() == 0 && feeds.forget(workspace) {
            return;
        }
        let news = reader.read().await;
        for message in news.messages() {
            // A message without followers is lost, and the next round ends the task.
            let _ = sender.send(message);
        }
        // Another query is due in a second: while the database does not reply, the counts stay as they are.
        let Ok(counts) = reader.counts(&news.silent).await else { continue };
        if sent.as_ref() != Some(&counts) {
            let message: Arc<str> = json!({"workspace": "counts", "data": counts}).to_string().into();
            feeds.keep_counts(workspace, &message);
            sent = Some(counts);
            let _ = sender.send(message);
        }
    }
}

/// The number of runs in each status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct WorkspaceCounts {
    /// By status.
    #[serde(flatten)]
    statuses: BTreeMap<&'static str, i64>,
    /// Nodes that have not replied: changes of their runs are reported late.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    silent: Vec<NodeId>,
}

/// A run that has started or changed its status.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct FeedRun {
    id: RunId,
    workflow: String,
    status: &'static str,
    created_at: Time,
    ended_at: Option<Time>,
}

impl FeedRun {
    fn from_update(update: StatusUpdate) -> Self {
        Self {
            id: update.run,
            workflow: update.workflow,
            status: update.status.as_str(),
            created_at: Time::from_timestamp(update.created_at),
            ended_at: update.ended_at.map(Time::from_timestamp),
        }
    }
}

/// Reads the updates of all nodes.
struct Reader {
    engine: Engine,
    workspace: WorkspaceId,
    /// The position in the updates of each other node.
    cursors: HashMap<NodeId, FeedCursor>,
    own: Option<FeedCursor>,
    is_first: bool,
}

/// The updates of one round.
#[derive(Default)]
struct News {
    updates: Vec<StatusUpdate>,
    has_gap: bool,
    silent: Vec<NodeId>,
}

impl Reader {
    async fn read(&mut self) -> News {
        let own = self.engine.status_updates(self.workspace, self.own);
        self.own = Some(own.cursor);
        let mut news = News { updates: own.updates, has_gap: own.has_gap, silent: Vec::new() };
        let peers = match self.engine.peers().await {
            Ok(peers) => peers,
            // Which nodes exist is not known, so that changes may be missing.
            Err(_) => return News { has_gap: true, ..news },
        };
        let answers = future::join_all(peers.iter().map(|peer| self.ask(peer))).await;
        for (peer, answer) in peers.iter().zip(answers) {
            let Some(page) = answer else {
                news.silent.push(peer.id);
                continue;
            };
            let is_known = self.cursors.insert(peer.id, page.cursor).is_some();
            // Runs of a node that has just appeared may have changed before the first question.
            news.has_gap |= page.has_gap || !is_known && !self.is_first;
            news.updates.extend(page.updates);
        }
        let known: HashSet<_> = peers.iter().map(|peer| peer.id).collect();
        let before = self.cursors.len();
        self.cursors.retain(|node, _| known.contains(node));
        // The last updates of a node that is gone were not received.
        news.has_gap |= self.cursors.len() < before;
        self.is_first = false;
        news
    }

    async fn ask(&self, peer: &Peer) -> Option<FeedPage> {
        let body = serde_json::to_vec(&FeedQuestion { after: self.cursors.get(&peer.id).copied() }).ok()?;
        let question = Question { path: FEED_PATH, workspace: self.workspace, body, patience: PEER_TIMEOUT };
        match self.engine.world().peers.ask(peer, question).await {
            Ok((200, body)) => serde_json::from_slice(&body).ok(),
            Ok(_) | Err(_) => None,
        }
    }

    async fn counts(&self, silent: &[NodeId]) -> everstep_store::Result<WorkspaceCounts> {
        let mut statuses: BTreeMap<_, _> = Status::ALL.iter().map(|status| (status.as_str(), 0)).collect();
        for count in self.engine.counts(self.workspace).await? {
            *statuses.entry(count.status.as_str()).or_default() += count.n;
        }
        Ok(WorkspaceCounts { statuses, silent: silent.to_vec() })
    }
}

impl News {
    fn messages(&self) -> Vec<Arc<str>> {
        // A run may have changed on two nodes; the list has its last status.
        if self.has_gap || self.updates.len() > RUNS_MAX {
            return vec![many()];
        }
        if self.updates.is_empty() {
            return Vec::new();
        }
        let runs: Vec<_> = self.updates.iter().cloned().map(FeedRun::from_update).collect();
        vec![json!({"workspace": "runs", "data": runs}).to_string().into()]
    }
}

fn many() -> Arc<str> {
    json!({"workspace": "many", "data": {}}).to_string().into()
}

#[derive(Serialize, Deserialize)]
struct FeedQuestion {
    after: Option<FeedCursor>,
}

/// Answers the question of another node.
pub(crate) fn answer(engine: &Engine, workspace: WorkspaceId, body: &[u8]) -> Result<Vec<u8>, Problem> {
    let FeedQuestion { after } = serde_json::from_slice(body).map_err(|error| Problem::invalid(error.to_string()))?;
    Ok(serde_json::to_vec(&engine.status_updates(workspace, after)).expect("updates are plain data"))
}
