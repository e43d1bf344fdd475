//! The runs of a workspace as they change, for all followers of the workspace at this node.
//!
//! 1. One task serves all followers of a workspace. It ends when the last one has left.
//! 2. Once a second it reads the updates of all nodes, and the counts.
//! 3. The feed is a hint. After `many` a follower requests the list again: more runs changed than a message lists, or
//!    updates were lost.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use everstep_core::ids::{NodeId, RunId, WorkspaceId};
use everstep_core::status::Status;
use everstep_engine::{Engine, StatusUpdate, WorkspaceFeed, WorkspacePage};
use serde::Serialize;
use serde_json::json;
use tokio::sync::broadcast;
use tokio::time::{MissedTickBehavior, interval};

use crate::http::problem::Problem;
use crate::http::time::Time;

/// The period of messages.
const PERIOD: Duration = Duration::from_secs(1);
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
    let mut feed = WorkspaceFeed::new(workspace);
    let mut sent = None;
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if sender.receiver_count() == 0 && feeds.forget(workspace) {
            return;
        }
        let page = feed.read(&engine).await;
        for message in runs_messages(&page) {
            // A message without followers is lost, and the next round ends the task.
            let _ = sender.send(message);
        }
        // Another query is due in a second: while the database does not reply, the counts stay as they are.
        let Ok(counts) = read_counts(&engine, workspace, page.silent).await else { continue };
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

/// The number of runs in each status.
async fn read_counts(
    engine: &Engine,
    workspace: WorkspaceId,
    silent: Vec<NodeId>,
) -> everstep_store::Result<WorkspaceCounts> {
    let mut statuses: BTreeMap<_, _> = Status::ALL.iter().map(|status| (status.as_str(), 0)).collect();
    for count in engine.counts(workspace).await? {
        *statuses.entry(count.status.as_str()).or_default() += count.n;
    }
    Ok(WorkspaceCounts { statuses, silent })
}

/// The messages about the runs of a page.
fn runs_messages(page: &WorkspacePage) -> Vec<Arc<str>> {
    let mut messages = Vec::new();
    let is_long = page.updates.len() > RUNS_MAX;
    if !page.updates.is_empty() && !is_long {
        let runs: Vec<_> = page.updates.iter().cloned().map(FeedRun::from_update).collect();
        messages.push(json!({"workspace": "runs", "data": runs}).to_string().into());
    }
    if page.has_gap || is_long {
        messages.push(many());
    }
    messages
}

fn many() -> Arc<str> {
    json!({"workspace": "many", "data": {}}).to_string().into()
}

/// Answers the question of another node.
pub(crate) fn answer(engine: &Engine, workspace: WorkspaceId, body: &[u8]) -> Result<Vec<u8>, Problem> {
    engine.answer_feed(workspace, body).map_err(|error| Problem::invalid(error.to_string()))
}
