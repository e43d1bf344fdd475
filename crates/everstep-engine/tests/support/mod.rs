//! An engine on a real database, with real handlers and the machine's clock.
//!
//! The database is a SQLite file, or with `TEST_STORE=postgres` a database of a PostgreSQL server of this process.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up is to fail")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use everstep_core::ids::{RunId, WorkspaceId};
use everstep_engine::{
    DeadLetters, Engine, NoObserver, NoPeers, NodeClock, Options, Records, Start, SystemRng, TokioSpawner, World,
};
use everstep_expressions::Expressions;
use everstep_handlers::{Ports, Registry};
use everstep_sandbox::Sandbox;
use everstep_store::{Error, RunRow, Stores, postgres, sqlite};
use everstep_testkit::postgres::{Cluster, TestDatabase};
use serde_json::{Value, json};

pub(crate) const WORKSPACE: WorkspaceId = WorkspaceId::DEFAULT;

/// Opens the SQLite file of a folder, whichever database is tested.
pub(crate) async fn open_sqlite(folder: &Path) -> Stores {
    when_free(|| sqlite::open(folder, &Default::default())).await
}

/// Opens the database of a folder.
pub(crate) async fn open(folder: &Path) -> Stores {
    if is_on_postgres() {
        return postgres::open(&url(folder), &Default::default()).await.unwrap();
    }
    open_sqlite(folder).await
}

/// Opens a folder of SQLite as soon as no store holds it: an engine that was dropped may hold it for a moment.
pub(crate) async fn when_free<T>(open: impl Fn() -> Result<T, Error>) -> T {
    for _ in 0..3_000 {
        match open() {
            Err(Error::Locked(_)) => tokio::time::sleep(Duration::from_millis(10)).await,
            opened => return opened.unwrap(),
        }
    }
    open().unwrap()
}

/// The PostgreSQL database of a folder.
pub(crate) fn url(folder: &Path) -> String {
    static DATABASES: Mutex<BTreeMap<PathBuf, TestDatabase<'static>>> = Mutex::new(BTreeMap::new());
    let mut databases = DATABASES.lock().unwrap();
    databases.entry(folder.to_owned()).or_insert_with(|| Cluster::shared().migrated_database()).url()
}

pub(crate) fn is_on_postgres() -> bool {
    match std::env::var("TEST_STORE").as_deref() {
        Ok("postgres") => true,
        Ok("sqlite") | Err(_) => false,
        Ok(other) => panic!("TEST_STORE is sqlite or postgres, not {other}"),
    }
}

/// Like the defaults, with a node lease that is short enough for a test.
pub(crate) fn options() -> Options {
    Options { node_lease: Duration::from_secs(1), ..Options::default() }
}

pub(crate) fn world(stores: Stores, handlers: Registry) -> World {
    let (clock, random) = (Arc::new(NodeClock::system()), Arc::new(SystemRng::default()));
    let records = Records::new(stores.records, Arc::clone(&clock), Arc::<SystemRng>::clone(&random), &options());
    World {
        runs: stores.runs,
        workflows: stores.workflows,
        topics: stores.topics,
        dead_letters: DeadLetters::new(stores.dead_letters, None),
        files: stores.files,
        records,
        clock,
        spawn: Arc::new(TokioSpawner::current()),
        random,
        evaluate: Arc::new(Expressions::default()),
        handlers: Arc::new(handlers),
        peers: Arc::new(NoPeers),
        observe: Arc::new(NoObserver),
    }
}

pub(crate) async fn engine_with(stores: Stores, options: Options) -> Engine {
    // As many script threads as a server has.
    let mut world = world(stores, Registry::default());
    let records = Arc::<Records>::clone(&world.records);
    let ports = Ports { sandbox: Sandbox::default(), records, ..Ports::none() };
    world.handlers = Arc::new(Registry::standard(ports));
    Engine::start(world, options).await.unwrap()
}

pub(crate) async fn engine(folder: &Path) -> Engine {
    engine_with(open(folder).await, options()).await
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
    engine.library().publish(WORKSPACE, name, definition).await.unwrap();
}

pub(crate) async fn start(engine: &Engine, name: &str, input: Value) -> RunId {
    engine.start_run(Start::new(name, input)).await.unwrap().run
}

pub(crate) async fn finish(engine: &Engine, run: RunId) -> RunRow {
    let wait = engine.wait(WORKSPACE, run);
    tokio::time::timeout(Duration::from_secs(30), wait).await.expect("the run ends").unwrap()
}
