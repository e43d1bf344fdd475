//! `everstep start`.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use everstep_net::Method;
use serde_json::{Map, Value, json};

use super::follow::{RECONNECT_AFTER, RECONNECTS_MAX};
use crate::client_args::StartArgs;
use crate::config::HumanDuration;
use crate::remote::{Interrupted, NO_QUERY, Remote};
use crate::{exit, input, output, text};

/// How long one request may wait until the run has ended or is paused.
const WAIT_SECONDS: &str = "30";

pub(crate) async fn run(args: &StartArgs) -> anyhow::Result<ExitCode> {
    let remote = Remote::from_settings_or_default(&args.remote)?;
    let mut body = json!({"input": input::read("--input", &args.input)?.value()});
    if let Some(key) = &args.key {
        body["idempotencyKey"] = json!(key);
    }
    if let Some(version) = args.version {
        body["version"] = json!(version);
    }
    if !args.tags.is_empty() {
        let tags: Map<String, Value> = args.tags.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        body["tags"] = Value::Object(tags);
    }
    if let Some(time) = &args.at {
        body["startAt"] = json!(time);
    }
    if let Some(HumanDuration(delay)) = args.delay {
        body["delaySeconds"] = json!(whole_seconds(delay));
    }
    if args.allow_unserved {
        body["allowUnserved"] = json!(true);
    }
    let path = Remote::path(&["v1", "workflows", &args.workflow, "runs"], NO_QUERY);
    let mut started =
        remote.ask(Method::POST, &path, Some(&body)).await.map_err(|error| describe_lost_start(error, args))?;
    let id = started["run"]["id"].as_str().unwrap_or_default().to_owned();
    if started["created"] == json!(false) {
        eprintln!("run {} existed before, with the same idempotency key", text::safe(&id));
    } else if args.wait {
        // Standard output has only the output of the run; an interrupted wait must not lose the id.
        eprintln!("run {} was started", text::safe(&id));
    }
    // No worker serves the workflow.
    if let Some(warning) = started["warning"].as_str() {
        eprintln!("warning: {}", text::safe(warning));
    }
    if args.wait {
        let run = wait(&remote, &id, started["run"].take()).await.map_err(|error| {
            let id = text::safe(&id);
            error.context(format!("waiting for run {id}; `everstep follow {id}` waits for it again"))
        })?;
        return print_end(&run, args.json);
    }
    if args.json {
        output::print(started)?;
    } else {
        output::print(id)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// An error of a start that the server may have performed: the run may exist.
fn describe_lost_start(error: anyhow::Error, args: &StartArgs) -> anyhow::Error {
    if !error.downcast_ref::<Interrupted>().is_some_and(|interrupted| interrupted.is_uncertain) {
        return error;
    }
    let advice = match &args.key {
        Some(_) => "repeat the command with the same --key: it starts no second run".to_owned(),
        None => format!(
            "`everstep runs --workflow {}` lists it; with a --key the command can be repeated, and starts one run",
            args.workflow
        ),
    };
    anyhow!("{error}; the run may have been started: {advice}")
}

/// Waits until a run has ended or is paused, also if the server is not available for some time: the run continues.
async fn wait(remote: &Remote, id: &str, mut run: Value) -> anyhow::Result<Value> {
    let path = Remote::path(&["v1", "runs", id], &[("waitSeconds", WAIT_SECONDS)]);
    let mut failures = 0;
    while run["endedAt"].is_null() && run["status"] != "paused" {
        let asked = Instant::now();
        match remote.ask(Method::GET, &path, None).await {
            Ok(shown) if shown["id"].is_string() => (run, failures) = (shown, 0),
            Ok(_) => anyhow::bail!("the response is not a run; is there an Everstep server at this address?"),
            Err(error) if failures < RECONNECTS_MAX && error.is::<Interrupted>() => {
                tracing::debug!(%error, "the wait was interrupted");
                failures += 1;
                tokio::time::sleep(RECONNECT_AFTER).await;
            }
            Err(error) => return Err(error),
        }
        // A server that has no place for a wait responds at once.
        if asked.elapsed() < RECONNECT_AFTER && run["endedAt"].is_null() && run["status"] != "paused" {
            tokio::time::sleep(RECONNECT_AFTER).await;
        }
    }
    Ok(run)
}

/// A part of a second counts as a second: a run does not begin early.
fn whole_seconds(delay: Duration) -> u64 {
    delay.as_secs() + u64::from(delay.subsec_nanos() > 0)
}

fn print_end(run: &Value, is_json: bool) -> anyhow::Result<ExitCode> {
    let (is_completed, is_paused) = (run["status"] == "completed", run["status"] == "paused");
    if is_json {
        output::print(run)?;
    } else if is_completed {
        output::print(&run["output"])?;
    } else {
        let other = if is_paused { "a request paused it" } else { "the run was cancelled" };
        let why = run["error"]["message"].as_str().unwrap_or(other);
        eprintln!("run {}: {}: {}", said(run, "id"), said(run, "status"), text::safe_block(why, 0));
        if is_paused {
            eprintln!("to continue it: everstep resume {}", said(run, "id"));
        }
    }
    Ok(ExitCode::from(match (is_completed, is_paused) {
        (true, _) => 0,
        (false, true) => exit::PAUSED,
        (false, false) => exit::FAILED,
    }))
}

fn said(run: &Value, name: &str) -> String {
    text::safe(run[name].as_str().unwrap_or_default())
}
