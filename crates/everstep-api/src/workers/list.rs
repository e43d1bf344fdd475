//! `/v1/workers`: the connected workers of all nodes.

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

use super::forward;
use crate::auth::Caller;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::http::schema::{Id, Moment};
use crate::server::AppState;

/// A node that does not reply in this time is listed as silent.
const PEER_TIMEOUT: Duration = Duration::from_secs(1);
/// How long the workflows of other nodes are cached. `GET /v1/workers` does not use the cache.
const CACHE_LIFETIME: Duration = Duration::from_secs(1);

/// The connected workers.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Workers {
    workers: Vec<Worker>,
    /// Nodes that have not replied in time: their workers are missing.
    #[schemars(with = "Vec<Id>")]
    silent_nodes: Vec<NodeId>,
}

/// A connected worker.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Worker {
    /// Its name.
    worker: String,
    sdk: Option<String>,
    /// The node that it is connected to.
    #[schemars(with = "Id")]
    node: NodeId,
    /// The beginning of the id of its session.
    session: String,
    workflows: Vec<ServedVersion>,
    /// The number of runs that it executes at the same time.
    capacity: usize,
    /// The number of runs that it holds now.
    running: usize,
    #[schemars(with = "Moment")]
    connected_at: String,
    /// When the node received its last request.
    #[schemars(with = "Moment")]
    last_seen: String,
}

/// A version of a workflow that a worker serves.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServedVersion {
    name: String,
    #[schemars(range(min = 1))]
    version: u32,
}

pub(crate) async fn get(State(app): State<AppState>, caller: Caller, _: Query) -> Result<Json<Workers>, Problem> {
    let (mut workers, silent_nodes) = workers_of_peers(&app.engine, caller.workspace).await?;
    workers.extend(Worker::of_this_node(&app.engine, caller.workspace));
    workers.sort_by(|a, b| (&a.worker, &a.connected_at).cmp(&(&b.worker, &b.connected_at)));
    Ok(Json(Workers { workers, silent_nodes }))
}

/// A cache of the workflows that workers of other nodes serve.
#[derive(Debug, Default)]
pub(crate) struct RemoteWorkers(Mutex<ServedVersions>);

/// By workspace: when the other nodes were queried, and the versions that they serve.
type ServedVersions = HashMap<WorkspaceId, (Instant, BTreeSet<(String, u32)>)>;

impl RemoteWorkers {
    /// Whether a worker of any node serves a version of a workflow. A node that does not reply counts as serving none.
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
        if let Some((_, served)) = self.cache().get(&workspace).filter(|(at, _)| at.elapsed() < CACHE_LIFETIME) {
            return Ok(served.contains(&wanted));
        }
        let (workers, _) = workers_of_peers(engine, workspace).await?;
        let served = workers.into_iter().flat_map(|worker| worker.workflows);
        let served: BTreeSet<_> = served.map(|served| (served.name, served.version)).collect();
        let is_served = served.contains(&wanted);
        let mut cache = self.cache();
        cache.retain(|_, (at, _)| at.elapsed() < CACHE_LIFETIME);
        cache.insert(workspace, (Instant::now(), served));
        Ok(is_served)
    }

    fn cache(&self) -> MutexGuard<'_, ServedVersions> {
        self.0.lock().expect("no holder of the lock panics")
    }
}

/// The workers of all other nodes, and the nodes that do not reply.
async fn workers_of_peers(engine: &Engine, workspace: WorkspaceId) -> Result<(Vec<Worker>, Vec<NodeId>), Problem> {
    let peers = engine.peers().await?;
    let answers = future::join_all(peers.iter().map(|peer| async move {
        let question = Question { path: forward::LIST, workspace, body: b"{}".to_vec(), patience: PEER_TIMEOUT };
        match engine.world().peers.ask(peer, question).await {
            Ok((200, body)) => serde_json::from_slice::<Vec<Worker>>(&body).map_err(|_| peer.id),
            Ok(_) | Err(_) => Err(peer.id),
        }
    }));
    let (mut workers, mut silent) = (Vec::new(), Vec::new());
    for answer in answers.await {
        match answer {
            Ok(found) => workers.extend(found),
            Err(node) => silent.push(node),
        }
    }
    Ok((workers, silent))
}

impl Worker {
    /// The workers of this node.
    pub(super) fn of_this_node(engine: &Engine, workspace: WorkspaceId) -> Vec<Self> {
        let time = |time: Timestamp| format!("{time:.6}");
        let workers = engine.workers(workspace).into_iter().map(|info| Self {
            worker: info.worker,
            sdk: info.sdk,
            node: info.session.node,
            session: info.session.shown(),
            workflows: info
                .workflows
                .into_iter()
                .map(|served| ServedVersion { name: served.name, version: served.version })
                .collect(),
            capacity: info.capacity,
            running: info.running,
            connected_at: time(info.opened_at),
            last_seen: time(info.last_seen),
        });
        workers.collect()
    }
}
