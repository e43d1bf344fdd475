//! Many callers that write to one record, compared with callers that write to a record each.

use std::time::Duration;

use everstep_core::records::OpAction;

use super::ops::{counter, increment};
use super::writers;
use crate::bench::args::{Plan, Site};
use crate::bench::figure::{Figure, Figures, median};
use crate::bench::{ground, report, shapes};

const WRITERS: usize = 64;

pub(super) async fn measure(plan: &Plan, name: &str) -> anyhow::Result<Vec<Figure>> {
    let (mut one, mut many) = (Vec::new(), Vec::new());
    for sample in 1..=plan.samples {
        report::tell(&format!("{name}: sample {sample} of {}", plan.samples));
        one.push(measure_rate(&plan.site, plan.length, |_, _| increment(counter(0))).await?);
        many.push(measure_rate(&plan.site, plan.length, |caller, _| increment(counter(caller))).await?);
    }
    let (one, many) = (median(one), median(many));
    let figures = Figures::new(name, plan.site.name(), WRITERS)
        .with("oneKeyOpsPerSecond", one, "1/s")
        .with("manyKeysOpsPerSecond", many, "1/s")
        .with("oneOfMany", one / many, "ratio");
    Ok(figures.list())
}

async fn measure_rate(site: &Site, length: Duration, action: fn(usize, usize) -> OpAction) -> anyhow::Result<f64> {
    ground::sample(site, move |stores| async move {
        let engine = ground::start_engine(stores, "nothing", &shapes::nothing()).await?;
        Ok(writers::write(&engine, WRITERS, length, action).await?.pace.per_second)
    })
    .await
}
