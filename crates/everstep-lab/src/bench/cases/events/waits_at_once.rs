//! One event for many waits of runs that wait in the database.

use super::stage::Stage;
use super::{count, waits};
use crate::bench::args::Plan;
use crate::bench::figure::{Figure, Figures, median};
use crate::bench::{ground, report};

const WAITS: usize = 10_000;
const WAITS_QUICK: usize = 500;
/// The number that all runs wait for.
const NUMBER: usize = 7;

pub(super) async fn measure(plan: &Plan, name: &str) -> anyhow::Result<Vec<Figure>> {
    let waits = count(plan, WAITS, WAITS_QUICK);
    let mut rates = Vec::new();
    for sample in 1..=plan.samples {
        report::tell(&format!("{name}: sample {sample} of {}", plan.samples));
        rates.push(measure_rate(plan, waits).await?);
    }
    let figures = Figures::new(name, plan.site.name(), 1).with("waits", waits as f64, "").with(
        "resolvedPerSecond",
        median(rates),
        "1/s",
    );
    Ok(figures.list())
}

/// The number of runs that continue per second, up to the last one.
async fn measure_rate(plan: &Plan, waits: usize) -> anyhow::Result<f64> {
    ground::sample(&plan.site, move |stores| async move {
        let mut stage = Stage::set(stores, &waits::workflows(1)).await?;
        waits::open(&mut stage, waits, 1, |_| NUMBER).await?;
        let time = waits::resolve_all(&mut stage, waits, NUMBER).await?;
        stage.end().await?;
        Ok(waits as f64 / time.as_secs_f64())
    })
    .await
}
