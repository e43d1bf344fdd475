//! Puts the parts together: the store, the handlers, the expressions, the machine's clock.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use everstep_api::cluster::{self, Channel, ClusterKey};
use everstep_core::definition;
use everstep_core::graph::{Graph, Problem};
use everstep_core::ids::WorkspaceId;
use everstep_core::style::Style;
use everstep_engine::{
    DeadLetters, Engine, Error, NoPeers, NodeClock, Notices, Observe, Options, Peers, Records, SaveError, SystemRng,
    TokioSpawner, World,
};
use everstep_expressions::Expressions;
use everstep_handlers::sources::Drivers;
use everstep_handlers::{FetchPolicy, Ports, Registry};
use everstep_net::Client;
use everstep_sandbox::Sandbox;
use everstep_store::{ResourceStore, Stores, postgres, sqlite};
use everstep_vault::{DataSources, Vault, WorkspaceOptions};
use serde_json::Value;

use crate::config::{self, Config};
use crate::data_folder;
use crate::database::DatabaseConfig;
use crate::exit::invalid;
use crate::fetch_policy::AllowAll;
use crate::ops_notices::OpsNotices;
use crate::secrets_key;

/// The time limit for the last hints to other nodes when this node stops.
const HINT_FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Opens the database of the settings. An SQLite database is created if it does not exist, with its folder.
pub async fn open_stores(data: &Path, database: &DatabaseConfig) -> anyhow::Result<Stores> {
    let opened = match database {
        DatabaseConfig::Sqlite => {
            data_folder::create(data).map_err(|error| data_folder::describe_error(data, &error))?;
            sqlite::open(data, &Default::default())
        }
        DatabaseConfig::Postgres { url, options } => postgres::open(url.reveal(), options).await,
    };
    // The store's error contains the reason and the remedy.
    opened.map_err(describe_store_error)
}

/// The vault of a database; `data` is the folder that may contain its key.
pub fn open_vault(resources: &Arc<dyn ResourceStore>, data: &Path, config: &Config) -> anyhow::Result<Arc<Vault>> {
    Ok(Arc::new(Vault::new(Arc::clone(resources), secrets_key::ring(config, data)?)))
}

fn describe_store_error(error: everstep_store::Error) -> anyhow::Error {
    match error {
        everstep_store::Error::Unusable(message) => invalid(message),
        error => error.into(),
    }
}

/// An engine, and its channel to other nodes.
pub struct LocalNode {
    pub engine: Engine,
    /// The address at which other nodes reach it, and its channel to them; none if it cannot have peers.
    pub(crate) cluster: Option<(String, Channel)>,
    pub(crate) data: DataServices,
}

/// Data sources and saved queries, and their drivers.
#[derive(Clone)]
pub(crate) struct DataServices {
    pub(crate) sources: Arc<DataSources>,
    pub(crate) drivers: Drivers,
}

impl LocalNode {
    /// Starts an engine on a database. Its runs continue at once.
    pub async fn start(
        stores: Stores,
        vault: &Arc<Vault>,
        config: &Config,
        observe: Arc<dyn Observe>,
    ) -> anyhow::Result<Self> {
        let (ports, data) = NodePorts::new(&stores, vault, &config.engine);
        let DatabaseConfig::Postgres { url, .. } = &config.database else {
            let engine = start(stores, ports, config.engine.options.clone(), Arc::new(NoPeers), observe).await?;
            return Ok(Self { engine, cluster: None, data });
        };
        let (listener, address) = config.cluster.bind(url)?;
        let key = match &config.cluster.key {
            Some(key) => key.clone(),
            None => ClusterKey::from_store(&*stores.access).await.context("reading the key of the cluster")?,
        };
        let channel = Channel::new(key.clone());
        let options = Options { address: Some(address.clone()), ..config.engine.options.clone() };
        let engine = start(stores, ports, options, Arc::new(channel.clone()), observe).await?;
        channel.introduce(&engine);
        // It answers until the process ends, including that this node is stopping.
        tokio::spawn(cluster::serve(listener, engine.clone(), key, std::future::pending()));
        Ok(Self { engine, cluster: Some((address, channel)), data })
    }

