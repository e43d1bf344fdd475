//! The duration of a node that increments a counter, with one run in flight, compared with one durable commit.

use std::time::Duration;

use crate::bench::args::{Plan, Site};
use crate::bench::cases::limit;
use crate::bench::drive::{self, Load};
use crate::bench::figure::{Figure, Figures, median, millis, quantile};
use crate::bench::journals::Journals;
use crate::bench::shapes::COUNTING_CHAIN;
use crate::bench::{ground, report};

/// Alternates between store and engine, so that both have the same conditions of the disk.
pub(super) async fn measure(plan: &Plan, name: &str) -> anyhow::Result<Vec<Figure>> {
    let (mut commits, mut nodes) = (Vec::new(), Vec::new());
    for sample in 1..=plan.samples {
        report::tell(&format!("{name}: sample {sample} of {}", plan.samples));
        let length = plan.length;
        let mut limit = ground::sample(&plan.site, move |stores| limit::measure(stores.runs, 1, length)).await?;
        commits.push(millis(quantile(&mut limit.commits, 0.5)));
        nodes.push(measure_node(&plan.site, length).await?);
    }
    let (commit, node) = (median(commits), median(nodes));
    let figures = Figures::new(name, plan.site.name(), 1)
        .with("commitP50", commit, "ms")
        .with("nodeP50", node, "ms")
        .with("nodeOfCommit", node / commit, "ratio");
    Ok(figures.list())
}

async fn measure_node(site: &Site, length: Duration) -> anyhow::Result<f64> {
    let load = Load::new(COUNTING_CHAIN.name, 1, length).numbered();
    ground::sample(site, move |stores| async move {
        let engine = ground::start_engine(stores, COUNTING_CHAIN.name, &(COUNTING_CHAIN.graph)()).await?;
        let driven = drive::drive(&engine, &load).await?;
        let journals = Journals::read(&*engine.world().runs, driven.ended.iter().map(|(run, _)| *run)).await?;
        Ok(millis(quantile(&mut journals.times(), 0.5)))
    })
    .await
}
