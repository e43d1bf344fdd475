//! A shape with an increasing number of runs in flight.

use everstep_store::Stores;

use crate::bench::args::Plan;
use crate::bench::drive::{self, Load};
use crate::bench::figure::{Figure, Figures};
use crate::bench::journals::Journals;
use crate::bench::shapes::Shape;
use crate::bench::{ground, report};

pub(super) async fn measure(shape: Shape, plan: &Plan) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for in_flight in &plan.in_flight {
        report::tell(&format!("{}: {in_flight} in flight", shape.name));
        let load = Load::new(shape.name, *in_flight, plan.length);
        let store = plan.site.name();
        figures.extend(ground::sample(&plan.site, move |ground| measure_one(ground, shape, load, store)).await?);
    }
    Ok(figures)
}

/// Committed entries are counted exactly; steps and runs are computed from the entries of one run of the shape.
async fn measure_one(ground: Stores, shape: Shape, load: Load, store: &'static str) -> anyhow::Result<Vec<Figure>> {
    let engine = ground::start_engine(ground, shape.name, &(shape.graph)()).await?;
    let driven = drive::drive(&engine, &load).await?;
    anyhow::ensure!(
        !driven.ended.is_empty(),
        "no run of {} ended within a sample; take longer ones with --seconds",
        shape.name
    );
    let journals = Journals::read(&*engine.world().runs, driven.ended.iter().map(|(run, _)| *run)).await?;
    let entries = driven.entries.per_second;
    let per_entry = entries / journals.entries as f64;
    let mut run_times: Vec<_> = driven.ended.iter().map(|(_, time)| *time).collect();
    let figures = Figures::new(shape.name, store, load.in_flight)
        .with("entriesPerSecond", entries, "1/s")
        .with("stepsPerSecond", per_entry * journals.steps as f64, "1/s")
        .with("runsPerSecond", per_entry * journals.runs as f64, "1/s")
        .with_times("step", &mut journals.times())
        .with_times("run", &mut run_times)
        .with("cpuPerEntry", driven.entries.work, "us");
    Ok(figures.list())
}
