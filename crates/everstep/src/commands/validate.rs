//! `everstep validate`: checks a workflow file.

use std::process::ExitCode;

use everstep_core::graph::Problem;
use everstep_core::style::Style;
use serde_json::json;

use crate::args::ValidateArgs;
use crate::definition::{self, FileError};
use crate::{output, text};

pub(crate) fn run(args: &ValidateArgs) -> anyhow::Result<ExitCode> {
    let style = match definition::check(&args.file) {
        Err(FileError::Invalid { problems, .. }) if args.json => return print(&problems),
        checked => checked?,
    };
    if args.json {
        return print(&[]);
    }
    let size = match &style {
        Style::Graph(graph) => text::count(graph.nodes().len(), "node"),
        Style::Machine(machine) => text::count(machine.states().len(), "state"),
        Style::Code => unreachable!("a definition is a graph or a machine"),
    };
    eprintln!("{} is a valid workflow of {size}", args.file.display());
    Ok(ExitCode::SUCCESS)
}

/// Prints the problems for a program.
fn print(problems: &[Problem]) -> anyhow::Result<ExitCode> {
    output::print(json!({"valid": problems.is_empty(), "problems": problems}))?;
    Ok(ExitCode::from(if problems.is_empty() { 0 } else { 2 }))
}
