//! The cost of an op among many records, compared with few.

use std::time::Duration;

use everstep_engine::NodeClock;

use super::fill::fill;
use super::{QUICK_RECORDS, RECORDS, limit, ops};
use crate::bench::args::{Plan, RECORDS_MIN, Site};
use crate::bench::drive::Pace;
use crate::bench::figure::{Figure, Figures, median};
use crate::bench::ground::{self, Scratch};
use crate::bench::report;

/// The records are created once; then the samples alternate between both databases.
pub(super) async fn measure(plan: &Plan, name: &str) -> anyhow::Result<Vec<Figure>> {
    let (few_records, many_records) = (RECORDS_MIN, plan.records(RECORDS, QUICK_RECORDS));
    report::tell(&format!("{name}: creating {many_records} records"));
    let (small, large) = (create(&plan.site, few_records).await?, create(&plan.site, many_records).await?);
    let (mut few, mut many) = (Vec::new(), Vec::new());
    for sample in 1..=plan.samples {
        report::tell(&format!("{name}: sample {sample} of {}", plan.samples));
        few.push(measure_cost(&small, few_records, plan.length).await?);
        many.push(measure_cost(&large, many_records, plan.length).await?);
    }
    small.remove().await?;
    large.remove().await?;
    let micros = |paces: &[Pace]| median(paces.iter().map(|pace| 1e6 / pace.per_second).collect());
    let work = |paces: &[Pace]| median(paces.iter().map(|pace| pace.work).collect());
    let figures = Figures::new(name, plan.site.name(), 1)
        .with("records", many_records as f64, "")
        .with("opAmongFew", micros(&few), "us")
        .with("opAmongMany", micros(&many), "us")
        .with("manyOfFew", micros(&many) / micros(&few), "ratio")
        .with("cpuAmongFew", work(&few), "us")
        .with("cpuAmongMany", work(&many), "us");
    Ok(figures.list())
}

/// A database with records.
async fn create(site: &Site, records: usize) -> anyhow::Result<Scratch> {
    let scratch = Scratch::new(site).await?;
    fill(&scratch.site(), records, NodeClock::system().now()).await?;
    Ok(scratch)
}

/// Increments counters that are spread over all records.
async fn measure_cost(scratch: &Scratch, records: usize, length: Duration) -> anyhow::Result<Pace> {
    let counters = ops::spread_counters(records);
    ground::visit(&scratch.site(), move |stores| limit::apply_for(stores.records, counters, length)).await
}
