//! `/v1/workers`: who serves which workflow.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use everstep_core::ids::{NodeId, WorkspaceId};
use everstep_core::time::Timestamp;
use everstep_engine::{Engine, Question};
use futures_util::future;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::away;
use crate::auth::Caller;
use crate::problem::Problem;
use crate::query::Query;
use crate::server::Served;
use crate::wire::{Id, Moment};

/// A node that does not answer within this is left out.
const PATIENCE: Duration = Duration::from_secs(1);
/// What other nodes serve is asked for this often at most, but for lists.
const KNOWN: Duration = Duration::from_secs(1);

/// Who serves what.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Workers {
    workers: Vec<Worker>,
    /// Nodes that have not answered: their workers are not listed.
    #[schemars(with = "Vec<Id>")]
    silent_nodes: Vec<NodeId>,
}

/// A worker that is connected.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Worker {
    /// What it calls itself.
    worker: String,
    sdk: Option<String>,
    /// The node that it is connected to.
    #[schemars(with = "Id")]
    node: NodeId,
    /// The beginning of its session's id.
    session: String,
    workflows: Vec<WorkerServes>,
    /// Runs that it takes at once.
    capacity: usize,
    /// Runs that it has.
    running: usize,
    #[schemars(with = "Moment")]
    connected_at: String,
    /// When it was last heard.
    #[schemars(with = "Moment")]
    last_seen: String,
}

/// A workflow that a worker serves.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WorkerServes {
    name: String,
    version: u32,
}

pub(crate) async fn get(State(served): State<Served>, caller: Caller, _: Query) -> Result<Json<Workers>, Problem> {
    let (mut workers, silent_nodes) = others(&served.engine, caller.workspace).await?;
    workers.extend(Worker::here(&served.engine, caller.workspace));
    workers.sort_by(|a, b| (&a.worker, &a.connected_at).cmp(&(&b.worker, &b.connected_at)));
    Ok(Json(Workers { workers, silent_nodes }))
}

/// What is known of other nodes' workers, for a moment.
#[derive(Debug, Default)]
pub(crate) struct Elsewhere(Mutex<Known>);

/// The versions of workflows that are served for a workspace, and when they were asked for.
type Known = HashMap<WorkspaceId, (Instant, BTreeSet<(String, u32)>)>;

impl Elsewhere {
    /// Whether a worker of any node serves a version of a workflow. A node that does not answer serves nothing.
    pub(crate) async fn is_served(
        &self,
        engine: &Engine,
        workspace: WorkspaceId,
        workflow: &str,
        version: u32,
    ) -> Result<bool, Problem> {
        if engine.is_served(workspace, workflow, version) {
            return Ok(true);
        }
        if !engine.is_shared() {
            return Ok(false);
        }
        let wanted = (workflow.to_owned(), version);
        if let Some((_, served)) = self.known().get(&workspace).filter(|(at, _)| at.elapsed() < KNOWN) {
            return Ok(served.contains(&wanted));
        }
        let (workers, _) = others(engine, workspace).await?;
        let served = workers.into_iter().flat_map(|worker| worker.workflows);
        let served: BTreeSet<_> = served.map(|served| (served.name, served.version)).collect();
        let is_served = served.contains(&wanted);
        let mut known = self.known();
        known.retain(|_, (at, _)| at.elapsed() < KNOWN);
        known.insert(workspace, (Instant::now(), served));
        Ok(is_served)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().expect("no holder of the lock panics")
    }
}

/// The workers of all other nodes, and the nodes that do not answer.
async fn others(engine: &Engine, workspace: WorkspaceId) -> Result<(Vec<Worker>, Vec<NodeId>), Problem> {
    let peers = engine.peers().await?;
    let answers = future::join_all(peers.iter().map(|peer| async move {
        let question = Question { path: away::LIST, workspace, body: b"{}".to_vec(), patience: PATIENCE };
        match engine.world().peers.ask(peer, question).await {
            Ok((200, body)) => serde_json::from_slice::<Vec<Worker>>(&body).map_err(|_| peer.id),
            Ok(_) | Err(_) => Err(peer.id),
        }
    }));
    let (mut workers, mut silent) = (Vec::new(), Vec::new());
    for answer in answers.await {
        match answer {
            Ok(others) => workers.extend(others),
            Err(node) => silent.push(node),
        }
    }
    Ok((workers, silent))
}

impl Worker {
    /// The workers of this node.
    pub(super) fn here(engine: &Engine, workspace: WorkspaceId) -> Vec<Self> {
        let time = |time: Timestamp| format!("{time:.6}");
        let workers = engine.workers(workspace).into_iter().map(|info| Self {
            worker: info.worker,
            sdk: info.sdk,
            node: info.session.node,
            session: info.session.shown(),
            workflows: info
                .workflows
                .into_iter()
                .map(|served| WorkerServes { name: served.name, version: served.version })
                .collect(),
            capacity: info.capacity,
            running: info.running,
            connected_at: time(info.opened_at),
            last_seen: time(info.last_seen),
        });
        workers.collect()
    }
}
