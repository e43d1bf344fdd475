//! Where samples are taken: a fresh data folder, a runtime of its own, and an engine on it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use everstep_core::ids::WorkspaceId;
use everstep_engine::{Alone, Engine, NodeClock, Options, SystemRandom, TokioSpawn, World};
use everstep_expressions::Expressions;
use everstep_handlers::Registry;
use everstep_sandbox::Sandbox;
use everstep_store::Store;
use everstep_store::sqlite::SqliteStore;
use serde_json::Value;
use tempfile::TempDir;

/// How long a sample's runtime may take to end what a sample left running.
const SHUTDOWN: Duration = Duration::from_secs(5);

/// Takes one sample with a fresh store.
///
/// It has a runtime of its own: the loops of an engine end with it, and so does its store.
pub(super) async fn sample<T, F>(
    data: &Path,
    measure: impl FnOnce(Arc<dyn Store>) -> F + Send + 'static,
) -> anyhow::Result<T>
where
    T: Send + 'static,
    F: Future<Output = anyhow::Result<T>> + Send + 'static,
{
    let folder = folder(data)?;
    let sampling = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Runtime::new().context("starting a runtime")?;
        let store = open(folder.path())?;
        // Spawned, so that a sample is woken as the engine's own loops are.
        let measured = runtime.block_on(async { tokio::spawn(measure(store)).await });
        runtime.shutdown_timeout(SHUTDOWN);
        measured.context("taking a sample")?
    });
    sampling.await.context("taking a sample")?
}

fn folder(data: &Path) -> anyhow::Result<TempDir> {
    let folder = tempfile::Builder::new().prefix("everstep-bench-").tempdir_in(data);
    folder.with_context(|| format!("making a temporary data folder in {}", data.display()))
}

fn open(folder: &Path) -> anyhow::Result<Arc<dyn Store>> {
    Ok(Arc::new(SqliteStore::open(folder, &Default::default()).context("opening the store")?))
}

/// An engine as a server has it, with one workflow. The engine's default settings are what is measured.
pub(super) async fn start_engine(store: Arc<dyn Store>, name: &str, graph: &Value) -> anyhow::Result<Engine> {
    let world = World {
        store,
        clock: Arc::new(NodeClock::system()),
        spawn: Arc::new(TokioSpawn::current()),
        random: Arc::new(SystemRandom::default()),
        evaluate: Arc::new(Expressions::default()),
        handlers: Arc::new(Registry::standard(Sandbox::default())),
        peers: Arc::new(Alone),
    };
    let engine = Engine::start(world, Options::default()).await.context("starting an engine")?;
    let published = engine.library().publish(WorkspaceId::DEFAULT, name, graph).await?;
    published.map_err(|problems| anyhow::anyhow!("shape {name} is not a workflow: {problems:?}"))?;
    Ok(engine)
}
