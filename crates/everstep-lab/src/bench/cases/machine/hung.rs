//! D2: the clients of D1 beside a target that hangs.

use std::time::Duration;

use tokio::time::MissedTickBehavior;

use super::sink::{Response, Sink};
use super::stage::{Machine, Stage, WORKFLOW};
use super::traffic::{Mover, drive};
use super::webhooks::{CLIENTS, RUNS};
use crate::bench::args::Plan;
use crate::bench::figure::{Figure, Figures, median};

const HUNG_WORKFLOW: &str = "approval-to-a-hung-target";
/// Transitions with a webhook to the hung target before the sample, and per second of it.
const HUNG_TRANSITIONS: usize = 500;
const HUNG_PER_SECOND: u32 = 50;

struct Sample {
    /// The 95th percentile of a transition, and the deliveries per second, without the hung target and beside it.
    quiet: [f64; 2],
    beside: [f64; 2],
    foreign: f64,
}

pub(super) async fn measure(plan: &Plan, part: &'static str) -> anyhow::Result<Vec<Figure>> {
    let mut samples = Vec::new();
    for _ in super::samples(plan, part) {
        samples.push(take_sample(plan).await?);
    }
    let middle = |value: fn(&Sample) -> f64| median(samples.iter().map(value).collect());
    let figures = Figures::new(part, plan.site.name(), CLIENTS)
        .with("quietP95", middle(|sample| sample.quiet[0]), "ms")
        .with("besideP95", middle(|sample| sample.beside[0]), "ms")
        .with("besideOfQuiet", middle(|sample| sample.beside[0] / sample.quiet[0]), "ratio")
        .with("quietDeliveriesPerSecond", middle(|sample| sample.quiet[1]), "1/s")
        .with("besideDeliveriesPerSecond", middle(|sample| sample.beside[1]), "1/s")
        .with("deliveriesOfQuiet", middle(|sample| sample.beside[1] / sample.quiet[1]), "ratio")
        .with("foreign", middle(|sample| sample.foreign) * 100.0, "%");
    Ok(figures.list())
}

async fn take_sample(plan: &Plan) -> anyhow::Result<Sample> {
    let sink = Sink::start("127.0.0.1", Response::Accept).await?;
    let hung = Sink::start("127.0.0.2", Response::Hang).await?;
    let machines = [Machine::with_webhook(WORKFLOW, &sink), Machine::with_webhook(HUNG_WORKFLOW, &hung)];
    let stage = Stage::set_with(plan, &machines).await?;
    let movers = Mover::prepare(&stage, WORKFLOW, CLIENTS, RUNS).await?;
    let mut stuck = Mover::prepare(&stage, HUNG_WORKFLOW, 1, HUNG_TRANSITIONS).await?.remove(0);
    let (movers, mut quiet) = drive(&stage, movers, plan.length, &sink).await?;
    for _ in 0..HUNG_TRANSITIONS {
        stuck.act().await?;
    }
    hung.wait_for(1).await?;
    let sticking = tokio::spawn(keep_acting(stuck));
    let (_, mut beside) = drive(&stage, movers, plan.length, &sink).await?;
    sticking.abort();
    stage.clear().await?;
    Ok(Sample {
        quiet: [quiet.p95(), quiet.deliveries_per_second()],
        beside: [beside.p95(), beside.deliveries_per_second()],
        foreign: beside.taken.foreign,
    })
}

/// Adds webhooks to the hung target, at a constant rate.
async fn keep_acting(mut stuck: Mover) -> anyhow::Result<()> {
    let mut clock = tokio::time::interval(Duration::from_secs(1) / HUNG_PER_SECOND);
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        clock.tick().await;
        stuck.act().await?;
    }
}
