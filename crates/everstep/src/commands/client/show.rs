//! `everstep show`.

use std::process::ExitCode;

use everstep_engine::{Clock as _, SystemClock};
use everstep_net::Method;
use serde_json::{Value, json};

use crate::client_args::ShowArgs;
use crate::commands::client::timeline;
use crate::remote::{NO_QUERY, Remote};
use crate::{output, text};

pub(crate) async fn run(args: &ShowArgs) -> anyhow::Result<ExitCode> {
    let remote = Remote::from_settings_or_default(&args.remote)?;
    let run = remote.ask(Method::GET, &Remote::path(&["v1", "runs", &args.run], NO_QUERY), None).await?;
    let steps = remote.list(&Remote::path(&["v1", "runs", &args.run, "steps"], NO_QUERY), "steps").await?;
    if args.json {
        output::print(json!({"run": run, "steps": steps}))?;
        return Ok(ExitCode::SUCCESS);
    }
    output::print(head(&run))?;
    let width = terminal_size::terminal_size().map_or(100, |(width, _)| usize::from(width.0));
    let now = run["endedAt"].is_null().then(|| SystemClock::default().wall());
    for line in timeline::draw(&steps, now, width) {
        output::print(line)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What there is to say about a run besides its steps.
fn head(run: &Value) -> String {
    let said = |name: &str| run[name].as_str().map(text::safe);
    let mut lines = vec![
        ("run", said("id")),
        ("workflow", said("workflow").map(|name| format!("{name} version {}", run["workflowVersion"]))),
        ("status", said("status")),
        ("waiting", said("waitingFor")),
        ("created", said("createdAt")),
        ("ended", said("endedAt")),
        ("parent", said("parent")),
        ("origin", said("origin")),
    ];
    let shown = |value: &Value| Some(text::safe(&value.to_string())).filter(|_| !value.is_null());
    lines.push(("input", shown(&run["input"])));
    lines.push(("output", shown(&run["output"])));
    let error = &run["error"];
    let words = [&error["code"], &error["message"]].map(|value| text::safe(value.as_str().unwrap_or_default()));
    lines.push(("error", Some(words.join(": ")).filter(|_| !error.is_null())));
    let lines = lines.into_iter().filter_map(|(name, value)| Some(format!("{name:<9} {}", value?)));
    lines.collect::<Vec<_>>().join("\n")
}
