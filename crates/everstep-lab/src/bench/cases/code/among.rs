//! A database with many ended runs, with which an empty one is compared.

use crate::bench::args::Plan;
use crate::bench::cases::steps;
use crate::bench::ground::{self, Scratch};
use crate::bench::report;

/// Creates a database with the number of runs that the plan names, if it names one.
pub(super) async fn create(plan: &Plan, part: &str) -> anyhow::Result<Option<Scratch>> {
    let Some(runs) = plan.runs_before else { return Ok(None) };
    report::tell(&format!("{part}: creating {runs} ended runs"));
    let scratch = Scratch::new(&plan.site).await?;
    ground::visit(
        &scratch.site(),
        move |stores| async move { steps::fill_with_ended(&*stores.runs, runs).await.map(drop) },
    )
    .await?;
    plan.analyze(&scratch.site());
    Ok(Some(scratch))
}
