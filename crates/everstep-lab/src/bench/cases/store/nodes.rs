//! The rate of nodes that increment counters, compared with nodes that do nothing.

use std::time::Duration;

use crate::bench::args::{Plan, Site};
use crate::bench::drive::{self, Load};
use crate::bench::figure::{Figure, Figures, median};
use crate::bench::journals::Journals;
use crate::bench::shapes::{CHAIN, CHAIN_NODES, COUNTING_CHAIN, Shape};
use crate::bench::{ground, report};

const IN_FLIGHT: usize = 256;

/// Alternates between both, so that they have the same conditions of the disk.
pub(super) async fn measure(plan: &Plan, name: &str) -> anyhow::Result<Vec<Figure>> {
    let (mut noops, mut stores) = (Vec::new(), Vec::new());
    for sample in 1..=plan.samples {
        report::tell(&format!("{name}: sample {sample} of {}", plan.samples));
        noops.push(measure_rate(&plan.site, CHAIN, plan.length).await?);
        stores.push(measure_rate(&plan.site, COUNTING_CHAIN, plan.length).await?);
    }
    let (noop, store) = (median(noops), median(stores));
    let figures = Figures::new(name, plan.site.name(), IN_FLIGHT)
        .with("nodesPerSecond", store, "1/s")
        .with("noopNodesPerSecond", noop, "1/s")
        .with("storeOfNoop", store / noop, "ratio");
    Ok(figures.list())
}

/// Committed entries are counted exactly; nodes are computed from the entries of one run.
async fn measure_rate(site: &Site, shape: Shape, length: Duration) -> anyhow::Result<f64> {
    let load = Load::new(shape.name, IN_FLIGHT, length).numbered();
    ground::sample(site, move |stores| async move {
        let engine = ground::start_engine(stores, shape.name, &(shape.graph)()).await?;
        let driven = drive::drive(&engine, &load).await?;
        anyhow::ensure!(!driven.ended.is_empty(), "no run of {} ended within a sample", shape.name);
        let journals = Journals::read(&*engine.world().runs, driven.ended.iter().map(|(run, _)| *run)).await?;
        let runs_per_second = driven.entries.per_second * journals.runs as f64 / journals.entries as f64;
        Ok(runs_per_second * CHAIN_NODES as f64)
    })
    .await
}
