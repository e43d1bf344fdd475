//! The rate of two nodes on one database, compared with one alone.

use anyhow::Context;

use super::case::SAMPLES;
use crate::bench::args::{Plan, Site};
use crate::bench::drive::{self, Load};
use crate::bench::figure::{Figure, Figures, median};
use crate::bench::ground::{self, Scratch};
use crate::bench::shapes::CHAIN;
use crate::bench::{process, report};

/// Runs in flight, on all nodes together.
const IN_FLIGHT: usize = 256;
/// The name of the case of one node in a separate process, with its share of the runs.
pub(super) const ONE: &str = "one-node";
pub(super) const HALF: &str = "half-node";

/// Alternates between one node and two. Each is a separate process, as in production; here they share one machine.
pub(super) async fn measure(plan: &Plan) -> anyhow::Result<Vec<Figure>> {
    let (mut ones, mut twos, mut conflicts) = (Vec::new(), Vec::new(), 0.0);
    for sample in 1..=SAMPLES {
        report::tell(&format!("two-nodes: sample {sample} of {SAMPLES}"));
        for (cases, rates) in [(&[ONE][..], &mut ones), (&[HALF, HALF][..], &mut twos)] {
            let scratch = Scratch::new(&plan.site).await?;
            let plan = Plan { site: scratch.site(), ..plan.clone() };
            let nodes = cases.iter().map(|case| process::measure_in_child(case, &plan));
            let figures: Vec<_> = futures_util::future::try_join_all(nodes).await?.concat();
            rates.push(sum(&figures, "entriesPerSecond")?);
            conflicts += sum(&figures, "conflicts")?;
            scratch.remove().await?;
        }
    }
    let (one, two) = (median(ones), median(twos));
    let figures = Figures::new("two-nodes", plan.site.name(), IN_FLIGHT)
        .with("oneEntriesPerSecond", one, "1/s")
        .with("twoEntriesPerSecond", two, "1/s")
        .with("twoOfOne", two / one, "ratio")
        .with("conflicts", conflicts, "");
    Ok(figures.list())
}

fn sum(figures: &[Figure], metric: &str) -> anyhow::Result<f64> {
    let values: Vec<f64> = figures.iter().filter(|figure| figure.metric == metric).map(|figure| figure.value).collect();
    anyhow::ensure!(!values.is_empty(), "a node reported no {metric}");
    Ok(values.iter().sum())
}

/// One node on an existing database, which may have other users.
pub(super) async fn measure_node(case: &str, plan: &Plan) -> anyhow::Result<Vec<Figure>> {
    let in_flight = if case == ONE { IN_FLIGHT } else { IN_FLIGHT / 2 };
    let load = Load::new(CHAIN.name, in_flight, plan.length);
    let Site::Postgres(_) = &plan.site else { anyhow::bail!("{case} needs --server") };
    let stores = ground::open(&plan.site).await?;
    let engine = ground::start_engine(stores, CHAIN.name, &(CHAIN.graph)()).await?;
    let driven = drive::drive(&engine, &load).await.context("driving a node")?;
    let figures = Figures::new(case, plan.site.name(), in_flight)
        .with("entriesPerSecond", driven.entries.per_second, "1/s")
        .with("conflicts", engine.conflicts() as f64, "");
    Ok(figures.list())
}
