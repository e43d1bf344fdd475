//! `everstep runs`.

use std::io::{self, IsTerminal as _};
use std::process::ExitCode;

use comfy_table::Table;
use comfy_table::presets::NOTHING;
use everstep_core::time::Timestamp;
use everstep_engine::{Clock as _, SystemClock};
use everstep_net::Method;
use serde_json::{Value, json};

use super::times::read_time;
use crate::client_args::RunsArgs;
use crate::remote::Remote;
use crate::{output, text};

const PAGE_SIZE_MAX: usize = 500;

pub(crate) async fn run(args: &RunsArgs) -> anyhow::Result<ExitCode> {
    let remote = Remote::from_settings_or_default(&args.remote)?;
    let most = args.limit as usize;
    // All pages have the same filter.
    let filter = filter(args, SystemClock::default().wall())?;
    let (mut runs, mut cursor, mut scanned) = (Vec::new(), None::<String>, 0);
    let progress = Progress::new(args.json);
    while runs.len() < most {
        let mut query = filter.clone();
        query.push(("limit".to_owned(), (most - runs.len()).min(PAGE_SIZE_MAX).to_string()));
        query.extend(cursor.take().map(|cursor| ("cursor".to_owned(), cursor)));
        let mut page = remote.ask(Method::GET, &Remote::path(&["v1", "runs"], &query), None).await?;
        if let Value::Array(found) = page["runs"].take() {
            runs.extend(found);
        }
        cursor = page["nextCursor"].as_str().map(str::to_owned);
        scanned += page["scanned"].as_u64().unwrap_or_default();
        if cursor.is_none() {
            break;
        }
        progress.show(runs.len(), scanned);
    }
    progress.clear();
    if args.json {
        output::print(json!({"runs": runs, "nextCursor": cursor, "scanned": scanned, "more": cursor.is_some()}))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(["RUN", "WORKFLOW", "STATUS", "CREATED", "ENDED", "ERROR"]);
    for run in &runs {
        let said = |value: &Value| text::safe(value.as_str().unwrap_or("-"));
        let workflow = format!("{} v{}", said(&run["workflow"]), run["workflowVersion"]);
        table.add_row([
            said(&run["id"]),
            workflow,
            said(&run["status"]),
            run["createdAt"].as_str().map_or_else(|| "-".to_owned(), text::time),
            run["endedAt"].as_str().map_or_else(|| "-".to_owned(), text::time),
            said(&run["error"]["code"]),
        ]);
    }
    output::print(table)?;
    if cursor.is_some() {
        eprintln!("there are more runs; show them with a larger --limit");
    }
    Ok(ExitCode::SUCCESS)
}

/// A line on the terminal while a search needs several requests: each examines a limited number of runs.
struct Progress {
    is_shown: bool,
}

impl Progress {
    fn new(is_quiet: bool) -> Self {
        Self { is_shown: !is_quiet && io::stderr().is_terminal() }
    }

    fn show(&self, found: usize, scanned: u64) {
        if self.is_shown {
            eprint!("\r{found} found, {scanned} runs examined so far");
        }
    }

    fn clear(&self) {
        if self.is_shown {
            eprint!("\r\x1b[K");
        }
    }
}

/// The parameters that are the same for all pages.
fn filter(args: &RunsArgs, now: Timestamp) -> anyhow::Result<Vec<(String, String)>> {
    let mut filter = Vec::new();
    filter.extend(args.workflow.iter().map(|workflow| ("workflow".to_owned(), workflow.clone())));
    for (name, flag, time) in [("since", "--since", &args.since), ("until", "--until", &args.until)] {
        if let Some(time) = time {
            filter.push((name.to_owned(), read_time(flag, time, now)?));
        }
    }
    if !args.status.is_empty() {
        filter.push(("status".to_owned(), args.status.join(",")));
    }
    filter.extend(args.input.iter().map(|(path, value)| (format!("input.{path}"), value.clone())));
    filter.extend(args.tags.iter().map(|(name, value)| (format!("tag.{name}"), value.clone())));
    Ok(filter)
}
