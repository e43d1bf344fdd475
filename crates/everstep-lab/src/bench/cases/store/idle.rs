//! The resources of an idle engine whose database has many records.

use everstep_engine::NodeClock;

use super::fill::fill;
use super::{Part, QUICK_RECORDS, RECORDS};
use crate::bench::args::Plan;
use crate::bench::cases::idle;
use crate::bench::figure::{Figure, Figures};
use crate::bench::ground::{self, Scratch};
use crate::bench::{process, report, shapes};

/// More records say no more about an idle engine.
const RECORDS_MAX: usize = 1_000_000;

/// The records are created in this process and the engine is measured in another, which has not created them.
pub(super) async fn measure(plan: &Plan, name: &str) -> anyhow::Result<Vec<Figure>> {
    let records = plan.records(RECORDS, QUICK_RECORDS).min(RECORDS_MAX);
    report::tell(&format!("{name}: {records} records"));
    let scratch = Scratch::new(&plan.site).await?;
    fill(&scratch.site(), records, NodeClock::system().now()).await?;
    let node = Plan { site: scratch.site(), ..plan.clone() };
    let measured = process::measure_in_child(Part::IdleNode.name(), &node).await?;
    scratch.remove().await?;
    let rename = |figure: Figure| Figure { case: name.to_owned(), ..figure };
    Ok(measured.into_iter().map(rename).collect())
}

/// The engine in its separate process.
pub(super) async fn measure_node(plan: &Plan, name: &str) -> anyhow::Result<Vec<Figure>> {
    let stores = ground::open(&plan.site).await?;
    let engine = ground::start_engine(stores, "nothing", &shapes::nothing()).await?;
    idle::measure_resources(&engine, Figures::new(name, plan.site.name(), 0), plan.length).await
}
