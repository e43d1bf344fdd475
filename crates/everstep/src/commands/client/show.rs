//! `everstep show`.

use std::process::ExitCode;

use everstep_engine::{Clock as _, SystemClock};
use everstep_net::Method;
use serde_json::{Value, json};

use crate::client_args::ShowArgs;
use crate::commands::client::{run_id, timeline};
use crate::remote::{NO_QUERY, Remote};
use crate::{output, text};

/// Columns of the names in the head.
const INDENT: usize = 10;
/// The number of entries at the end of a journal in which the cancellation is searched.
const LAST_ENTRIES: u64 = 20;

pub(crate) async fn run(args: &ShowArgs) -> anyhow::Result<ExitCode> {
    let remote = Remote::from_settings_or_default(&args.remote)?;
    let id = run_id::find(&remote, &args.run).await?;
    let run = remote.ask(Method::GET, &Remote::path(&["v1", "runs", &id], NO_QUERY), None).await?;
    let steps = remote.list(&Remote::path(&["v1", "runs", &id, "steps"], NO_QUERY), "steps").await?;
    if args.json {
        output::print(json!({"run": run, "steps": steps}))?;
        return Ok(ExitCode::SUCCESS);
    }
    let reason = if run["status"] == "cancelled" { cancel_reason(&remote, &id, &run).await? } else { None };
    output::print(head(&run, reason))?;
    for line in unawaited(&run, &steps) {
        output::print(line)?;
    }
    let width = terminal_size::terminal_size().map_or(100, |(width, _)| usize::from(width.0));
    let now = run["endedAt"].is_null().then(|| SystemClock::default().wall());
    for line in timeline::draw(&steps, now, width) {
        output::print(line)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Why a run was cancelled, as its journal has it.
async fn cancel_reason(remote: &Remote, id: &str, run: &Value) -> anyhow::Result<Option<String>> {
    let last = run["version"].as_u64().unwrap_or_default();
    let query = [("after", last.saturating_sub(LAST_ENTRIES).to_string())];
    let page = remote.ask(Method::GET, &Remote::path(&["v1", "runs", id, "journal"], &query), None).await?;
    let mut entries = page["entries"].as_array().into_iter().flatten().rev();
    let cancelled = entries.find(|entry| entry["event"] == "RunCancelled");
    Ok(cancelled.and_then(|entry| entry["data"]["reason"].as_str()).map(str::to_owned))
}

/// A line per step that the function did not await: it still ran, or had failed.
fn unawaited(run: &Value, steps: &[Value]) -> Vec<String> {
    let end = if run["status"] == "failed" { "threw" } else { "returned" };
    let has_failed = |name: &Value| steps.iter().any(|step| step["key"] == *name && step["status"] == "failed");
    let describe = |name: &Value| {
        let state = if has_failed(name) { "had failed" } else { "was still running" };
        let name = text::safe(name.as_str().unwrap_or_default());
        format!("step \"{name}\" {state} when the function {end}: missing await?")
    };
    run["unawaited"].as_array().into_iter().flatten().map(describe).collect()
}

/// The facts about a run beside its steps.
fn head(run: &Value, cancel_reason: Option<String>) -> String {
    let said = |name: &str| run[name].as_str().map(text::safe);
    let time = |name: &str| run[name].as_str().map(text::time);
    let mut lines = vec![
        ("run", said("id")),
        ("workflow", said("workflow").map(|name| format!("{name} version {}", run["workflowVersion"]))),
        ("status", said("status")),
        ("waiting", said("waitingFor")),
        ("created", time("createdAt")),
        ("ended", time("endedAt")),
        ("reason", cancel_reason.map(|reason| text::safe_block(&reason, INDENT))),
        ("parent", said("parent")),
        ("origin", said("origin")),
    ];
    let shown = |value: &Value| Some(text::safe(&value.to_string())).filter(|_| !value.is_null());
    lines.push(("input", shown(&run["input"])));
    lines.push(("output", shown(&run["output"])));
    let error = &run["error"];
    lines.push(("error", (!error.is_null()).then(|| text::safe_block(&timeline::describe_error(error), INDENT))));
    let lines = lines.into_iter().filter_map(|(name, value)| Some(format!("{name:<9} {}", value?)));
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unawaited_steps_and_stacks_are_shown() {
        let error = json!({"code": "TYPE", "message": "no", "stack": "TypeError: no\n    at run \u{1b}[2J"});
        let run = json!({"status": "failed", "error": error, "unawaited": ["one", "two\u{7}"]});
        let steps = [json!({"key": "one", "status": "failed"})];
        let lines = [
            "step \"one\" had failed when the function threw: missing await?",
            "step \"two\\u{7}\" was still running when the function threw: missing await?",
        ];
        assert_eq!(unawaited(&run, &steps), lines);
        let shown = head(&run, None);
        assert!(
            shown.ends_with("\nerror     TYPE: no\n          TypeError: no\n              at run \\u{1b}[2J"),
            "{shown}"
        );
        let completed = json!({"status": "completed", "unawaited": ["one"]});
        let line = "step \"one\" was still running when the function returned: missing await?";
        assert_eq!(unawaited(&completed, &[]), [line]);
    }
}