    /// Stops in order: releases the runs and notifies the other nodes.
    pub async fn stop(&self, grace: Duration) -> anyhow::Result<()> {
        self.engine.stop(grace).await.context("stopping the engine")?;
        if let Some((_, channel)) = &self.cluster {
            // A node without a hint finds the runs in its next tick.
            let _ = tokio::time::timeout(HINT_FLUSH_TIMEOUT, channel.flush()).await;
        }
        Ok(())
    }
}

/// The ports of a node that its engine and its handlers share.
struct NodePorts {
    handlers: Registry,
    records: Arc<Records>,
    clock: Arc<NodeClock>,
    random: Arc<SystemRng>,
    notices: Option<Arc<dyn Notices>>,
}

async fn start(
    stores: Stores,
    ports: NodePorts,
    options: Options,
    peers: Arc<dyn Peers>,
    observe: Arc<dyn Observe>,
) -> anyhow::Result<Engine> {
    let NodePorts { handlers, records, clock, random, notices } = ports;
    let world = World {
        runs: stores.runs,
        workflows: stores.workflows,
        topics: stores.topics,
        dead_letters: DeadLetters::new(stores.dead_letters, notices),
        files: stores.files,
        records,
        clock,
        spawn: Arc::new(TokioSpawner::current()),
        random,
        evaluate: Arc::new(Expressions::default()),
        handlers: Arc::new(handlers),
        peers,
        observe,
    };
    Engine::start(world, options).await.context("starting the engine")
}

impl NodePorts {
    /// The routes share the data services.
    fn new(stores: &Stores, vault: &Arc<Vault>, config: &config::EngineConfig) -> (Self, DataServices) {
        let (clock, random) = (Arc::new(NodeClock::system()), Arc::new(SystemRng::default()));
        let rng = Arc::<SystemRng>::clone(&random);
        let records = Records::new(Arc::clone(&stores.records), Arc::clone(&clock), rng, &config.options);
        let client = Client::new(config.guard.clone());
        let data = DataServices {
            sources: Arc::new(DataSources::new(Arc::clone(&stores.resources))),
            drivers: Drivers::new(client.clone(), Arc::<Vault>::clone(vault), config.sqlite_sources.clone()),
        };
        let options = Arc::new(WorkspaceOptions::new(Arc::clone(&stores.access)));
        let fetch_policy: Arc<dyn FetchPolicy> = match config.allows_fetch {
            true => Arc::new(AllowAll),
            false => Arc::<WorkspaceOptions>::clone(&options),
        };
        let handlers = Registry::standard(Ports {
            sandbox: config
                .javascript_threads
                .map_or_else(Sandbox::default, Sandbox::new)
                .with_timeout_max(config.js_timeout_max),
            client,
            http: config.http,
            webhooks: config.webhooks,
            secrets: Arc::<Vault>::clone(vault),
            sources: Arc::<DataSources>::clone(&data.sources),
            drivers: data.drivers.clone(),
            fetch_policy,
            notify_policy: options,
            mail_server: config.mail_server.clone(),
            records: Arc::<Records>::clone(&records),
        });
        let notices = config.ops_url.clone().map(|url| Arc::new(OpsNotices::new(url)) as Arc<dyn Notices>);
        (Self { handlers, records, clock, random, notices }, data)
    }
}

/// Checks a definition as for saving.
pub(crate) fn check(definition: &Value) -> Result<Style, Vec<Problem>> {
    definition::compile(definition, &Registry::standard(Ports::none()), &Expressions::default())
}

/// Saves a valid definition.
pub async fn save_definition(engine: &Engine, name: &str, graph: &Graph) -> anyhow::Result<u32> {
    match engine.library().publish(WorkspaceId::DEFAULT, name, graph.definition()).await {
        Ok(version) => Ok(version),
        Err(SaveError::Invalid(problems)) => {
            Err(invalid(problems.first().map_or("invalid", |problem| &problem.message)))
        }
        Err(SaveError::Engine(error)) => Err(describe_error(error).context("saving the workflow")),
    }
}

/// An engine's error for the exit code: an invalid input is an error of the user, every other error is ours.
pub fn describe_error(error: Error) -> anyhow::Error {
    match error {
        Error::Invalid(message) | Error::Unstorable(message) => invalid(message),
        Error::InputRejected { .. } => invalid(error.to_string()),
        error => error.into(),
    }
}
