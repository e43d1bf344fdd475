//! The runs of W2 as a client of the SDK sees them: a call that starts each run and one that waits for its end.

use std::time::{Duration, Instant};

use anyhow::Context;

use super::alone::CHAIN;
use super::load::{self, Sample};
use super::stage::Stage;
use super::worker::{Carrier, Worker};
use crate::bench::args::Plan;
use crate::bench::cases::case::SAMPLES;
use crate::bench::figure::{Figure, Figures, median};
use crate::bench::report;

/// Alternates between batch starts and the client, so that both have the same conditions of the machine.
pub(super) async fn measure(plan: &Plan, part: &'static str) -> anyhow::Result<Vec<Figure>> {
    let in_flight = plan.loads.iter().copied().max().context("a measurement has a number of runs in flight")?;
    let (mut batches, mut clients) = (Vec::new(), Vec::new());
    for sample in 1..=SAMPLES {
        report::tell(&format!("{part}: {in_flight} in flight, sample {sample} of {SAMPLES}"));
        let mut stage = Stage::set(plan, part, Carrier::Socket, in_flight).await?;
        batches.push(load::take_sample(&mut stage, in_flight, plan.length).await?);
        stage.clear().await?;
        let stage = Stage::set(plan, part, Carrier::Socket, in_flight).await?;
        clients.push(take_sample(plan, &stage, in_flight).await?);
        stage.clear().await?;
    }
    let rate = |samples: &[Sample]| median(samples.iter().map(Sample::rate).collect());
    let middle = |value: &dyn Fn(&Sample) -> f64| median(clients.iter().map(value).collect());
    let figures = Figures::new(part, plan.site.name(), in_flight)
        .with("stepsPerSecond", rate(&clients), "1/s")
        .with("batchStepsPerSecond", rate(&batches), "1/s")
        .with("ofBatch", rate(&clients) / rate(&batches), "ratio")
        .with("serverCpuPerStep", middle(&|sample| sample.per_step(sample.taken.server)), "us")
        .with("workerCpuPerStep", middle(&|sample| sample.per_step(sample.taken.worker)), "us")
        .with("clientCpuPerStep", middle(&|sample| sample.per_step(sample.taken.client)), "us")
        .with("foreign", middle(&|sample| sample.taken.foreign) * 100.0, "%");
    Ok(figures.list())
}

/// The client checks the output of every run.
async fn take_sample(plan: &Plan, stage: &Stage, in_flight: usize) -> anyhow::Result<Sample> {
    let mut client = Worker::start_client(&plan.kit, &stage.server, in_flight)?;
    client.until_ready().await?;
    count_ends(&mut client, plan.length / 4).await?;
    let meter = stage.meter_with(Some(client.process()))?;
    let runs = count_ends(&mut client, plan.length).await?;
    let taken = meter.read()?;
    tokio::task::spawn_blocking(move || drop(client)).await?;
    Ok(Sample { steps: (runs * CHAIN as u64) as f64, taken })
}

/// The number of runs whose end the client has received.
async fn count_ends(client: &mut Worker, length: Duration) -> anyhow::Result<u64> {
    let (began, mut runs) = (Instant::now(), 0);
    while began.elapsed() < length {
        runs += client.ended().await?;
    }
    Ok(runs)
}
