//! The place of samples: a fresh database, a separate runtime, and an engine on it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use everstep_core::ids::WorkspaceId;
use everstep_engine::{
    DeadLetters, Engine, NoObserver, NoPeers, NodeClock, Observe, Options, Records, SaveError, SystemRng, TokioSpawner,
    World,
};
use everstep_expressions::Expressions;
use everstep_handlers::{Ports, Registry};
use everstep_sandbox::Sandbox;
use everstep_store::{Stores, postgres, sqlite};
use serde_json::Value;
use tempfile::TempDir;

use super::args::Site;

/// The maximum time for a sample's runtime to end the remaining work.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// Takes one sample with a fresh store.
///
/// It has a separate runtime: the loops of an engine end with it, and so does its store.
pub(super) async fn sample<T, F>(site: &Site, measure: impl FnOnce(Stores) -> F + Send + 'static) -> anyhow::Result<T>
where
    T: Send + 'static,
    F: Future<Output = anyhow::Result<T>> + Send + 'static,
{
    let scratch = Scratch::new(site).await?;
    let measured = visit(&scratch.site(), measure).await;
    scratch.remove().await?;
    measured
}

/// Opens an existing database for some work, in a separate runtime.
pub(super) async fn visit<T, F>(site: &Site, work: impl FnOnce(Stores) -> F + Send + 'static) -> anyhow::Result<T>
where
    T: Send + 'static,
    F: Future<Output = anyhow::Result<T>> + Send + 'static,
{
    let site = site.clone();
    let sampling = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Runtime::new().context("starting a runtime")?;
        // Spawned, so that a sample is woken as the engine's own loops are.
        let measured = runtime.block_on(async {
            let stores = open(&site).await?;
            tokio::spawn(work(stores)).await.context("taking a sample")?
        });
        runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
        measured
    });
    sampling.await.context("taking a sample")?
}

/// A database for one sample.
pub(super) enum Scratch {
    Sqlite(TempDir),
    Postgres { server: String, name: String, url: String },
}

impl Scratch {
    pub(super) async fn new(site: &Site) -> anyhow::Result<Self> {
        match site {
            Site::Sqlite(data) => {
                let folder = tempfile::Builder::new().prefix("everstep-bench-").tempdir_in(data);
                let making = || format!("making a temporary data folder in {}", data.display());
                Ok(Self::Sqlite(folder.with_context(making)?))
            }
            Site::Postgres(server) => {
                let name = format!("everstep_bench_{}", uuid::Uuid::new_v4().simple());
                let url = postgres::create_database(server, &name).await.context("making a database")?;
                Ok(Self::Postgres { server: server.clone(), name, url })
            }
        }
    }

    /// The site at which a store can be opened, also by another process.
    pub(super) fn site(&self) -> Site {
        match self {
            Self::Sqlite(folder) => Site::Sqlite(folder.path().to_owned()),
            Self::Postgres { url, .. } => Site::Postgres(url.clone()),
        }
    }

    pub(super) async fn remove(self) -> anyhow::Result<()> {
        match self {
            Self::Sqlite(folder) => folder.close().context("removing the data folder"),
            Self::Postgres { server, name, .. } => {
                postgres::drop_database(&server, &name).await.context("dropping the database")
            }
        }
    }
}

/// Opens the database of a site.
pub(super) async fn open(site: &Site) -> anyhow::Result<Stores> {
    match site {
        Site::Sqlite(folder) => sqlite::open(folder, &Default::default()).context("opening the store"),
        Site::Postgres(url) => postgres::open(url, &Default::default()).await.context("opening the store"),
    }
}

/// An engine as in a server, with one workflow. The engine's default settings are measured.
pub(super) async fn start_engine(stores: Stores, name: &str, graph: &Value) -> anyhow::Result<Engine> {
    let engine = start_observed_engine(stores, Arc::new(NoObserver)).await?;
    publish(&engine, name, graph).await?;
    Ok(engine)
}

/// Saves a workflow.
pub(super) async fn publish(engine: &Engine, name: &str, graph: &Value) -> anyhow::Result<()> {
    match engine.library().publish(WorkspaceId::DEFAULT, name, graph).await {
        Ok(_) => Ok(()),
        Err(SaveError::Invalid(problems)) => Err(anyhow::anyhow!("{name} is not a workflow: {problems:?}")),
        Err(SaveError::Engine(error)) => Err(error.into()),
    }
}

/// An engine as in a server, without workflows, whose items are observed.
pub(super) async fn start_observed_engine(stores: Stores, observe: Arc<dyn Observe>) -> anyhow::Result<Engine> {
    let (clock, random) = (Arc::new(NodeClock::system()), Arc::new(SystemRng::default()));
    let options = Options::default();
    let records = Records::new(stores.records, Arc::clone(&clock), Arc::<SystemRng>::clone(&random), &options);
    let handled = Arc::<Records>::clone(&records);
    let ports = Ports { sandbox: Sandbox::default(), records: handled, ..Ports::none() };
    let world = World {
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
        handlers: Arc::new(Registry::standard(ports)),
        peers: Arc::new(NoPeers),
        observe,
    };
    Engine::start(world, options).await.context("starting an engine")
}
