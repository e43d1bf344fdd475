//! The rate of publishes that match nothing, compared with the rate at which the store writes entries.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;

use super::stage::{self, Stage, TOPIC};
use crate::bench::args::{Plan, Site};
use crate::bench::cases::throughput;
use crate::bench::drive::{self, Pace};
use crate::bench::figure::{Figure, Figures, median};
use crate::bench::{ground, report};

const IN_FLIGHT: usize = 64;

/// Alternates between store and engine, so that both have the same conditions of the disk.
pub(super) async fn measure(plan: &Plan, name: &str) -> anyhow::Result<Vec<Figure>> {
    let (mut stores, mut publishes) = (Vec::new(), Vec::new());
    for sample in 1..=plan.samples {
        report::tell(&format!("{name}: sample {sample} of {}", plan.samples));
        stores.push(throughput::measure_store(&plan.site, plan.length).await?);
        publishes.push(measure_rate(&plan.site, plan.length).await?);
    }
    let rate = |paces: &[Pace]| median(paces.iter().map(|pace| pace.per_second).collect());
    let work = |paces: &[Pace]| median(paces.iter().map(|pace| pace.work).collect());
    let figures = Figures::new(name, plan.site.name(), IN_FLIGHT)
        .with("publishesPerSecond", rate(&publishes), "1/s")
        .with("storeEntriesPerSecond", rate(&stores), "1/s")
        .with("publishesOfStore", rate(&publishes) / rate(&stores), "ratio")
        .with("cpuPerPublish", work(&publishes), "us");
    Ok(figures.list())
}

async fn measure_rate(site: &Site, length: Duration) -> anyhow::Result<Pace> {
    ground::sample(site, move |stores| async move {
        let stage = Stage::set(stores, &[]).await?;
        let published = Arc::new(AtomicU64::new(0));
        let mut publishers: JoinSet<anyhow::Result<()>> = JoinSet::new();
        for _ in 0..IN_FLIGHT {
            let (engine, published) = (stage.engine.clone(), Arc::clone(&published));
            publishers.spawn(async move {
                loop {
                    stage::publish(&engine, TOPIC, json!({"order": 17, "amount": 40})).await?;
                    published.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let pace = drive::sample(&published, length).await?;
        if let Some(failed) = publishers.try_join_next() {
            failed??;
        }
        publishers.shutdown().await;
        stage.end().await?;
        Ok(pace)
    })
    .await
}
