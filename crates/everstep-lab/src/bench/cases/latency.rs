//! The duration of one task with one run in flight, compared with one durable commit.

use std::time::Duration;

use super::case::SAMPLES;
use super::limit;
use crate::bench::args::{Plan, Site};
use crate::bench::drive::{self, Load};
use crate::bench::figure::{Figure, Figures, median, millis, quantile};
use crate::bench::journals::Journals;
use crate::bench::shapes::CHAIN;
use crate::bench::{ground, report};

/// Alternates between store and engine, so that both have the same conditions of the disk.
pub(super) async fn measure(plan: &Plan) -> anyhow::Result<Vec<Figure>> {
    let (mut commits, mut nodes) = (Vec::new(), Vec::new());
    for sample in 1..=SAMPLES {
        report::tell(&format!("latency: sample {sample} of {SAMPLES}"));
        commits.push(measure_commit(&plan.site, plan.length).await?);
        nodes.push(measure_node(&plan.site, plan.length).await?);
    }
    let (commit, node) = (median(commits), median(nodes));
    let figures = Figures::new("latency", plan.site.name(), 1)
        .with("commitP50", commit, "ms")
        .with("nodeP50", node, "ms")
        .with("nodeOfCommit", node / commit, "ratio");
    Ok(figures.list())
}

/// The median duration of a durable commit of one step, in milliseconds.
pub(super) async fn measure_commit(site: &Site, length: Duration) -> anyhow::Result<f64> {
    let mut limit = ground::sample(site, move |stores| limit::measure(stores.runs, 1, length)).await?;
    Ok(millis(quantile(&mut limit.commits, 0.5)))
}

async fn measure_node(site: &Site, length: Duration) -> anyhow::Result<f64> {
    let load = Load::new(CHAIN.name, 1, length);
    ground::sample(site, move |stores| async move {
        let engine = ground::start_engine(stores, CHAIN.name, &(CHAIN.graph)()).await?;
        let driven = drive::drive(&engine, &load).await?;
        let journals = Journals::read(&*engine.world().runs, driven.ended.iter().map(|(run, _)| *run)).await?;
        Ok(millis(quantile(&mut journals.times(), 0.5)))
    })
    .await
}
