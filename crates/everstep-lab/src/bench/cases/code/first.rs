//! The first runs of a worker, on a server that has executed the same workflows before.

use std::time::{Duration, Instant};

use anyhow::ensure;

use super::stage::Stage;
use super::worker::Carrier;
use crate::bench::args::Plan;
use crate::bench::cases::case::SAMPLES;
use crate::bench::connection::Answer;
use crate::bench::figure::{Figure, Figures, median, millis};
use crate::bench::report;

/// A worker has one first run, so that there are more samples than of other figures.
const TIMES: usize = 3 * SAMPLES;
/// The runs of ten steps of each worker.
const CHAINS: usize = 10;
const STEPS: f64 = super::alone::CHAIN as f64;
const CAPACITY: usize = 100;

/// The first runs of workers, in milliseconds.
#[derive(Default)]
struct Firsts {
    /// The first run of 500 parallel steps, from its turn to the acknowledgement of its end.
    fan: Vec<f64>,
    /// The same as its client measures it, from the start over HTTP to its end.
    client_fan: Vec<f64>,
    /// A step of the first runs of ten steps: the mean of all of them, of the first run, and of the last one.
    step: Vec<f64>,
    first_step: Vec<f64>,
    last_step: Vec<f64>,
}

/// Each sample has a worker for its first run of 500 parallel steps (W3), and another one for its first runs of ten steps
/// (W1).
pub(super) async fn measure(plan: &Plan, part: &'static str) -> anyhow::Result<Vec<Figure>> {
    let mut stage = Stage::set(plan, part, Carrier::Socket, CAPACITY).await?;
    for workflow in ["fan", "chain"] {
        for _ in 0..CHAINS {
            run(&stage, workflow).await?;
        }
    }
    let mut firsts = Firsts::default();
    for sample in 1..=TIMES {
        report::tell(&format!("{part}: sample {sample} of {TIMES}"));
        stage = stage.replace_worker(plan, Carrier::Socket, CAPACITY).await?;
        stage.worker.count()?;
        firsts.client_fan.push(millis(run(&stage, "fan").await?));
        firsts.fan.extend(run_times(&mut stage, 1).await?);
        stage = stage.replace_worker(plan, Carrier::Socket, CAPACITY).await?;
        stage.worker.count()?;
        for _ in 0..CHAINS {
            run(&stage, "chain").await?;
        }
        let runs = run_times(&mut stage, CHAINS).await?;
        firsts.step.push(runs.iter().sum::<f64>() / CHAINS as f64 / STEPS);
        firsts.first_step.push(runs[0] / STEPS);
        firsts.last_step.push(runs[CHAINS - 1] / STEPS);
    }
    stage.clear().await?;
    let figures = Figures::new(part, plan.site.name(), 1)
        .with("firstFan", median(firsts.fan), "ms")
        .with("firstClientFan", median(firsts.client_fan), "ms")
        .with("firstRunsPerStep", median(firsts.step), "ms")
        .with("firstRunPerStep", median(firsts.first_step), "ms")
        .with("tenthRunPerStep", median(firsts.last_step), "ms");
    Ok(figures.list())
}

/// The times of a worker's runs, when it has received the ends of all of them.
async fn run_times(stage: &mut Stage, runs: usize) -> anyhow::Result<Vec<f64>> {
    let mut ended = 0;
    while ended < runs as u64 {
        ended += stage.worker.ended().await?;
    }
    let times = stage.worker.times().await?.runs;
    ensure!(times.len() == runs, "the worker has measured {} runs instead of {runs}", times.len());
    Ok(times)
}

/// Starts a run and waits for its end.
async fn run(stage: &Stage, workflow: &str) -> anyhow::Result<Duration> {
    let mut connection = stage.connect().await?;
    let request = stage.start_request(workflow, "?waitSeconds=30");
    let asked = Instant::now();
    let Answer { status, body } = connection.ask(&request).await?;
    ensure!(status == 201 && body.contains("\"completed\""), "no run of {workflow}: {status} {body}");
    Ok(asked.elapsed())
}
