//! `everstep workflows` and `everstep delete`.

use std::process::ExitCode;

use comfy_table::Table;
use comfy_table::presets::NOTHING;
use everstep_net::Method;
use serde_json::{Value, json};

use crate::client_args::{DeleteArgs, WorkflowsArgs};
use crate::remote::{NO_QUERY, Remote};
use crate::{output, text};

const PAGE_SIZE: usize = 500;
/// The statuses whose counts are shown.
const STATUSES: [&str; 7] = ["pending", "running", "waiting", "paused", "completed", "failed", "cancelled"];

pub(crate) async fn list(args: &WorkflowsArgs) -> anyhow::Result<ExitCode> {
    let remote = Remote::from_settings_or_default(&args.remote)?;
    let mut all: Vec<Value> = Vec::new();
    loop {
        let mut query = vec![("limit", PAGE_SIZE.to_string())];
        query.extend(all.last().and_then(|last| last["name"].as_str()).map(|name| ("cursor", name.to_owned())));
        let page = remote.ask(Method::GET, &Remote::path(&["v1", "workflows"], &query), None).await?;
        let Value::Array(page) = page else { anyhow::bail!("the response of the server has no list of workflows") };
        let is_last = page.len() < PAGE_SIZE;
        all.extend(page);
        if is_last {
            break;
        }
    }
    if args.json {
        output::print(json!({"workflows": all}))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(["WORKFLOW", "STYLE", "ACTIVE", "LATEST", "UPDATED", "RUNS"]);
    for workflow in &all {
        let said = |name: &str| text::safe(workflow[name].as_str().unwrap_or("-"));
        let version = |name: &str| workflow[name].as_u64().map_or_else(|| "-".to_owned(), |n| format!("v{n}"));
        let counts = STATUSES.iter().filter_map(|status| Some((status, workflow[status].as_u64().filter(|n| *n > 0)?)));
        let counts: Vec<_> = counts.map(|(status, count)| format!("{count} {status}")).collect();
        table.add_row([
            said("name"),
            said("style"),
            version("activeVersion"),
            version("latestVersion"),
            text::time(workflow["updatedAt"].as_str().unwrap_or_default()),
            counts.join(", "),
        ]);
    }
    output::print(table)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn delete(args: &DeleteArgs) -> anyhow::Result<ExitCode> {
    let remote = Remote::from_settings_or_default(&args.remote)?;
    remote.ask(Method::DELETE, &Remote::path(&["v1", "workflows", &args.workflow], NO_QUERY), None).await?;
    eprintln!("deleted {}", text::safe(&args.workflow));
    Ok(ExitCode::SUCCESS)
}
