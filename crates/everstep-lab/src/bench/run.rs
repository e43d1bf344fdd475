//! Measures the requested cases, prints their figures, and compares them with the budgets.

use std::process::ExitCode;

use super::args::{Args, Plan};
use super::budgets::Budgets;
use super::cases::Case;
use super::process::Machine;
use super::report;

/// If other processes use more than this share of the machine, figures are doubtful.
const FOREIGN_SHARE: f64 = 0.1;

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let plan = Plan::from_args(&args)?;
    if let Some(name) = &args.child {
        let figures = Case::find(name)?.measure_here(&plan).await?;
        report::print_json(&figures)?;
        return Ok(ExitCode::SUCCESS);
    }
    // Read before anything is measured, so that a mistake in it costs no time.
    let budgets = args.check.as_deref().map(Budgets::read).transpose()?;
    let machine = Machine::watch()?;
    let mut figures = Vec::new();
    for case in &plan.cases {
        figures.extend(case.measure(&plan).await?);
    }
    let share = machine.foreign_share()?;
    if share > FOREIGN_SHARE {
        let percent = share * 100.0;
        report::tell(&format!(
            "other processes used {percent:.0} % of this machine during the measurement: stop them and measure \
             again"
        ));
    }
    if args.json {
        report::print_json(&figures)?;
    } else {
        report::print_tables(&figures)?;
    }
    let Some(budgets) = budgets else { return Ok(ExitCode::SUCCESS) };
    let verdicts = budgets.check(&plan.cases, &figures)?;
    report::tell_verdicts(&verdicts);
    let is_held = verdicts.iter().all(|verdict| verdict.is_held);
    Ok(if is_held { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
