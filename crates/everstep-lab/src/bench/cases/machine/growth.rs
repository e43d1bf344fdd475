//! Whether a transition costs the same late in a long run as early in it.

use std::time::{Duration, Instant};

use super::client::{Client, MachineRun};
use super::stage::Stage;
use crate::bench::args::Plan;
use crate::bench::figure::{Figure, Figures, median, millis, quantile};

const EARLY: u32 = 10;
const LATE: u32 = 1_000;
/// Transitions of each run, around its version, that are measured.
const REACH: u32 = 8;
/// Long runs, and as many short ones. Each waits in the database while the others are moved.
const RUNS: usize = 16;
const QUICK_RUNS: usize = 1;

struct Sample {
    early: f64,
    late: f64,
    foreign: f64,
}

pub(super) async fn measure(plan: &Plan, part: &'static str) -> anyhow::Result<Vec<Figure>> {
    let mut samples = Vec::new();
    for _ in super::samples(plan, part) {
        samples.push(take_sample(plan).await?);
    }
    let middle = |value: fn(&Sample) -> f64| median(samples.iter().map(value).collect());
    let figures = Figures::new(part, plan.site.name(), 1)
        .with("transitionAt10", middle(|sample| sample.early), "ms")
        .with("transitionAt1000", middle(|sample| sample.late), "ms")
        .with("lateOfEarly", middle(|sample| sample.late / sample.early), "ratio")
        .with("foreign", middle(|sample| sample.foreign) * 100.0, "%");
    Ok(figures.list())
}

/// Alternates between a short run and a long one, so that both have the same conditions of the disk.
async fn take_sample(plan: &Plan) -> anyhow::Result<Sample> {
    let stage = Stage::set(plan).await?;
    let number = if plan.is_quick { QUICK_RUNS } else { RUNS };
    let mut short = stage.prepare(number, EARLY - REACH / 2).await?;
    let mut long = stage.prepare(number, LATE - REACH / 2).await?;
    let mut client = stage.client().await?;
    let (mut early, mut late) = (Vec::new(), Vec::new());
    let meter = stage.meter()?;
    for _ in 0..REACH {
        for (short, long) in short.iter_mut().zip(&mut long) {
            early.push(time_act(&mut client, short).await?);
            late.push(time_act(&mut client, long).await?);
        }
    }
    let foreign = meter.read()?.foreign;
    stage.clear().await?;
    let middle = |times: &mut [Duration]| millis(quantile(times, 0.5));
    Ok(Sample { early: middle(&mut early), late: middle(&mut late), foreign })
}

async fn time_act(client: &mut Client, run: &mut MachineRun) -> anyhow::Result<Duration> {
    let asked = Instant::now();
    client.act(run).await?;
    Ok(asked.elapsed())
}
