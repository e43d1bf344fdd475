//! The time until a wait is resolved among waits whose matches have several shapes, compared with one shape.

use super::stage::Stage;
use super::{count, waits};
use crate::bench::args::Plan;
use crate::bench::figure::{Figure, Figures, median, millis, quantile};
use crate::bench::{ground, report};

const WAITS: usize = 10_000;
const WAITS_QUICK: usize = 640;
const EVENTS: usize = 400;
const EVENTS_QUICK: usize = 40;
const WARM_UP: usize = 20;
/// The numbers of shapes.
const SHAPES: [usize; 3] = [1, 8, waits::SHAPES_MAX];

/// Alternates between the numbers of shapes, so that all have the same conditions of the disk.
pub(super) async fn measure(plan: &Plan, name: &str) -> anyhow::Result<Vec<Figure>> {
    let mut samples = Vec::new();
    for sample in 1..=plan.samples {
        report::tell(&format!("{name}: sample {sample} of {}", plan.samples));
        let mut times = [0.0; SHAPES.len()];
        for (time, shapes) in times.iter_mut().zip(SHAPES) {
            *time = measure_shapes(plan, shapes).await?;
        }
        samples.push(times);
    }
    let middle = |value: fn(&[f64; SHAPES.len()]) -> f64| median(samples.iter().map(value).collect());
    let figures = Figures::new(name, plan.site.name(), 1)
        .with("resolvedOfOneShapeP50", middle(|times| times[0]), "ms")
        .with("resolvedOf8ShapesP50", middle(|times| times[1]), "ms")
        .with("resolvedOf64ShapesP50", middle(|times| times[2]), "ms")
        .with("eightOfOne", middle(|times| times[1] / times[0]), "ratio")
        .with("sixtyFourOfOne", middle(|times| times[2] / times[0]), "ratio");
    Ok(figures.list())
}

/// The median time until a wait is resolved, in milliseconds.
async fn measure_shapes(plan: &Plan, shapes: usize) -> anyhow::Result<f64> {
    let (waits, events) = (count(plan, WAITS, WAITS_QUICK), count(plan, EVENTS, EVENTS_QUICK));
    ground::sample(&plan.site, move |stores| async move {
        let mut stage = Stage::set(stores, &waits::workflows(shapes)).await?;
        let runs = waits::open(&mut stage, waits, shapes, |place| place).await?;
        // An odd distance reaches the waits of all shapes.
        let spread = (waits / (events + WARM_UP) - 1) | 1;
        let places: Vec<_> = (0..events + WARM_UP).map(|event| event * spread).collect();
        let published = waits::resolve_some(&mut stage, &runs, &places, shapes, WARM_UP).await?;
        stage.end().await?;
        let mut resolved: Vec<_> = published.iter().map(|published| published.resolved).collect();
        Ok(millis(quantile(&mut resolved, 0.5)))
    })
    .await
}
