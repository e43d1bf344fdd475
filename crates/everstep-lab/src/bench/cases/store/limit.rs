//! The store's own limit: the rate of ops in full batches, without an engine.

use std::sync::Arc;
use std::time::{Duration, Instant};

use everstep_store::RecordStore;

use super::ops::{self, Ops};
use crate::bench::args::Plan;
use crate::bench::drive::Pace;
use crate::bench::figure::{Figure, Figures, median};
use crate::bench::{ground, process, report};

pub(super) async fn measure(plan: &Plan, name: &str) -> anyhow::Result<Vec<Figure>> {
    let (mut rates, mut work) = (Vec::new(), Vec::new());
    for sample in 1..=plan.samples {
        report::tell(&format!("{name}: sample {sample} of {}", plan.samples));
        let length = plan.length;
        let pace = ground::sample(&plan.site, move |stores| apply_for(stores.records, ops::counters(), length)).await?;
        rates.push(pace.per_second);
        work.push(pace.work);
    }
    let figures = Figures::new(name, plan.site.name(), 1).with("opsPerSecond", median(rates), "1/s").with(
        "cpuPerOp",
        median(work),
        "us",
    );
    Ok(figures.list())
}

/// Applies full batches of increments for `length` after a quarter of it, one batch after the other, as the record
/// writer does. The time in which a batch is made is not counted.
pub(super) async fn apply_for(
    store: Arc<dyn RecordStore>,
    counters: Vec<String>,
    length: Duration,
) -> anyhow::Result<Pace> {
    let mut ops = Ops::new(counters);
    let mut batch = ops.next_batch();
    let warm = Instant::now() + length / 4;
    while Instant::now() < warm {
        ops.apply(&*store, &batch).await?;
        batch = ops.next_batch();
    }
    let (mut count, mut spent, work) = (0, Duration::ZERO, process::scheduled_time()?);
    while spent < length {
        let began = Instant::now();
        ops.apply(&*store, &batch).await?;
        spent += began.elapsed();
        count += batch.len() as u64;
        batch = ops.next_batch();
    }
    Ok(Pace::from_totals(count, spent, process::scheduled_time()?.saturating_sub(work)))
}
