//! The time until a wait is resolved among many waits, compared with few.

use std::sync::Arc;

use everstep_core::ids::RunId;
use everstep_testkit::contract::fixtures::Tables;

use super::stage::Stage;
use super::{count, waits};
use crate::bench::args::{Plan, Site};
use crate::bench::figure::{Figure, Figures, median, millis, quantile};
use crate::bench::ground::{self, Scratch};
use crate::bench::report;

const FEW: usize = 1_000;
const FEW_QUICK: usize = 200;
const MANY: usize = 100_000;
const MANY_QUICK: usize = 2_000;
/// Events of one sample. All samples together have an event for most of the few waits.
const EVENTS: usize = 290;
const EVENTS_QUICK: usize = 50;
const WARM_UP: usize = 20;

/// A database with waits.
struct Crowd {
    scratch: Scratch,
    runs: Arc<[RunId]>,
}

/// The median and the 99th percentile, in milliseconds.
type Times = [f64; 2];

/// The waits are opened once; then the samples alternate between both databases.
pub(super) async fn measure(plan: &Plan, name: &str) -> anyhow::Result<Vec<Figure>> {
    let many = count(plan, MANY, MANY_QUICK);
    report::tell(&format!("{name}: opening {many} waits"));
    let small = Crowd::open(&plan.site, count(plan, FEW, FEW_QUICK)).await?;
    let large = Crowd::open(&plan.site, many).await?;
    let events = count(plan, EVENTS, EVENTS_QUICK);
    let mut samples = Vec::new();
    for sample in 0..plan.samples {
        report::tell(&format!("{name}: sample {} of {}", sample + 1, plan.samples));
        let few = small.measure(sample, plan.samples, events).await?;
        samples.push((few, large.measure(sample, plan.samples, events).await?));
    }
    small.scratch.remove().await?;
    large.scratch.remove().await?;
    let middle = |value: fn(&(Times, Times)) -> f64| median(samples.iter().map(value).collect());
    let figures = Figures::new(name, plan.site.name(), 1)
        .with("waits", many as f64, "")
        .with("resolvedAmongFewP50", middle(|(few, _)| few[0]), "ms")
        .with("resolvedAmongManyP50", middle(|(_, many)| many[0]), "ms")
        .with("resolvedAmongFewP99", middle(|(few, _)| few[1]), "ms")
        .with("resolvedAmongManyP99", middle(|(_, many)| many[1]), "ms")
        .with("manyOfFew", middle(|(few, many)| many[1] / few[1]), "ratio");
    Ok(figures.list())
}

impl Crowd {
    async fn open(site: &Site, count: usize) -> anyhow::Result<Self> {
        let scratch = Scratch::new(site).await?;
        let runs = ground::visit(&scratch.site(), move |stores| async move {
            let mut stage = Stage::set(stores, &waits::workflows(1)).await?;
            let runs = waits::open(&mut stage, count, 1, |place| place).await?;
            stage.end().await?;
            Ok(runs)
        })
        .await?;
        settle(&scratch.site()).await?;
        Ok(Self { scratch, runs: runs.into() })
    }

    /// Resolves waits that are spread over all of them, and that no other sample resolves.
    async fn measure(&self, sample: usize, samples: usize, events: usize) -> anyhow::Result<Times> {
        let (runs, total) = (Arc::clone(&self.runs), samples * (events + WARM_UP));
        let spread = (runs.len() / total).max(1);
        let places: Vec<_> = (0..events + WARM_UP).map(|event| (event * samples + sample) * spread).collect();
        ground::visit(&self.scratch.site(), move |stores| async move {
            let mut stage = Stage::set(stores, &[]).await?;
            let published = waits::resolve_some(&mut stage, &runs, &places, 1, WARM_UP).await?;
            stage.end().await?;
            let mut resolved: Vec<_> = published.iter().map(|published| published.resolved).collect();
            Ok([0.5, 0.99].map(|part| millis(quantile(&mut resolved, part))))
        })
        .await
    }
}

/// Makes the database do what it would otherwise do by itself, during the first samples.
pub(super) async fn settle(site: &Site) -> anyhow::Result<()> {
    let (tables, statements): (_, &[_]) = match site {
        Site::Sqlite(folder) => (Tables::in_folder(folder), &["pragma wal_checkpoint(truncate)"]),
        Site::Postgres(url) => (
            Tables::Postgres(url.clone()),
            &["vacuum analyze runs", "vacuum analyze waits", "vacuum analyze journal", "vacuum analyze subscriptions"],
        ),
    };
    for statement in statements {
        tables.execute(statement).await.map_err(|error| anyhow::anyhow!(error))?;
    }
    Ok(())
}
