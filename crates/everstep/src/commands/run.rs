//! `everstep run`: one run of a file, to its end.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use everstep_core::ids::{RunId, WorkspaceId};
use everstep_core::journal::codec;
use everstep_core::journal::{Entry, Event};
use everstep_core::status::Status;
use everstep_engine::{Blind, Engine, Start};
use everstep_store::RunRow;
use tempfile::TempDir;

use crate::args::RunArgs;
use crate::config::Config;
use crate::live::Live;
use crate::signals::StopSignals;
use crate::wire::LocalNode;
use crate::{definition, exit, input, output, text, wire};

/// How often the durations on a terminal are brought up to date.
const TICK: Duration = Duration::from_millis(100);
/// How long tasks of the run may go on after a signal, so that their results are kept.
const GRACE: Duration = Duration::from_secs(5);
const PAGE: usize = 1_000;

pub(crate) async fn run(args: RunArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let mut stop = StopSignals::new()?;
    let graph = definition::read(&args.file)?.and_then(|definition| wire::check(&definition));
    let graph = graph.map_err(|problems| definition::refuse(&args.file, &problems))?;
    let name = definition::name(&args.file, args.name.as_deref())?;
    let input = input::read(&args.input)?;
    let folder = Folder::of(args.data.clone())?;
    let stores = wire::open_stores(folder.path(), &config.database).await?;
    let vault = wire::open_vault(&stores.resources, folder.path(), config)?;
    let engine = LocalNode::start(stores, &vault, config, Arc::new(Blind)).await?.engine;
    wire::save_definition(&engine, &name, &graph).await?;
    let key = args.key.clone().map(|key| (name.clone(), key));
    let started = engine.start_run(Start { key, ..Start::new(name, input) }).await;
    let started = started.map_err(wire::describe_error).context("starting the run")?;
    if !started.created && !args.quiet {
        eprintln!("run {} has that key; going on with it", started.run);
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
    // Other runs of the folder may be under way; whoever opens it next goes on with them.
    engine.stop(GRACE).await.context("stopping the engine")?;
    conclude(&row)
}

/// Where the run lives.
enum Folder {
    Kept(PathBuf),
    /// Removed with this value.
    Temporary(TempDir),
}

impl Folder {
    fn of(data: Option<PathBuf>) -> anyhow::Result<Self> {
        match data {
            Some(path) => Ok(Self::Kept(path)),
            None => tempfile::Builder::new()
                .prefix("everstep-")
                .tempdir()
                .map(Self::Temporary)
                .context("making a temporary folder; set TMPDIR, or name a folder with --data"),
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
    let store = &engine.world().runs;
    let now = || engine.world().clock.now();
    let mut watch = engine.watch(run);
    let mut seen = 0;
    loop {
        let page = store.journal(run, seen, PAGE).await.context("reading the journal")?;
        let mut entries = Vec::with_capacity(page.len());
        for stored in page {
            seen = stored.seq;
            entries.push(codec::decode(stored.seq, stored.at, stored.row)?);
        }
        live.show(&entries, now());
        let is_over = |entry: &Entry| {
            matches!(
                entry.event,
                Event::RunCompleted { .. }
                    | Event::RunFailed { .. }
                    | Event::RunCancelled { .. }
                    | Event::RunPaused { .. }
            )
        };
        if entries.last().is_some_and(is_over) {
            let row = store.get_run(WorkspaceId::DEFAULT, run).await.context("reading the run")?;
            return row.with_context(|| format!("run {run} is gone"));
        }
        if entries.len() == PAGE {
            continue;
        }
        loop {
            tokio::select! {
                news = watch.next() => match news {
                    Some(news) if news.seq().is_some_and(|seq| seq <= seen) => {}
                    Some(_) => break,
                    None => {
                        watch = engine.watch(run);
                        tokio::time::sleep(TICK).await;
                        break;
                    }
                },
                () = tokio::time::sleep(TICK) => live.tick(now()),
            }
        }
    }
}

/// Stops in order and says how to go on.
async fn interrupt(engine: &Engine, args: &RunArgs, run: RunId) -> anyhow::Result<ExitCode> {
    let Some(data) = &args.data else {
        eprintln!("stopped; run {run} was temporary and is gone (keep runs with --data DIR)");
        return Ok(ExitCode::from(exit::INTERRUPTED));
    };
    eprintln!("stopping …");
    engine.stop(GRACE).await.context("stopping the engine")?;
    let (file, data) = (args.file.display(), data.display());
    let how = match &args.key {
        Some(key) => {
            let name = args.name.as_ref().map(|name| format!(" --name {name}")).unwrap_or_default();
            format!("everstep run {file} --data {data} --key {key}{name}")
        }
        None => format!("everstep serve --data {data}"),
    };
    eprintln!("stopped; run {run} is kept and goes on with: {how}");
    Ok(ExitCode::from(exit::INTERRUPTED))
}

fn conclude(row: &RunRow) -> anyhow::Result<ExitCode> {
    if row.status == Status::Completed {
        output::print(row.output.as_ref().map_or("null", |output| output.json()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let reason = row.error.as_ref().map(ToString::to_string);
    let reason = match row.status {
        Status::Cancelled => reason.unwrap_or_else(|| "CANCELLED".to_owned()),
        _ => reason.ok_or_else(|| anyhow!("run {} is {} without a reason", row.id, row.status))?,
    };
    eprintln!("run {} {}: {}", row.id, row.status, text::safe(&reason));
    Ok(ExitCode::from(exit::FAILED))
}
