//! The rate of two nodes that write to one namespace, compared with one alone.

use everstep_core::ids::WorkspaceId;
use everstep_store::RecordKey;

use super::ops::{self, COUNTERS, NAMESPACE};
use super::{Part, writers};
use crate::bench::args::{Plan, Site};
use crate::bench::figure::{Figure, Figures, median};
use crate::bench::ground::{self, Scratch};
use crate::bench::{process, report, shapes};

/// Callers, on all nodes together.
const WRITERS: usize = 64;

/// Alternates between one node and two. Each is a separate process, as in production; here they share one machine.
pub(super) async fn measure(plan: &Plan, name: &str) -> anyhow::Result<Vec<Figure>> {
    let (mut ones, mut twos, mut difference) = (Vec::new(), Vec::new(), 0.0);
    for sample in 1..=plan.samples {
        report::tell(&format!("{name}: sample {sample} of {}", plan.samples));
        let both = [(&[Part::OneNode][..], &mut ones), (&[Part::HalfNode, Part::HalfNode][..], &mut twos)];
        for (parts, rates) in both {
            let scratch = Scratch::new(&plan.site).await?;
            let plan = Plan { site: scratch.site(), ..plan.clone() };
            let nodes = parts.iter().map(|part| process::measure_in_child(part.name(), &plan));
            let figures: Vec<_> = futures_util::future::try_join_all(nodes).await?.concat();
            rates.push(sum(&figures, "opsPerSecond"));
            difference += (sum(&figures, "ops") - count(&plan.site).await?).abs();
            scratch.remove().await?;
        }
    }
    let (one, two) = (median(ones), median(twos));
    let figures = Figures::new(name, plan.site.name(), WRITERS)
        .with("oneOpsPerSecond", one, "1/s")
        .with("twoOpsPerSecond", two, "1/s")
        .with("twoOfOne", two / one, "ratio")
        .with("difference", difference, "");
    Ok(figures.list())
}

fn sum(figures: &[Figure], metric: &str) -> f64 {
    figures.iter().filter(|figure| figure.metric == metric).map(|figure| figure.value).sum()
}

/// The sum of all counters.
async fn count(site: &Site) -> anyhow::Result<f64> {
    ground::visit(site, |stores| async move {
        let key = |key| RecordKey { workspace: WorkspaceId::DEFAULT, namespace: NAMESPACE.to_owned(), key };
        let keys: Vec<_> = ops::counters().into_iter().map(key).collect();
        let records = stores.records.get(&keys).await?;
        let values = records.iter().flatten().filter_map(|record| record.value.as_ref()?.value().as_f64());
        Ok(values.sum())
    })
    .await
}

/// One node on an existing database, which may have other users.
pub(super) async fn measure_node(plan: &Plan, part: Part) -> anyhow::Result<Vec<Figure>> {
    let writers = if part == Part::OneNode { WRITERS } else { WRITERS / 2 };
    let Site::Postgres(_) = &plan.site else { anyhow::bail!("{} needs --server", part.name()) };
    let stores = ground::open(&plan.site).await?;
    let engine = ground::start_engine(stores, "nothing", &shapes::nothing()).await?;
    let action = |caller: usize, number: usize| ops::increment(ops::counter((caller * 16 + number) % COUNTERS));
    let written = writers::write(&engine, writers, plan.length, action).await?;
    let figures = Figures::new(part.name(), plan.site.name(), writers)
        .with("opsPerSecond", written.pace.per_second, "1/s")
        .with("ops", written.ops as f64, "");
    Ok(figures.list())
}
