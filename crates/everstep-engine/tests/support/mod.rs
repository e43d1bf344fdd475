//! An engine on a real SQLite file, with real handlers and the machine's clock.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up is to fail")]

use std::path::Path;
use std::sync::Arc;

use everstep_core::ids::{RunId, WorkspaceId};
use everstep_engine::{Alone, Engine, NewStart, NodeClock, Options, SystemRandom, TokioSpawn, World};
use everstep_expressions::Expressions;
use everstep_handlers::Registry;
use everstep_sandbox::Sandbox;
use everstep_store::RunRow;
use everstep_store::sqlite::SqliteStore;
use serde_json::{Value, json};

pub(crate) const WORKSPACE: WorkspaceId = WorkspaceId::DEFAULT;

pub(crate) fn open(folder: &Path) -> Arc<SqliteStore> {
    Arc::new(SqliteStore::open(folder, &Default::default()).unwrap())
}

pub(crate) fn world(store: Arc<SqliteStore>, handlers: Registry) -> World {
    World {
        store,
        clock: Arc::new(NodeClock::system()),
        spawn: Arc::new(TokioSpawn::current()),
        random: Arc::new(SystemRandom::default()),
        evaluate: Arc::new(Expressions::default()),
        handlers: Arc::new(handlers),
        peers: Arc::new(Alone),
    }
}

pub(crate) async fn engine_with(store: Arc<SqliteStore>, options: Options) -> Engine {
    let handlers = Registry::standard(Sandbox::new(1));
    Engine::start(world(store, handlers), options).await.unwrap()
}

pub(crate) async fn engine(folder: &Path) -> Engine {
    engine_with(open(folder), Options::default()).await
}

/// A chain of nodes between a start and an end; each is `(id, type, fields)`.
pub(crate) fn chain(nodes: &[(&str, &str, Value)]) -> Value {
    let mut all = vec![json!({"id": "start", "type": "start"})];
    let mut edges = Vec::new();
    let mut last = "start".to_owned();
    for (id, kind, fields) in nodes {
        let mut node = fields.clone();
        node["id"] = (*id).into();
        node["type"] = (*kind).into();
        all.push(node);
        edges.push(json!({"source": last, "target": id}));
        last = (*id).to_owned();
    }
    all.push(json!({"id": "end", "type": "end"}));
    edges.push(json!({"source": last, "target": "end"}));
    json!({"nodes": all, "edges": edges})
}

pub(crate) async fn publish(engine: &Engine, name: &str, definition: &Value) {
    engine.library().publish(WORKSPACE, name, definition).await.unwrap().unwrap();
}

pub(crate) async fn start(engine: &Engine, name: &str, input: Value) -> RunId {
    engine.start_run(NewStart::new(name, input)).await.unwrap().run
}

pub(crate) async fn finish(engine: &Engine, run: RunId) -> RunRow {
    let wait = engine.wait(WORKSPACE, run);
    tokio::time::timeout(std::time::Duration::from_secs(30), wait).await.expect("the run ends").unwrap()
}
