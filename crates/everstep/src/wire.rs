//! Puts the parts together: the store, the handlers, the expressions, the machine's clock.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use everstep_core::graph::{self, Graph, Problem};
use everstep_core::ids::WorkspaceId;
use everstep_engine::{Alone, Engine, Error, NodeClock, SystemRandom, TokioSpawn, World};
use everstep_expressions::Expressions;
use everstep_handlers::Registry;
use everstep_sandbox::Sandbox;
use everstep_store::Store;
use everstep_store::sqlite::SqliteStore;
use serde_json::Value;

use crate::config;
use crate::exit::invalid;

/// Opens the database.
pub(crate) async fn open_store(data: &Path) -> anyhow::Result<Arc<dyn Store>> {
    // The store's own words say what happened and what to do.
    let store = SqliteStore::open(data, &Default::default()).map_err(|error| anyhow!("{error}"))?;
    Ok(Arc::new(store))
}

/// Starts an engine on a database. Runs that are in it go on at once.
pub(crate) async fn start(store: Arc<dyn Store>, config: &config::Engine) -> anyhow::Result<Engine> {
    let world = World {
        store,
        clock: Arc::new(NodeClock::system()),
        spawn: Arc::new(TokioSpawn::current()),
        random: Arc::new(SystemRandom::default()),
        evaluate: Arc::new(Expressions::default()),
        handlers: Arc::new(Registry::standard(sandbox(config))),
        peers: Arc::new(Alone),
    };
    Engine::start(world, config.options.clone()).await.context("starting the engine")
}

fn sandbox(config: &config::Engine) -> Sandbox {
    config.javascript_threads.map_or_else(Sandbox::default, Sandbox::new)
}

/// Checks a definition as publishing it would.
pub(crate) fn check(definition: &Value) -> Result<Graph, Vec<Problem>> {
    graph::compile(definition, &Registry::standard(Sandbox::new(1)), &Expressions::default())
}

/// Saves a definition that was found valid.
pub(crate) async fn publish(engine: &Engine, name: &str, graph: &Graph) -> anyhow::Result<u32> {
    let published = engine.library().publish(WorkspaceId::DEFAULT, name, graph.definition()).await;
    let published = published.map_err(blame).context("saving the workflow")?;
    published.map_err(|problems| invalid(problems.first().map_or("invalid", |problem| &problem.message)))
}

/// An engine's error, as the exit code needs it: an invalid input is the user's, the rest is ours.
pub(crate) fn blame(error: Error) -> anyhow::Error {
    match error {
        Error::Invalid(message) => invalid(message),
        error => error.into(),
    }
}
