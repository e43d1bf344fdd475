//! Measures the cases that were asked for, shows their figures, and compares them with the budgets.

use std::process::ExitCode;

use super::args::{Args, Plan};
use super::budgets::Budgets;
use super::cases::Case;
use super::report;

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let plan = Plan::of(&args)?;
    if let Some(name) = &args.child {
        let figures = Case::find(name)?.measure_here(&plan).await?;
        report::print_json(&figures)?;
        return Ok(ExitCode::SUCCESS);
    }
    // Read before anything is measured, so that a mistake in it costs no time.
    let budgets = args.check.as_deref().map(Budgets::read).transpose()?;
    let mut figures = Vec::new();
    for case in &plan.cases {
        figures.extend(case.measure(&plan).await?);
    }
    if args.json {
        report::print_json(&figures)?;
    } else {
        report::print_tables(&figures)?;
    }
    let Some(budgets) = budgets else { return Ok(ExitCode::SUCCESS) };
    let verdicts = budgets.check(&figures)?;
    report::tell_verdicts(&verdicts);
    let is_held = verdicts.iter().all(|verdict| verdict.is_held);
    Ok(if is_held { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
