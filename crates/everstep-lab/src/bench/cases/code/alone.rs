//! One run at a time: the duration of a step without other load, and of many steps at the same time.

use std::time::{Duration, Instant};

use anyhow::ensure;

use super::commits::Commits;
use super::stage::Stage;
use super::worker::Carrier;
use super::{among, commits};
use crate::bench::args::Plan;
use crate::bench::cases::case::SAMPLES;
use crate::bench::cases::latency;
use crate::bench::connection::Answer;
use crate::bench::figure::{Figure, Figures, median, millis, quantile};
use crate::bench::report;

/// Steps of the worker's workflow `chain`, one after the other.
pub(super) const CHAIN: usize = 10;
/// Steps of the worker's workflow `fan`, all at the same time.
const FAN: usize = 500;
const CAPACITY: usize = 100;

/// The times of one sample, in milliseconds.
struct Sample {
    /// Runs and steps as the worker measures them.
    run: [f64; 2],
    step: [f64; 2],
    /// Runs as a client measures them that starts one and waits for its end.
    client: [f64; 2],
    foreign: f64,
}

/// W1: runs of ten steps, one after the other, in turns with commits of the store alone.
pub(super) async fn measure_chain(plan: &Plan, part: &'static str, carrier: Carrier) -> anyhow::Result<Vec<Figure>> {
    let (mut samples, mut among, mut commits) = (Vec::new(), Vec::new(), Vec::new());
    let mut filled = among::create(plan, part).await?;
    for number in 1..=SAMPLES {
        report::tell(&format!("{part}: sample {number} of {SAMPLES}"));
        commits.push(latency::measure_commit(&plan.site, plan.length / 2).await?);
        let mut stage = Stage::set(plan, part, carrier, CAPACITY).await?;
        samples.push(take_sample(&mut stage, "chain", plan.length).await?);
        stage.clear().await?;
        if let Some(scratch) = filled.take() {
            let mut stage = Stage::set_on(scratch, plan, part, carrier, CAPACITY).await?;
            among.push(take_sample(&mut stage, "chain", plan.length).await?.run[0]);
            filled = Some(stage.leave().await?);
        }
    }
    if let Some(filled) = filled {
        filled.remove().await?;
    }
    let middle = |value: fn(&Sample) -> f64| median(samples.iter().map(value).collect());
    let (steps, commit) = (CHAIN as f64, median(commits));
    let mut figures = Figures::new(part, plan.site.name(), 1)
        .with("perStepP50", middle(|sample| sample.run[0]) / steps, "ms")
        .with("perStepP99", middle(|sample| sample.run[1]) / steps, "ms")
        .with("stepP50", middle(|sample| sample.step[0]), "ms")
        .with("stepP99", middle(|sample| sample.step[1]), "ms")
        .with("clientRunP50", middle(|sample| sample.client[0]), "ms")
        .with("clientRunP99", middle(|sample| sample.client[1]), "ms")
        .with("commitP50", commit, "ms")
        .with("stepOfCommit", middle(|sample| sample.run[0]) / steps / commit, "ratio")
        .with("clientRunOfCommit", middle(|sample| sample.client[0]) / commit, "ratio")
        .with("foreign", middle(|sample| sample.foreign) * 100.0, "%");
    if !among.is_empty() {
        let among = median(among);
        figures = figures.with("perStepP50Among", among / steps, "ms").with(
            "amongOfEmpty",
            among / middle(|sample| sample.run[0]),
            "ratio",
        );
    }
    if carrier == Carrier::Socket
        && let Some(Commits { all, writing }) = commits::count(plan, part).await?
    {
        figures = figures.with("commitsPerRun", all, "").with("writingCommitsPerRun", writing, "");
    }
    Ok(figures.list())
}

/// W3: runs of 500 steps at the same time.
pub(super) async fn measure_fan(plan: &Plan, part: &'static str) -> anyhow::Result<Vec<Figure>> {
    let mut samples = Vec::new();
    for number in 1..=SAMPLES {
        report::tell(&format!("{part}: sample {number} of {SAMPLES}"));
        let mut stage = Stage::set(plan, part, Carrier::Socket, CAPACITY).await?;
        samples.push(take_sample(&mut stage, "fan", plan.length).await?);
        stage.clear().await?;
    }
    let middle = |value: fn(&Sample) -> f64| median(samples.iter().map(value).collect());
    let figures = Figures::new(part, plan.site.name(), 1)
        .with("runP50", middle(|sample| sample.run[0]), "ms")
        .with("runP99", middle(|sample| sample.run[1]), "ms")
        .with("clientRunP50", middle(|sample| sample.client[0]), "ms")
        .with("stepsPerSecond", FAN as f64 / middle(|sample| sample.run[0]) * 1e3, "1/s")
        .with("foreign", middle(|sample| sample.foreign) * 100.0, "%");
    Ok(figures.list())
}

async fn take_sample(stage: &mut Stage, workflow: &str, length: Duration) -> anyhow::Result<Sample> {
    run_for(stage, workflow, length / 4).await?;
    stage.worker.mark().await?;
    let meter = stage.meter()?;
    let mut client = run_for(stage, workflow, length).await?;
    let foreign = meter.read()?.foreign;
    let times = stage.worker.times().await?;
    ensure!(!times.runs.is_empty(), "the worker has received no end of a run of {workflow}");
    let mut runs = durations(&times.runs);
    let mut steps = durations(&times.steps);
    Ok(Sample { run: ends(&mut runs), step: ends(&mut steps), client: ends(&mut client), foreign })
}

/// Starts one run after the other and waits for its end.
async fn run_for(stage: &Stage, workflow: &str, length: Duration) -> anyhow::Result<Vec<Duration>> {
    let mut connection = stage.connect().await?;
    let request = stage.start_request(workflow, "?waitSeconds=30");
    let (began, mut times) = (Instant::now(), Vec::new());
    while began.elapsed() < length {
        let asked = Instant::now();
        let Answer { status, body } = connection.ask(&request).await?;
        ensure!(status == 201 && body.contains("\"completed\""), "no run of {workflow}: {status} {body}");
        times.push(asked.elapsed());
    }
    Ok(times)
}

/// The median and a high percentile, in milliseconds.
fn ends(times: &mut [Duration]) -> [f64; 2] {
    [0.5, 0.99].map(|part| millis(quantile(times, part)))
}

fn durations(millis: &[f64]) -> Vec<Duration> {
    millis.iter().map(|millis| Duration::from_secs_f64(millis.max(0.0) / 1e3)).collect()
}
