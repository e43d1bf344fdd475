//! `everstep signal|cancel|pause|resume|retry|fork`.

use std::process::ExitCode;

use everstep_net::Method;
use serde_json::{Value, json};

use crate::client_args::{CancelArgs, ControlArgs, ForkArgs, SignalArgs};
use crate::commands::client::run_id;
use crate::remote::{NO_QUERY, Remote};
use crate::{exit, input, output, text};

pub(crate) async fn signal(args: &SignalArgs) -> anyhow::Result<ExitCode> {
    let remote = Remote::from_settings_or_default(&args.remote)?;
    let payload = input::read("--payload", &args.payload)?;
    let run = run_id::find(&remote, &args.run).await?;
    let path = Remote::path(&["v1", "runs", &run, "signals", &args.event], NO_QUERY);
    let answer = remote.ask_with(Method::POST, &path, args.key.as_deref(), Some(payload.value())).await?;
    Ok(print_status(&answer))
}

pub(crate) async fn cancel(args: &CancelArgs) -> anyhow::Result<ExitCode> {
    let remote = Remote::from_settings_or_default(&args.remote)?;
    let run = run_id::find(&remote, &args.run).await?;
    let path = Remote::path(&["v1", "runs", &run, "cancel"], NO_QUERY);
    let body = json!({"reason": args.reason});
    Ok(print_status(&remote.ask(Method::POST, &path, Some(&body)).await?))
}

/// `action` is pause, resume or retry.
pub(crate) async fn control(args: &ControlArgs, action: &str) -> anyhow::Result<ExitCode> {
    let remote = Remote::from_settings_or_default(&args.remote)?;
    let run = run_id::find(&remote, &args.run).await?;
    let path = Remote::path(&["v1", "runs", &run, action], NO_QUERY);
    Ok(print_status(&remote.ask(Method::POST, &path, None).await?))
}

pub(crate) async fn fork(args: &ForkArgs) -> anyhow::Result<ExitCode> {
    let remote = Remote::from_settings_or_default(&args.remote)?;
    let run = run_id::find(&remote, &args.run).await?;
    let path = Remote::path(&["v1", "runs", &run, "fork"], NO_QUERY);
    let body = args.at.map_or_else(|| json!({}), |at| json!({"at": at}));
    let forked = remote.ask(Method::POST, &path, Some(&body)).await?;
    if args.json {
        output::print(forked)?;
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("the fork continues after entry {} of {}", forked["forkedAt"], text::safe(&run));
    let children = forked["notUndone"]["children"].as_array().map_or(0, Vec::len);
    if children > 0 {
        eprintln!("{} of the original run are not changed", text::count(children, "child run"));
    }
    output::print(text::safe(forked["run"]["id"].as_str().unwrap_or_default()))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the outcome; a request that changed nothing is not a success.
fn print_status(answer: &Value) -> ExitCode {
    let said = |name: &str| answer[name].as_str().map(text::safe);
    let outcome = said("outcome").unwrap_or_default();
    let reason = said("reason").map(|reason| format!(": {reason}")).unwrap_or_default();
    eprintln!("{outcome}{reason}");
    ExitCode::from(if outcome == "ignored" { exit::FAILED } else { 0 })
}
