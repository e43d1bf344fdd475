//! The resources of an idle engine.

use std::time::{Duration, Instant};

use everstep_engine::Engine;

use super::sleeping;
use crate::bench::args::Plan;
use crate::bench::figure::{Figure, Figures};
use crate::bench::{ground, process, report, shapes};

/// Sleeping runs: an engine that polls them would show in the figures.
const SLEEPING_RUNS: usize = 1_000;
const SETTLE_DURATION: Duration = Duration::from_secs(1);

pub(super) async fn measure(plan: &Plan) -> anyhow::Result<Vec<Figure>> {
    report::tell("idle");
    let (length, store_name) = (plan.length, plan.site.name());
    ground::sample(&plan.site, move |stores| async move {
        let engine = ground::start_engine(stores, "sleep", &shapes::sleep()).await?;
        sleeping::start_sleepers(&engine, SLEEPING_RUNS).await?;
        measure_resources(&engine, Figures::new("idle", store_name, 0), length).await
    })
    .await
}

/// The resources of this process while its engine has nothing to do.
pub(super) async fn measure_resources(
    engine: &Engine,
    figures: Figures,
    length: Duration,
) -> anyhow::Result<Vec<Figure>> {
    tokio::time::sleep(SETTLE_DURATION).await;
    let store = &engine.world().runs;
    let (calls, work, began) = (store.calls(), process::processor_seconds()?, Instant::now());
    tokio::time::sleep(length).await;
    let seconds = began.elapsed().as_secs_f64();
    let figures = figures
        .with("queriesPerSecond", (store.calls() - calls) as f64 / seconds, "1/s")
        .with("cpu", (process::processor_seconds()? - work) / seconds * 100.0, "%")
        .with("rss", process::resident_memory()?, "MB");
    Ok(figures.list())
}
