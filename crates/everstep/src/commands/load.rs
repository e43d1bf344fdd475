//! `everstep load`: many runs of a file, all to their ends.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use everstep_core::ids::{RunId, WorkspaceId};
use everstep_core::payload::Payload;
use everstep_core::status::Status;
use everstep_engine::{Blind, Engine, NewStart};
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::args::LoadArgs;
use crate::config::Config;
use crate::signals::Stop;
use crate::wire::Node;
use crate::{definition, exit, input, output, wire};

const GRACE: Duration = Duration::from_secs(5);
/// A run is looked at this often, besides when it ends: it may have been paused.
const LOOK: Duration = Duration::from_secs(5);

#[derive(Default)]
struct Summary {
    started: u32,
    existing: u32,
    completed: u32,
    failed: u32,
}

pub(crate) async fn run(args: LoadArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let mut stop = Stop::new()?;
    let graph = definition::read(&args.file)?.and_then(|definition| wire::check(&definition));
    let graph = graph.map_err(|problems| definition::refuse(&args.file, &problems))?;
    let name = definition::name(&args.file, args.name.as_deref())?;
    let input = input::read(&args.input)?;
    let store = wire::open_store(&config.server.data, &config.database).await?;
    let vault = wire::open_vault(&store, &config.server.data, config)?;
    let node = Node::start(store, &vault, config, Arc::new(Blind)).await?;
    let engine = node.engine.clone();
    wire::publish(&engine, &name, &graph).await?;
    let began = Instant::now();
    let summary = tokio::select! {
        summary = start_all(&engine, &name, &input, &args) => summary?,
        _ = stop.next() => {
            eprintln!("stopping …");
            node.stop(GRACE).await?;
            eprintln!("stopped; run the same command again to continue");
            return Ok(ExitCode::from(exit::INTERRUPTED));
        }
    };
    let seconds = began.elapsed().as_secs_f64();
    node.stop(GRACE).await?;
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

async fn start_all(engine: &Engine, name: &str, input: &Payload, args: &LoadArgs) -> anyhow::Result<Summary> {
    let places = Arc::new(Semaphore::new(args.concurrency as usize));
    let mut runs = JoinSet::new();
    for number in 0..args.runs {
        let place = Arc::clone(&places).acquire_owned().await.context("waiting for a place")?;
        let start =
            NewStart { key: Some((name.to_owned(), format!("load-{number}"))), ..NewStart::new(name, input.clone()) };
        let engine = engine.clone();
        runs.spawn(async move {
            let started = engine.start_run(start).await.map_err(wire::blame).context("starting a run")?;
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
        let row = engine.world().store.get_run(WorkspaceId::DEFAULT, run).await.context("reading a run")?;
        let row = row.with_context(|| format!("run {run} is gone"))?;
        if row.ended_at.is_some() || row.status == Status::Paused {
            return Ok(row.status);
        }
        // Whether it ended or the time is over: look at it again.
        let _ = tokio::time::timeout(LOOK, async { while watch.next().await.is_some() {} }).await;
    }
}
