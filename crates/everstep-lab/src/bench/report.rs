//! Prints figures, for people and for programs.

use std::io::Write;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};

use super::budgets::{Aim, Verdict};
use super::figure::Figure;

pub(super) fn print_json(figures: &[Figure]) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(figures)?;
    Ok(writeln!(std::io::stdout(), "{text}")?)
}

/// Prints a row for each case and number of runs in flight. Cases with the same metrics share a table.
pub(super) fn print_tables(figures: &[Figure]) -> anyhow::Result<()> {
    let rows: Vec<&[Figure]> = figures.chunk_by(is_same_row).collect();
    for rows in rows.chunk_by(|one, other| metrics(one).eq(metrics(other))) {
        writeln!(std::io::stdout(), "{}", table(rows))?;
    }
    Ok(())
}

pub(super) fn tell_verdicts(verdicts: &[Verdict]) {
    for verdict in verdicts {
        tell(&verdict.text);
    }
    let aims: Vec<_> = verdicts.iter().filter_map(|verdict| verdict.aim.as_ref()).collect();
    if !aims.is_empty() {
        tell(&table_of_aims(&aims).to_string());
    }
}

/// Targets beside the results. A ratio of 1 or more reaches the target.
fn table_of_aims(aims: &[&Aim]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header(["target", "unit", "aimed at", "measured", "ratio"]);
    for Aim { name, measured, target, sign, unit, ratio } in aims {
        let aimed = format!("{sign} {}", show(*target));
        table.add_row([name.clone(), unit.clone(), aimed, show(*measured), format!("{ratio:.2}")]);
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Prints progress, separate from the figures.
pub(super) fn tell(news: &str) {
    eprintln!("{news}");
}

fn table(rows: &[&[Figure]]) -> Table {
    let mut table = Table::new();
    let names = ["case", "store", "in flight"].map(str::to_owned);
    table.load_style(UTF8_FULL_CONDENSED).set_header(names.into_iter().chain(metrics(rows[0])));
    for row in rows {
        let Figure { case, store, in_flight, .. } = &row[0];
        let names = [case.clone(), store.clone(), in_flight.to_string()];
        table.add_row(names.into_iter().chain(row.iter().map(|figure| show(figure.value))));
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn is_same_row(one: &Figure, other: &Figure) -> bool {
    (&one.case, one.in_flight) == (&other.case, other.in_flight)
}

fn metrics(row: &[Figure]) -> impl Iterator<Item = String> {
    row.iter().map(|figure| format!("{}\n{}", figure.metric, figure.unit))
}

/// A number with a suitable number of digits.
fn show(value: f64) -> String {
    if value.abs() >= 100.0 { format!("{value:.0}") } else { format!("{value:.3}") }
}
