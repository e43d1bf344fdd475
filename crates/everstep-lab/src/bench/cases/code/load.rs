//! W2: a constant number of runs in flight: when some end, the same number is started.

use std::time::{Duration, Instant};

use super::alone::CHAIN;
use super::among;
use super::stage::Stage;
use super::starter::{Starter, Way};
use super::worker::Carrier;
use crate::bench::args::Plan;
use crate::bench::cases::case::SAMPLES;
use crate::bench::cases::meter::Taken;
use crate::bench::figure::{Figure, Figures, median};
use crate::bench::ground::Scratch;
use crate::bench::report;

/// The work in a sample, and the processor time of each process.
pub(super) struct Sample {
    pub(super) steps: f64,
    pub(super) taken: Taken,
}

impl Sample {
    /// Steps per second.
    pub(super) fn rate(&self) -> f64 {
        self.steps / self.taken.time.as_secs_f64()
    }

    /// Microseconds of a processor time for each step.
    pub(super) fn per_step(&self, time: Duration) -> f64 {
        time.as_secs_f64() * 1e6 / self.steps.max(1.0)
    }
}

pub(super) async fn measure(plan: &Plan, part: &'static str, carrier: Carrier) -> anyhow::Result<Vec<Figure>> {
    let (mut figures, mut filled) = (Vec::new(), among::create(plan, part).await?);
    for in_flight in &plan.loads {
        figures.extend(measure_one(plan, part, carrier, *in_flight, &mut filled).await?);
    }
    if let Some(filled) = filled {
        filled.remove().await?;
    }
    Ok(figures)
}

async fn measure_one(
    plan: &Plan,
    part: &'static str,
    carrier: Carrier,
    in_flight: usize,
    filled: &mut Option<Scratch>,
) -> anyhow::Result<Vec<Figure>> {
    let (mut samples, mut among) = (Vec::new(), Vec::new());
    for sample in 1..=SAMPLES {
        report::tell(&format!("{part}: {in_flight} in flight, sample {sample} of {SAMPLES}"));
        let mut stage = Stage::set(plan, part, carrier, in_flight).await?;
        samples.push(take_sample(&mut stage, in_flight, plan.length).await?);
        stage.clear().await?;
        if let Some(scratch) = filled.take() {
            let mut stage = Stage::set_on(scratch, plan, part, carrier, in_flight).await?;
            among.push(take_sample(&mut stage, in_flight, plan.length).await?.rate());
            *filled = Some(stage.leave().await?);
        }
    }
    let middle = |value: &dyn Fn(&Sample) -> f64| median(samples.iter().map(value).collect());
    let per_step = |time: fn(&Taken) -> Duration| middle(&|sample| sample.per_step(time(&sample.taken)));
    let rate = middle(&Sample::rate);
    let mut figures = Figures::new(part, plan.site.name(), in_flight)
        .with("stepsPerSecond", rate, "1/s")
        .with("runsPerSecond", rate / CHAIN as f64, "1/s")
        .with("serverCpuPerStep", per_step(|taken| taken.server), "us")
        .with("workerCpuPerStep", per_step(|taken| taken.worker), "us");
    if samples.iter().all(|sample| sample.taken.database.is_some()) {
        figures = figures.with("databaseCpuPerStep", per_step(|taken| taken.database.unwrap_or_default()), "us");
    }
    let mut figures = figures.with("clientCpuPerStep", per_step(|taken| taken.client), "us").with(
        "foreign",
        middle(&|sample| sample.taken.foreign) * 100.0,
        "%",
    );
    if !among.is_empty() {
        let among = median(among);
        figures = figures.with("stepsPerSecondAmong", among, "1/s").with("amongOfEmpty", among / rate, "ratio");
    }
    Ok(figures.list())
}

pub(super) async fn take_sample(stage: &mut Stage, in_flight: usize, length: Duration) -> anyhow::Result<Sample> {
    let mut starter = Starter::new(stage, "chain", Way::Batch(1)).await?;
    stage.worker.count()?;
    starter.start(in_flight);
    keep_running(stage, &mut starter, length / 4).await?;
    let meter = stage.meter()?;
    let runs = keep_running(stage, &mut starter, length).await?;
    let taken = meter.read()?;
    Ok(Sample { steps: (runs * CHAIN as u64) as f64, taken })
}

/// Replaces the runs that end. Returns their number.
async fn keep_running(stage: &mut Stage, starter: &mut Starter, length: Duration) -> anyhow::Result<u64> {
    let (began, mut runs) = (Instant::now(), 0);
    while began.elapsed() < length {
        starter.check()?;
        let ended = stage.worker.ended().await?;
        runs += ended;
        starter.start(ended as usize);
    }
    Ok(runs)
}
