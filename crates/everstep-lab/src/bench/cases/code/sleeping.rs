//! W5: the memory of the server and of the worker, and the disk space, for ten thousand sleeping runs.

use std::time::{Duration, Instant};

use super::stage::Stage;
use super::starter::{Starter, Way};
use super::worker::Carrier;
use crate::bench::args::Plan;
use crate::bench::figure::{Figure, Figures};
use crate::bench::report;

const RUNS: usize = 10_000;
/// Runs that end at once come first, so that both processes have the memory that any run needs.
const WARM_UP_RUNS: usize = 2_000;
const CAPACITY: usize = 1_000;
/// Memory that was needed only to start them is released by then.
const SETTLE_DURATION: Duration = Duration::from_secs(3);

pub(super) async fn measure(plan: &Plan, part: &'static str) -> anyhow::Result<Vec<Figure>> {
    report::tell(&format!("{part}: {RUNS} runs"));
    let stage = Stage::set(plan, part, Carrier::Socket, CAPACITY).await?;
    start(&stage, "nothing", WARM_UP_RUNS).await?;
    let before = Footprint::measure(plan, &stage).await?;
    let began = Instant::now();
    start(&stage, "nap", RUNS).await?;
    let time = began.elapsed();
    let after = Footprint::measure(plan, &stage).await?;
    stage.clear().await?;
    let mut figures = Figures::new(part, plan.site.name(), RUNS)
        .with("serverGrowth", after.server - before.server, "MB")
        .with("workerGrowth", after.worker - before.worker, "MB")
        .with("serverRss", after.server, "MB")
        .with("workerRss", after.worker, "MB")
        .with("toSleep", time.as_secs_f64(), "s");
    if let Some((after, before)) = after.disk.zip(before.disk) {
        figures = figures.with("diskGrowth", after - before, "MB");
    }
    Ok(figures.list())
}

/// Starts runs and waits until none is active: they have ended, or sleep in the database.
async fn start(stage: &Stage, workflow: &str, runs: usize) -> anyhow::Result<()> {
    let mut starter = Starter::new(stage, workflow, Way::Each(16)).await?;
    starter.start(runs);
    starter.until(runs as u64).await?;
    stage.server.until_idle().await
}

/// Memory and disk space, in megabytes.
struct Footprint {
    server: f64,
    worker: f64,
    /// Unknown if the database's server was not started for the measurement.
    disk: Option<f64>,
}

impl Footprint {
    async fn measure(plan: &Plan, stage: &Stage) -> anyhow::Result<Self> {
        tokio::time::sleep(SETTLE_DURATION).await;
        let (server, worker) = (stage.server.process(), stage.worker.process());
        let disk = plan.database_size(&stage.scratch.site())?.map(|bytes| bytes / 1e6);
        Ok(Self { server: server.resident_memory()?, worker: worker.resident_memory()?, disk })
    }
}
