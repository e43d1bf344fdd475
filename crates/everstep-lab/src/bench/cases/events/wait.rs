//! One event at a time, each for one wait among many with other matches, compared with one durable commit.

use super::stage::Stage;
use super::{count, waits};
use crate::bench::args::Plan;
use crate::bench::cases::latency;
use crate::bench::figure::{Figure, Figures, median, millis, quantile};
use crate::bench::{ground, report};

const WAITS: usize = 10_000;
const WAITS_QUICK: usize = 500;
const EVENTS: usize = 500;
const EVENTS_QUICK: usize = 20;
const WARM_UP: usize = 20;

/// The times of one sample, in milliseconds.
struct Sample {
    commit: f64,
    answered: f64,
    resolved: [f64; 2],
}

/// Alternates between store and engine, so that both have the same conditions of the disk.
pub(super) async fn measure(plan: &Plan, name: &str) -> anyhow::Result<Vec<Figure>> {
    let (waits, events) = (count(plan, WAITS, WAITS_QUICK), count(plan, EVENTS, EVENTS_QUICK));
    let mut samples = Vec::new();
    for sample in 1..=plan.samples {
        report::tell(&format!("{name}: sample {sample} of {}", plan.samples));
        let commit = latency::measure_commit(&plan.site, plan.length).await?;
        samples.push(take_sample(plan, commit, waits, events).await?);
    }
    let middle = |value: fn(&Sample) -> f64| median(samples.iter().map(value).collect());
    let figures = Figures::new(name, plan.site.name(), 1)
        .with("waits", waits as f64, "")
        .with("commitP50", middle(|sample| sample.commit), "ms")
        .with("answeredP50", middle(|sample| sample.answered), "ms")
        .with("answeredOfCommit", middle(|sample| sample.answered / sample.commit), "ratio")
        .with("resolvedP50", middle(|sample| sample.resolved[0]), "ms")
        .with("resolvedP99", middle(|sample| sample.resolved[1]), "ms");
    Ok(figures.list())
}

async fn take_sample(plan: &Plan, commit: f64, waits: usize, events: usize) -> anyhow::Result<Sample> {
    ground::sample(&plan.site, move |stores| async move {
        let mut stage = Stage::set(stores, &waits::workflows(1)).await?;
        let runs = waits::open(&mut stage, waits, 1, |place| place).await?;
        let spread = waits / (events + WARM_UP);
        let places: Vec<_> = (0..events + WARM_UP).map(|event| event * spread).collect();
        let published = waits::resolve_some(&mut stage, &runs, &places, 1, WARM_UP).await?;
        stage.end().await?;
        let mut answered: Vec<_> = published.iter().map(|published| published.answered).collect();
        let mut resolved: Vec<_> = published.iter().map(|published| published.resolved).collect();
        Ok(Sample {
            commit,
            answered: millis(quantile(&mut answered, 0.5)),
            resolved: [0.5, 0.99].map(|part| millis(quantile(&mut resolved, part))),
        })
    })
    .await
}
