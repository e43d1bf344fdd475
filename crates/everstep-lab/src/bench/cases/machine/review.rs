//! T4: the memory of the server while many runs wait for an approval.

use std::time::{Duration, Instant};

use super::stage::Stage;
use crate::bench::args::Plan;
use crate::bench::figure::{Figure, Figures};
use crate::bench::report;

const RUNS: usize = 100_000;
const QUICK_RUNS: usize = 2_000;
/// Memory that was needed only to start them is released by then.
const SETTLE_DURATION: Duration = Duration::from_secs(3);

/// Measured in the process that started them, which is the worse case: a restarted one would not load them.
pub(super) async fn measure(plan: &Plan, part: &'static str) -> anyhow::Result<Vec<Figure>> {
    let runs = if plan.is_quick { QUICK_RUNS } else { RUNS };
    report::tell(&format!("{part}: {runs} runs"));
    let stage = Stage::set(plan).await?;
    let before = stage.server.process().resident_memory()?;
    let began = Instant::now();
    stage.prepare(runs, 1).await?;
    let time = began.elapsed();
    tokio::time::sleep(SETTLE_DURATION).await;
    let after = stage.server.process().resident_memory()?;
    stage.clear().await?;
    let figures = Figures::new(part, plan.site.name(), runs)
        .with("serverRss", after, "MB")
        .with("serverGrowth", after - before, "MB")
        .with("toReview", time.as_secs_f64(), "s");
    Ok(figures.list())
}
