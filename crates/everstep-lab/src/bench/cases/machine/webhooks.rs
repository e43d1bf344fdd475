//! D1: many clients, each of whose transitions sends one webhook to a sink on this machine.

use super::sink::{Response, Sink};
use super::stage::{Machine, Stage, WORKFLOW};
use super::traffic::{Mover, Traffic, drive};
use crate::bench::args::Plan;
use crate::bench::figure::{Figure, Figures, median};

pub(super) const CLIENTS: usize = 64;
/// The runs of each client.
pub(super) const RUNS: usize = 50;

pub(super) async fn measure(plan: &Plan, part: &'static str) -> anyhow::Result<Vec<Figure>> {
    let mut samples = Vec::new();
    for _ in super::samples(plan, part) {
        samples.push(take_sample(plan).await?);
    }
    let middle = |value: fn(&Traffic) -> f64| median(samples.iter().map(value).collect());
    let figures = Figures::new(part, plan.site.name(), CLIENTS)
        .with("deliveriesPerSecond", middle(Traffic::deliveries_per_second), "1/s")
        .with("transitionsPerSecond", middle(Traffic::transitions_per_second), "1/s")
        .with("serverCpu", middle(Traffic::server_cpu), "us")
        .with("foreign", middle(|traffic| traffic.taken.foreign) * 100.0, "%");
    Ok(figures.list())
}

async fn take_sample(plan: &Plan) -> anyhow::Result<Traffic> {
    let sink = Sink::start("127.0.0.1", Response::Accept).await?;
    let stage = Stage::set_with(plan, &[Machine::with_webhook(WORKFLOW, &sink)]).await?;
    let movers = Mover::prepare(&stage, WORKFLOW, CLIENTS, RUNS).await?;
    let (_, traffic) = drive(&stage, movers, plan.length, &sink).await?;
    stage.clear().await?;
    Ok(traffic)
}
