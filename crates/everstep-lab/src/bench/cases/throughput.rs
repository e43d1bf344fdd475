//! The number of entries that the engine writes, compared with the store's limit.

use std::time::Duration;

use super::case::SAMPLES;
use super::limit;
use crate::bench::args::{Plan, Site};
use crate::bench::drive::{self, Load, Pace};
use crate::bench::figure::{Figure, Figures, median};
use crate::bench::shapes::CHAIN;
use crate::bench::{ground, report};

const IN_FLIGHT: usize = 256;

/// Alternates between store and engine, so that both have the same conditions of the disk.
pub(super) async fn measure(plan: &Plan) -> anyhow::Result<Vec<Figure>> {
    let (mut stores, mut engines) = (Vec::new(), Vec::new());
    for sample in 1..=SAMPLES {
        report::tell(&format!("throughput: sample {sample} of {SAMPLES}"));
        stores.push(measure_store(&plan.site, plan.length).await?);
        engines.push(measure_engine(&plan.site, plan.length).await?);
    }
    let rate = |paces: &[Pace]| median(paces.iter().map(|pace| pace.per_second).collect());
    let work = |paces: &[Pace]| median(paces.iter().map(|pace| pace.work).collect());
    let (store, engine) = (rate(&stores), rate(&engines));
    let mut figures = Figures::new("throughput", plan.site.name(), IN_FLIGHT)
        .with("storeEntriesPerSecond", store, "1/s")
        .with("engineEntriesPerSecond", engine, "1/s")
        .with("engineOfStore", engine / store, "ratio")
        .with("storeCpuPerEntry", work(&stores), "us")
        .with("engineCpuPerEntry", work(&engines), "us");
    if let Site::Postgres(_) = &plan.site {
        let length = plan.length;
        let two = ground::sample(&plan.site, move |stores| limit::measure_two(stores.runs, IN_FLIGHT, length)).await?;
        figures = figures.with("storeEntriesPerSecondInTwo", two, "1/s");
    }
    Ok(figures.list())
}

pub(super) async fn measure_store(site: &Site, length: Duration) -> anyhow::Result<Pace> {
    let limit = ground::sample(site, move |stores| limit::measure(stores.runs, IN_FLIGHT, length)).await?;
    Ok(limit.entries)
}

async fn measure_engine(site: &Site, length: Duration) -> anyhow::Result<Pace> {
    let load = Load::new(CHAIN.name, IN_FLIGHT, length);
    ground::sample(site, move |stores| async move {
        let engine = ground::start_engine(stores, CHAIN.name, &(CHAIN.graph)()).await?;
        Ok(drive::drive(&engine, &load).await?.entries)
    })
    .await
}
