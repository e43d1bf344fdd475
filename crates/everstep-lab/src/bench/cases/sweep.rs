//! Runs while the sweeper deletes many others: the time of a run beside a sweep, of that on a quiet store.

use std::sync::Arc;
use std::time::Duration;

use everstep_core::time::Timestamp;
use everstep_store::{RunStore, Stores};

use super::case::SAMPLES;
use super::steps;
use crate::bench::args::Plan;
use crate::bench::drive::{self, Load};
use crate::bench::figure::{Figure, Figures, median, millis, quantile};
use crate::bench::ground::Scratch;
use crate::bench::shapes::CHAIN;
use crate::bench::{ground, report};

/// Ended runs, more than are deleted during all samples.
const RUNS: usize = 200_000;
const QUICK_RUNS: usize = 60_000;
/// The runs of one call, as the sweeper of a node calls it.
const SWEEP_RUNS: usize = 1_000;

/// The times of runs, in milliseconds.
struct Times {
    p50: f64,
    p99: f64,
}

/// Alternates between a quiet store and one with a sweep, both with the same runs, so that they have the same conditions
/// of the disk.
pub(super) async fn measure(plan: &Plan) -> anyhow::Result<Vec<Figure>> {
    let runs = plan.records(RUNS, QUICK_RUNS);
    report::tell(&format!("sweep: creating {runs} ended runs"));
    let scratch = Scratch::new(&plan.site).await?;
    let site = scratch.site();
    let fill = move |stores: Stores| async move { steps::fill_with_ended(&*stores.runs, runs).await };
    let later = ground::visit(&site, fill).await?;
    plan.analyze(&site);
    let (mut quiet, mut busy) = (Vec::new(), Vec::new());
    for sample in 1..=SAMPLES {
        report::tell(&format!("sweep: sample {sample} of {SAMPLES}"));
        let length = plan.length;
        quiet.push(ground::visit(&site, move |stores| measure_runs(stores, length, None)).await?);
        busy.push(ground::visit(&site, move |stores| measure_runs(stores, length, Some(later))).await?);
    }
    scratch.remove().await?;
    let middle = |times: &[Times], time: fn(&Times) -> f64| median(times.iter().map(time).collect());
    let (p50, busy_p50) = (middle(&quiet, |times| times.p50), middle(&busy, |times| times.p50));
    let (p99, busy_p99) = (middle(&quiet, |times| times.p99), middle(&busy, |times| times.p99));
    let figures = Figures::new("sweep", plan.site.name(), 1)
        .with("records", runs as f64, "")
        .with("quietP50", p50, "ms")
        .with("sweepP50", busy_p50, "ms")
        .with("quietP99", p99, "ms")
        .with("sweepP99", busy_p99, "ms")
        .with("p50OfQuiet", busy_p50 / p50, "ratio")
        .with("p99OfQuiet", busy_p99 / p50, "ratio");
    Ok(figures.list())
}

/// One run after the other, beside a sweep at a later time or without one.
async fn measure_runs(stores: Stores, length: Duration, later: Option<Timestamp>) -> anyhow::Result<Times> {
    let store = Arc::clone(&stores.runs);
    let engine = ground::start_engine(stores, CHAIN.name, &(CHAIN.graph)()).await?;
    let sweep = later.map(|later| tokio::spawn(delete_all(store, later)));
    let driven = drive::drive(&engine, &Load::new(CHAIN.name, 1, length)).await?;
    if let Some(sweep) = sweep {
        anyhow::ensure!(!sweep.is_finished(), "the sweep was over before the sample: name more runs with --records");
        sweep.abort();
    }
    let mut times: Vec<_> = driven.ended.into_iter().map(|(_, time)| time).collect();
    Ok(Times { p50: millis(quantile(&mut times, 0.5)), p99: millis(quantile(&mut times, 0.99)) })
}

async fn delete_all(store: Arc<dyn RunStore>, later: Timestamp) -> everstep_store::Result<()> {
    while store.sweep(later, SWEEP_RUNS).await? > 0 {}
    Ok(())
}
