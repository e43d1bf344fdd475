//! The number of starts per second, each answered after its commit.

use std::time::Duration;

use super::case::SAMPLES;
use crate::bench::args::{Plan, Site};
use crate::bench::drive::{self, Load};
use crate::bench::figure::{Figure, Figures, median};
use crate::bench::{ground, report, shapes};

const WORKFLOW: &str = "nothing";
const IN_FLIGHT: usize = 256;

pub(super) async fn measure(plan: &Plan) -> anyhow::Result<Vec<Figure>> {
    let mut rates = Vec::new();
    for sample in 1..=SAMPLES {
        report::tell(&format!("starts: sample {sample} of {SAMPLES}"));
        rates.push(measure_rate(&plan.site, plan.length).await?);
    }
    let figures = Figures::new("starts", plan.site.name(), IN_FLIGHT).with("startsPerSecond", median(rates), "1/s");
    Ok(figures.list())
}

/// The runs end in the item that starts them, so only starts are measured.
pub(super) async fn measure_rate(site: &Site, length: Duration) -> anyhow::Result<f64> {
    ground::sample(site, move |stores| async move {
        let engine = ground::start_engine(stores, WORKFLOW, &shapes::nothing()).await?;
        let load = Load::new(WORKFLOW, IN_FLIGHT, length);
        Ok(drive::start_only(&engine, &load).await?.per_second)
    })
    .await
}
