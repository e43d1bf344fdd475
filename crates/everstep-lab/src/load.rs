//! `everstep-lab load`: starts many runs of a workflow file and waits until all of them have ended.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use everstep::command_settings::CommandSettings;
use everstep::config::Config;
use everstep::settings::{ClusterSettings, DatabaseSettings, EngineSettings, SecretsSettings, ServerSettings};
use everstep::signals::StopSignals;
use everstep::wire::{self, LocalNode};
use everstep::{definition, exit, input, output};
use everstep_core::ids::{RunId, WorkspaceId};
use everstep_core::payload::Payload;
use everstep_core::status::Status;
use everstep_engine::{Engine, NoObserver, Start};
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// The time for which tasks in progress may run when the command stops.
const STOP_GRACE: Duration = Duration::from_secs(5);
/// A run's row is read at this interval, and when the run ends, because the run may have been paused.
const STATUS_READ_INTERVAL: Duration = Duration::from_secs(5);

/// Start many runs of a workflow and wait for all of them to end.
///
/// The runs have the idempotency keys load-0, load-1 and so on. Run the same command again after a crash, or after
/// Ctrl-C, and it continues: it waits for runs that exist and starts the missing ones.
///
/// Prints {"started", "existing", "completed", "failed", "seconds"} on standard output as one JSON document.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  everstep-lab load order.json --data ./data --runs 1000 --input '{\"amount\": 20}'")]
pub(crate) struct Args {
    /// The workflow: a JSON or YAML file.
    pub(crate) file: PathBuf,

    /// The data folder, which is created if it does not exist; or name a database with --database-url.
    #[arg(long, value_name = "DIR", conflicts_with = "database_url")]
    pub(crate) data: Option<PathBuf>,

    /// The total number of runs.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: u32,

    /// Every run's input: JSON, @FILE for a file with JSON, or - for standard input.
    #[arg(long, short, default_value = "{}", value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    pub(crate) input: String,

    /// The number of runs in progress at the same time.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) concurrency: u32,

    /// The workflow's name in the database. The default is the file's name, without its extension.
    #[arg(long)]
    pub(crate) name: Option<String>,

    #[command(flatten)]
    pub(crate) database: DatabaseSettings,
    #[command(flatten)]
    pub(crate) cluster: ClusterSettings,
    #[command(flatten)]
    pub(crate) engine: EngineSettings,
    #[command(flatten)]
    pub(crate) secrets: SecretsSettings,
}

impl Args {
    pub(crate) fn settings(&self) -> CommandSettings {
        CommandSettings {
            server: ServerSettings::in_folder(self.data.clone()),
            database: self.database.clone(),
            cluster: self.cluster.clone(),
            engine: self.engine.clone(),
            secrets: self.secrets.clone(),
            // A folder on the command line takes precedence over the database of the settings file.
            uses_database: self.data.is_none(),
            ..CommandSettings::default()
        }
    }
}

#[derive(Default)]
struct Summary {
    started: u32,
    existing: u32,
    completed: u32,
    failed: u32,
}

pub(crate) async fn run(args: &Args, config: &Config) -> anyhow::Result<ExitCode> {
    if args.data.is_none() && !config.database.is_shared() {
        return Err(exit::invalid("name a data folder with --data, or a database with --database-url"));
    }
    let mut stop = StopSignals::new()?;
    let graph = definition::graph(&args.file, definition::check(&args.file)?)?;
    let name = definition::name(&args.file, args.name.as_deref())?;
    let input = input::read("--input", &args.input)?;
    let stores = wire::open_stores(&config.server.data, &config.database).await?;
    let vault = wire::open_vault(&stores.resources, &config.server.data, config)?;
    let node = LocalNode::start(stores, &vault, config, Arc::new(NoObserver)).await?;
    let engine = node.engine.clone();
    wire::save_definition(&engine, &name, &graph).await?;
    let began = Instant::now();
    let summary = tokio::select! {
        summary = start_all(&engine, &name, &input, args) => summary?,
        _ = stop.next() => {
            eprintln!("stopping …");
            node.stop(STOP_GRACE).await?;
            eprintln!("stopped; run the same command again to continue");
            return Ok(ExitCode::from(exit::INTERRUPTED));
        }
    };
    let seconds = began.elapsed().as_secs_f64();
    node.stop(STOP_GRACE).await?;
    let Summary { started, existing, completed, failed } = summary;
    output::print(json!({
        "started": started,
        "existing": existing,
        "completed": completed,
        "failed": failed,
        "seconds": (seconds * 1_000.0).round() / 1_000.0,
    }))?;
    Ok(ExitCode::from(if failed == 0 { 0 } else { exit::FAILED }))
}

async fn start_all(engine: &Engine, name: &str, input: &Payload, args: &Args) -> anyhow::Result<Summary> {
    let places = Arc::new(Semaphore::new(args.concurrency as usize));
    let mut runs = JoinSet::new();
    for number in 0..args.runs {
        let place = Arc::clone(&places).acquire_owned().await.context("waiting for a permit")?;
        let start = Start { key: Some((name.to_owned(), format!("load-{number}"))), ..Start::new(name, input.clone()) };
        let engine = engine.clone();
        runs.spawn(async move {
            let started = engine.start_run(start).await.map_err(wire::describe_error).context("starting a run")?;
            let status = wait(&engine, started.run).await?;
            drop(place);
            anyhow::Ok((started.created, status))
        });
    }
    let mut summary = Summary::default();
    while let Some(run) = runs.join_next().await {
        let (created, status) = run.context("waiting for a run")??;
        *(if created { &mut summary.started } else { &mut summary.existing }) += 1;
        *(if status == Status::Completed { &mut summary.completed } else { &mut summary.failed }) += 1;
    }
    Ok(summary)
}

/// Waits until a run has ended or was paused.
async fn wait(engine: &Engine, run: RunId) -> anyhow::Result<Status> {
    loop {
        let mut watch = engine.watch(run);
        let row = engine.world().runs.get_run(WorkspaceId::DEFAULT, run).await.context("reading a run")?;
        let row = row.with_context(|| format!("run {run} does not exist"))?;
        if row.ended_at.is_some() || row.status == Status::Paused {
            return Ok(row.status);
        }
        // Either the run ended or the interval has passed: read the row again.
        let _ = tokio::time::timeout(STATUS_READ_INTERVAL, async { while watch.next().await.is_some() {} }).await;
    }
}
