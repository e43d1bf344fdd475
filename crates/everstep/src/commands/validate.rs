//! `everstep validate`: checks a workflow file.

use std::process::ExitCode;

use everstep_core::style::Style;
use serde_json::json;

use crate::args::ValidateArgs;
use crate::{definition, output, text, wire};

pub(crate) fn run(args: &ValidateArgs) -> anyhow::Result<ExitCode> {
    let checked = definition::read(&args.file)?.and_then(|definition| wire::check(&definition));
    let problems = checked.as_ref().err().map_or(&[][..], Vec::as_slice);
    if args.json {
        output::print(json!({"valid": problems.is_empty(), "problems": problems}))?;
        return Ok(ExitCode::from(if problems.is_empty() { 0 } else { 2 }));
    }
    match checked {
        Ok(style) => {
            let size = match &style {
                Style::Graph(graph) => text::count(graph.nodes().len(), "node"),
                Style::Machine(machine) => text::count(machine.states().len(), "state"),
                Style::Code => unreachable!("a definition is a graph or a machine"),
            };
            eprintln!("{} is a valid workflow of {size}", args.file.display());
            Ok(ExitCode::SUCCESS)
        }
        Err(problems) => Err(definition::refuse(&args.file, &problems)),
    }
}
