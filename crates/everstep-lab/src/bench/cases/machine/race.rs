//! T3: fifty requests for one run at the same time, of which one succeeds.

use std::time::Instant;

use anyhow::ensure;
use futures_util::future;

use super::client::{Client, MachineRun};
use super::stage::Stage;
use crate::bench::args::Plan;
use crate::bench::figure::{Figure, Figures, median, millis, quantile};

const REQUESTS: usize = 50;
/// Races per second of the sample's length.
const RACES_PER_SECOND: f64 = 20.0;
/// Races that are not measured.
const WARM_UP_RACES: usize = 5;

struct Sample {
    p50: f64,
    p95: f64,
    foreign: f64,
}

pub(super) async fn measure(plan: &Plan, part: &'static str) -> anyhow::Result<Vec<Figure>> {
    let mut samples = Vec::new();
    for _ in super::samples(plan, part) {
        samples.push(take_sample(plan).await?);
    }
    let middle = |value: fn(&Sample) -> f64| median(samples.iter().map(value).collect());
    let figures = Figures::new(part, plan.site.name(), REQUESTS)
        .with("lastAnswerP50", middle(|sample| sample.p50), "ms")
        .with("lastAnswerP95", middle(|sample| sample.p95), "ms")
        .with("foreign", middle(|sample| sample.foreign) * 100.0, "%");
    Ok(figures.list())
}

async fn take_sample(plan: &Plan) -> anyhow::Result<Sample> {
    let stage = Stage::set(plan).await?;
    let races = (RACES_PER_SECOND * plan.length.as_secs_f64()) as usize;
    let runs = stage.prepare(WARM_UP_RACES + races, 1).await?;
    let mut clients = stage.clients(REQUESTS).await?;
    let (warm_up, measured) = runs.split_at(WARM_UP_RACES);
    for run in warm_up {
        race(&mut clients, run).await?;
    }
    let meter = stage.meter()?;
    let mut times = Vec::with_capacity(races);
    for run in measured {
        let began = Instant::now();
        race(&mut clients, run).await?;
        times.push(began.elapsed());
    }
    let foreign = meter.read()?.foreign;
    stage.clear().await?;
    let [p50, p95] = [0.5, 0.95].map(|part| millis(quantile(&mut times, part)));
    Ok(Sample { p50, p95, foreign })
}

/// All clients send the same request; returns after the last answer.
async fn race(clients: &mut [Client], run: &MachineRun) -> anyhow::Result<()> {
    let statuses = future::try_join_all(clients.iter_mut().map(|client| client.try_act(run))).await?;
    let winners = statuses.iter().filter(|status| **status == 200).count();
    ensure!(winners == 1, "{winners} of {REQUESTS} requests moved run {}", run.id);
    Ok(())
}
