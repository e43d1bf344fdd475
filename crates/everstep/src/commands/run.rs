//! `everstep run`: one run of a file, until it has ended or is paused.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use everstep_core::ids::{RunId, WorkspaceId};
use everstep_core::status::Status;
use everstep_core::story::Story;
use everstep_engine::{Engine, NoObserver, Start};
use everstep_store::RunRow;
use tempfile::TempDir;

use crate::args::RunArgs;
use crate::config::Config;
use crate::live::Live;
use crate::signals::StopSignals;
use crate::wire::LocalNode;
use crate::{definition, exit, input, output, text, wire};

/// The period in which the durations on a terminal are updated.
const TICK_INTERVAL: Duration = Duration::from_millis(100);
/// The time for which tasks of the run may continue after an interrupt, so that their results are stored.
const STOP_GRACE: Duration = Duration::from_secs(5);

pub(crate) async fn run(args: RunArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let mut stop = StopSignals::new()?;
    let graph = definition::graph(&args.file, definition::check(&args.file)?)?;
    let name = definition::name(&args.file, args.name.as_deref())?;
    let input = input::read("--input", &args.input)?;
    let folder = Folder::choose(args.data.clone())?;
    let stores = wire::open_stores(folder.path(), &config.database).await?;
    let vault = wire::open_vault(&stores.resources, folder.path(), config)?;
    let engine = LocalNode::start(stores, &vault, config, Arc::new(NoObserver)).await?.engine;
    wire::save_definition(&engine, &name, &graph).await?;
    let key = args.key.clone().map(|key| (name.clone(), key));
    let started = engine.start_run(Start { key, ..Start::new(name, input) }).await;
    let started = started.map_err(wire::describe_error).context("starting the run")?;
    if !started.created && !args.quiet {
        let row = engine.runs().row(WorkspaceId::DEFAULT, started.run).await.context("reading the run")?;
        eprintln!("run {} has that idempotency key{}", started.run, describe_existing(row.status));
    }
    let ended = tokio::select! {
        ended = follow(&engine, started.run, Live::new(args.quiet)) => ended,
        _ = stop.next() => {
            tokio::select! {
                stopped = interrupt(&engine, &args, started.run) => return stopped,
                _ = stop.next() => return Ok(ExitCode::from(exit::INTERRUPTED)),
            }
        }
    };
    let row = ended?;
    // Other runs of the folder may be in progress; the next process that opens it continues them.
    engine.stop(STOP_GRACE).await.context("stopping the engine")?;
    conclude(&row, args.data.as_deref())
}

/// The effect of the command on a run that was started before.
fn describe_existing(status: Status) -> &'static str {
    match status {
        Status::Completed => " and has ended; its stored output follows",
        Status::Failed | Status::Cancelled => " and has ended; the stored reason follows",
        Status::Pending | Status::Running | Status::Waiting | Status::Paused => "; continuing it",
    }
}

/// Where the run is stored.
enum Folder {
    Kept(PathBuf),
    /// Removed with this value.
    Temporary(TempDir),
}

impl Folder {
    fn choose(data: Option<PathBuf>) -> anyhow::Result<Self> {
        match data {
            Some(path) => Ok(Self::Kept(path)),
            None => tempfile::Builder::new()
                .prefix("everstep-")
                .permissions(Permissions::from_mode(0o700))
                .tempdir()
                .map(Self::Temporary)
                .context("creating a temporary folder; set TMPDIR, or choose a folder with --data"),
        }
    }

    fn path(&self) -> &Path {
        match self {
            Self::Kept(path) => path,
            Self::Temporary(folder) => folder.path(),
        }
    }
}

/// Shows a run until it has ended, or was paused, and returns its row.
async fn follow(engine: &Engine, run: RunId, mut live: Live) -> anyhow::Result<RunRow> {
    let now = || engine.world().clock.now();
    let loaded = engine.runs().load(run).await.context("reading the run")?;
    let mut story = Story::new(loaded.workflow.as_ref());
    let mut follower = engine.runs().follow(WorkspaceId::DEFAULT, loaded, 0);
    loop {
        let next = tokio::select! {
            next = follower.next() => next,
            () = tokio::time::sleep(TICK_INTERVAL) => {
                live.tick(&story, now());
                continue;
            }
        };
        if let Some(error) = follower.take_read_error() {
            return Err(error).context("reading the journal");
        }
        let has_ended = next.is_none();
        let mut read = next;
        while let Some(journal) = read {
            let entry = journal.entry?;
            for update in story.apply(&entry) {
                live.note(&story, &update, entry.at);
            }
            read = follower.next_read();
        }
        live.show(&story, now());
        let is_paused = story.run.status == Status::Paused && follower.is_level();
        if has_ended || is_paused {
            return engine.runs().row(WorkspaceId::DEFAULT, run).await.context("reading the run");
        }
    }
}

/// Stops in order and prints how to continue.
async fn interrupt(engine: &Engine, args: &RunArgs, run: RunId) -> anyhow::Result<ExitCode> {
    let Some(data) = &args.data else {
        eprintln!("stopped; run {run} was temporary and is deleted (store runs with --data DIR)");
        return Ok(ExitCode::from(exit::INTERRUPTED));
    };
    eprintln!("stopping …");
    engine.stop(STOP_GRACE).await.context("stopping the engine")?;
    let (file, data) = (args.file.display(), data.display());
    let how = match &args.key {
        Some(key) => {
            let name = args.name.as_ref().map(|name| format!(" --name {name}")).unwrap_or_default();
            format!("everstep run {file} --data {data} --key {key}{name}")
        }
        None => format!("everstep serve --data {data}"),
    };
    eprintln!("stopped; run {run} is stored; continue it with: {how}");
    Ok(ExitCode::from(exit::INTERRUPTED))
}

/// Prints the output of a run, or why it has none. `data` is the folder in which the run is kept.
fn conclude(row: &RunRow, data: Option<&Path>) -> anyhow::Result<ExitCode> {
    if row.status == Status::Completed {
        output::print(row.output.as_ref().map_or("null", |output| output.json()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let reason = row.error.as_ref().map(ToString::to_string);
    let (reason, code) = match row.status {
        Status::Cancelled => (reason.unwrap_or_else(|| "CANCELLED".to_owned()), exit::FAILED),
        Status::Paused => (reason.unwrap_or_else(|| "a request paused it".to_owned()), exit::PAUSED),
        _ => {
            let reason = reason.ok_or_else(|| anyhow!("run {} is {} without a reason", row.id, row.status))?;
            (reason, exit::FAILED)
        }
    };
    eprintln!("run {} {}: {}", row.id, row.status, text::safe_block(&reason, 0));
    if let (Status::Paused, Some(data)) = (row.status, data) {
        let data = text::quoted(data);
        eprintln!(
            "to continue it, start a server with `everstep serve --data {data}`, then `everstep resume {}`",
            row.id
        );
    }
    Ok(ExitCode::from(code))
}
