//! T1: one client, one request at a time, each for another run with a history of twenty rows.

use std::time::{Duration, Instant};

use tokio::time::MissedTickBehavior;

use super::client::{Client, MachineRun};
use super::stage::Stage;
use crate::bench::args::Plan;
use crate::bench::cases::latency;
use crate::bench::figure::{Figure, Figures, median, millis, quantile};

/// Every transition is a row of the history, so this is also the version of the runs.
const HISTORY_ROWS: u32 = 20;
/// Requests per second of the client that does not wait for the previous answer to send the next request.
pub(super) const PACED_PER_SECOND: u32 = 50;
/// Requests of the client that sends the next request after an answer, per second of the sample's length, and before
/// that to warm up.
const ALONE_PER_SECOND: u32 = 100;
const WARM_UP_PER_SECOND: u32 = 25;

/// The times of one sample, in milliseconds.
struct Sample {
    commit: f64,
    /// The median and the 95th percentile of requests one after the other, and of paced ones.
    alone: [f64; 2],
    paced: [f64; 2],
    foreign: f64,
}

/// Alternates between the store and the server, so that both have the same conditions of the disk.
pub(super) async fn measure(plan: &Plan, part: &'static str) -> anyhow::Result<Vec<Figure>> {
    let mut samples = Vec::new();
    for _ in super::samples(plan, part) {
        let commit = latency::measure_commit(&plan.site, plan.length).await?;
        samples.push(take_sample(plan, commit).await?);
    }
    let middle = |value: fn(&Sample) -> f64| median(samples.iter().map(value).collect());
    let figures = Figures::new(part, plan.site.name(), 1)
        .with("commitP50", middle(|sample| sample.commit), "ms")
        .with("transitionP50", middle(|sample| sample.alone[0]), "ms")
        .with("transitionP95", middle(|sample| sample.alone[1]), "ms")
        .with("transitionOfCommit", middle(|sample| sample.alone[0] / sample.commit), "ratio")
        .with("pacedP50", middle(|sample| sample.paced[0]), "ms")
        .with("pacedP95", middle(|sample| sample.paced[1]), "ms")
        .with("foreign", middle(|sample| sample.foreign) * 100.0, "%");
    Ok(figures.list())
}

async fn take_sample(plan: &Plan, commit: f64) -> anyhow::Result<Sample> {
    let stage = Stage::set(plan).await?;
    let requests = |per_second: u32| (f64::from(per_second) * plan.length.as_secs_f64()) as usize;
    let (warm, alone, paced) = (requests(WARM_UP_PER_SECOND), requests(ALONE_PER_SECOND), requests(PACED_PER_SECOND));
    let mut runs = stage.prepare(warm + alone + paced, HISTORY_ROWS).await?;
    let (warm, rest) = runs.split_at_mut(warm);
    let (alone, paced) = rest.split_at_mut(alone);
    let mut client = stage.client().await?;
    act_on_all(&mut client, warm).await?;
    let meter = stage.meter()?;
    let mut alone = act_on_all(&mut client, alone).await?;
    let mut paced = act_at_pace(&mut client, paced).await?;
    let foreign = meter.read()?.foreign;
    stage.clear().await?;
    Ok(Sample { commit, alone: ends(&mut alone), paced: ends(&mut paced), foreign })
}

/// Moves each run once. Returns the durations.
async fn act_on_all(client: &mut Client, runs: &mut [MachineRun]) -> anyhow::Result<Vec<Duration>> {
    let mut times = Vec::with_capacity(runs.len());
    for run in runs {
        let asked = Instant::now();
        client.act(run).await?;
        times.push(asked.elapsed());
    }
    Ok(times)
}

/// Moves each run once, at a constant rate. A request that waits for the answer to the previous one is late, and its
/// duration contains that wait.
pub(super) async fn act_at_pace(client: &mut Client, runs: &mut [MachineRun]) -> anyhow::Result<Vec<Duration>> {
    let mut times = Vec::with_capacity(runs.len());
    let mut clock = tokio::time::interval(Duration::from_secs(1) / PACED_PER_SECOND);
    clock.set_missed_tick_behavior(MissedTickBehavior::Burst);
    for run in runs {
        let due = clock.tick().await;
        client.act(run).await?;
        times.push(due.elapsed());
    }
    Ok(times)
}

/// The median and the 95th percentile, in milliseconds.
fn ends(times: &mut [Duration]) -> [f64; 2] {
    [0.5, 0.95].map(|part| millis(quantile(times, part)))
}
