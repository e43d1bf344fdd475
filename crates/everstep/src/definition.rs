//! Workflow files: reading them, naming them, and reporting their problems.

use std::fmt::Write;
use std::io::Read;
use std::path::{Path, PathBuf};

use everstep_core::graph::{Graph, Problem};
use everstep_core::limits::JSON_DEPTH;
use everstep_core::strict::StrictValue;
use everstep_core::style::Style;
use everstep_core::workflow::is_name;
use serde_json::Value;

use crate::exit::invalid;
use crate::{text, wire};

/// A larger file is not a workflow.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// The number of problems that are shown to a person; a program receives all of them.
const PROBLEMS_SHOWN_MAX: usize = 50;

/// Reads a file and checks its definition.
pub fn check(path: &Path) -> Result<Style, FileError> {
    let invalid = |problems| FileError::Invalid { path: path.to_owned(), problems };
    wire::check(&read(path)?).map_err(invalid)
}

/// Reads a file into JSON.
pub fn read(path: &Path) -> Result<Value, FileError> {
    let text = read_text(path)?;
    let parsed = match is_yaml(path, &text) {
        true => parse_yaml(&text).map_err(|message| format!("not YAML: {message}")),
        false => {
            serde_json::from_str(&text).map(|StrictValue(value)| value).map_err(|error| format!("not JSON: {error}"))
        }
    };
    parsed.map_err(|message| FileError::Invalid { path: path.to_owned(), problems: vec![Problem::at("", message)] })
}

/// Why a file is not a workflow.
#[derive(Debug)]
pub enum FileError {
    Unreadable(anyhow::Error),
    /// A syntax error is a problem like any other.
    Invalid {
        path: PathBuf,
        problems: Vec<Problem>,
    },
}

impl From<anyhow::Error> for FileError {
    fn from(error: anyhow::Error) -> Self {
        Self::Unreadable(error)
    }
}

impl From<FileError> for anyhow::Error {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Unreadable(error) => error,
            FileError::Invalid { path, problems } => refuse(&path, &problems),
        }
    }
}

fn read_text(path: &Path) -> anyhow::Result<String> {
    let unreadable = |error: std::io::Error| invalid(format!("{} cannot be read: {error}", path.display()));
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(invalid(format!("{} has more than {} MiB", path.display(), FILE_BYTES_MAX / 1024 / 1024)));
    }
    String::from_utf8(bytes).map_err(|_| invalid(format!("{} is not a text in UTF-8", path.display())))
}

/// By its extension; a file with another one is JSON if it begins like JSON.
fn is_yaml(path: &Path, text: &str) -> bool {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("json") => false,
        Some("yaml" | "yml") => true,
        _ => !text.trim_start().starts_with('{'),
    }
}

fn parse_yaml(text: &str) -> Result<Value, String> {
    let options = serde_saphyr::options! {
        // `no` and `off` are strings, not booleans.
        strict_booleans: true,
        with_snippet: false,
        budget: serde_saphyr::budget! {
            // The core's own limit has a clearer message, so it applies first.
            max_depth: 2 + JSON_DEPTH,
            max_nodes: 4_000_000,
            max_events: 8_000_000,
        },
        // A small file must not expand to a large document.
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 100_000 },
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| error.to_string())
}

/// The name under which a file's workflow is saved.
pub fn name(path: &Path, given: Option<&str>) -> anyhow::Result<String> {
    if let Some(name) = given {
        if is_name(name) {
            return Ok(name.to_owned());
        }
        let hint = "1 to 128 lowercase letters, digits, `_` or `-`, beginning with a letter or digit";
        return Err(invalid(format!("{name:?} is not a valid name of a workflow: {hint}")));
    }
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_lowercase();
    let plain = stem.chars().map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '-' });
    let name: String = plain.skip_while(|c| !c.is_ascii_alphanumeric()).take(128).collect();
    Ok(if is_name(&name) { name } else { "workflow".to_owned() })
}

/// The graph of a file, for commands that run it without people: a run of a state machine ends only by their actions.
pub fn graph(path: &Path, style: Style) -> anyhow::Result<Graph> {
    match style {
        Style::Graph(graph) => Ok(graph),
        Style::Machine(_) | Style::Code => {
            let (file, name) = (path.display(), name(path, None)?);
            Err(invalid(format!(
                "{file} is a state machine, whose runs wait for requests; start a server with `everstep serve`, then \
                 `everstep import {file}`, `everstep start {name}` and `everstep act RUN ACTION`"
            )))
        }
    }
}

/// An error with the problems of a file: place, reason and hint.
fn refuse(path: &Path, problems: &[Problem]) -> anyhow::Error {
    let mut message = format!("{} is not a valid workflow: {}", path.display(), text::count(problems.len(), "problem"));
    for problem in problems.iter().take(PROBLEMS_SHOWN_MAX) {
        let pointer = if problem.path.is_empty() { "/" } else { &problem.path };
        let node = problem.node.as_ref().map(|node| format!(" (node {node:?})")).unwrap_or_default();
        let _ = write!(message, "\n  {}{}: {}", text::safe(pointer), text::safe(&node), text::safe(&problem.message));
        if let Some(hint) = &problem.hint {
            let _ = write!(message, "\n      hint: {}", text::safe(hint));
        }
    }
    if problems.len() > PROBLEMS_SHOWN_MAX {
        let _ = write!(
            message,
            "\n  … and {} more; `everstep validate --json` lists all",
            problems.len() - PROBLEMS_SHOWN_MAX
        );
    }
    invalid(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_s_name_becomes_the_workflow_s() {
        let named = |path: &str| name(Path::new(path), None).unwrap();
        assert_eq!(named("examples/Order Approval.v2.json"), "order-approval-v2");
        assert_eq!(named("__x.yaml"), "x");
        assert_eq!(named("été.yaml"), "t-");
        assert_eq!(named("…"), "workflow");
        assert!(name(Path::new("x.json"), Some("Not A Name")).is_err());
    }
}
