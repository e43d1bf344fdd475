//! W4: the number of starts per second, each answered after its commit.

use std::time::Duration;

use super::stage::Stage;
use super::starter::{Starter, Way};
use super::worker::Carrier;
use crate::bench::args::Plan;
use crate::bench::cases::case::SAMPLES;
use crate::bench::cases::latency;
use crate::bench::figure::{Figure, Figures, median};
use crate::bench::report;

const CONNECTIONS: usize = 64;
/// The number of batches in progress at the same time.
const BATCHES: usize = 2;
const CAPACITY: usize = 1_000;
/// More than can be started in a sample.
const STARTS_MAX: usize = 100_000_000;
/// The figure of starts with a request each, which is compared with a durable commit.
const RATE: &str = "startsPerSecond";
/// A workflow of the worker that ends at once.
const SERVED: &str = "nothing";
/// A workflow that no worker serves: its runs wait in the database.
const UNSERVED: &str = "unserved";

pub(super) async fn measure(plan: &Plan, part: &'static str) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Figures::new(part, plan.site.name(), CONNECTIONS);
    let (mut foreign, mut commits): (f64, _) = (0.0, Vec::new());
    let ways = [
        (RATE, "serverCpu", "allCpu", SERVED, Way::Each(CONNECTIONS)),
        ("unservedStartsPerSecond", "unservedServerCpu", "unservedAllCpu", UNSERVED, Way::Each(CONNECTIONS)),
        ("batchStartsPerSecond", "batchServerCpu", "batchAllCpu", SERVED, Way::Batch(BATCHES)),
    ];
    for (rate, work, all, workflow, way) in ways {
        let mut samples = Vec::new();
        for sample in 1..=SAMPLES {
            report::tell(&format!("{part}: {rate}, sample {sample} of {SAMPLES}"));
            let stage = Stage::set(plan, part, Carrier::Socket, CAPACITY).await?;
            samples.push(sample_of(&stage, workflow, way, plan.length).await?);
            stage.clear().await?;
            if rate == RATE {
                commits.push(latency::measure_commit(&plan.site, plan.length / 2).await?);
            }
        }
        let middle = |value: fn(&Sample) -> f64| median(samples.iter().map(value).collect());
        figures = figures
            .with(rate, middle(|sample| sample.rate), "1/s")
            .with(work, middle(|sample| sample.server), "us")
            .with(all, middle(|sample| sample.all), "us");
        if rate == RATE {
            let (start, commit) = (1e3 / middle(|sample| sample.rate), median(std::mem::take(&mut commits)));
            figures = figures.with("commitP50", commit, "ms").with("startOfCommit", start / commit, "ratio");
        }
        foreign = foreign.max(middle(|sample| sample.foreign));
    }
    Ok(figures.with("foreign", foreign * 100.0, "%").list())
}

struct Sample {
    rate: f64,
    /// Microseconds of the server's processor time for each start, and for its run if it is served.
    server: f64,
    /// The same for server, worker, database and client together.
    all: f64,
    foreign: f64,
}

async fn sample_of(stage: &Stage, workflow: &str, way: Way, length: Duration) -> anyhow::Result<Sample> {
    let mut starter = Starter::new(stage, workflow, way).await?;
    starter.start(STARTS_MAX);
    tokio::time::sleep(length / 4).await;
    let (meter, before) = (stage.meter()?, starter.started());
    tokio::time::sleep(length).await;
    let (taken, starts) = (meter.read()?, (starter.started() - before) as f64);
    starter.check()?;
    let rate = starts / taken.time.as_secs_f64();
    let each = |time: Duration| time.as_secs_f64() * 1e6 / starts.max(1.0);
    Ok(Sample { rate, server: each(taken.server), all: each(taken.ours()), foreign: taken.foreign })
}
