//! `everstep subscriptions`.

use std::process::ExitCode;

use comfy_table::Table;
use comfy_table::presets::NOTHING;
use everstep_net::Method;
use serde_json::{Value, json};

use crate::event_args::{
    CreateSubscriptionArgs, ListSubscriptionsArgs, SubscriptionArgs, SubscriptionsArgs, SubscriptionsCommand,
};
use crate::remote::{NO_QUERY, Remote};
use crate::{input, output, text};

pub(crate) async fn run(args: &SubscriptionsArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        SubscriptionsCommand::Create(args) => create(args).await,
        SubscriptionsCommand::List(args) => list(args).await,
        SubscriptionsCommand::Pause(args) => control(args, "pause").await,
        SubscriptionsCommand::Resume(args) => control(args, "resume").await,
        SubscriptionsCommand::Delete(args) => delete(args).await,
    }
}

async fn create(args: &CreateSubscriptionArgs) -> anyhow::Result<ExitCode> {
    let remote = Remote::from_settings_or_default(&args.remote)?;
    let mut body = json!({"type": "workflow", "name": args.workflow});
    if let Some(version) = args.version {
        body["version"] = json!(version);
    }
    for (name, flag, value) in [("filter", "--filter", &args.filter), ("input", "--input", &args.input)] {
        if let Some(value) = value {
            body[name] = input::read(flag, value)?.value().clone();
        }
    }
    let path = Remote::path(&["v1", "topics", &args.pattern, "subscriptions"], NO_QUERY);
    let created = remote.ask(Method::POST, &path, Some(&body)).await?;
    match args.json {
        true => output::print(created)?,
        false => output::print(text::safe(created["id"].as_str().unwrap_or_default()))?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(args: &ListSubscriptionsArgs) -> anyhow::Result<ExitCode> {
    let remote = Remote::from_settings_or_default(&args.remote)?;
    let path = match &args.pattern {
        Some(pattern) => Remote::path(&["v1", "topics", pattern, "subscriptions"], NO_QUERY),
        None => Remote::path(&["v1", "subscriptions"], NO_QUERY),
    };
    let subscriptions = remote.list(&path, "subscriptions").await?;
    if args.json {
        output::print(json!({"subscriptions": subscriptions}))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(["SUBSCRIPTION", "PATTERN", "WORKFLOW", "ORIGIN", "CREATED", "PAUSED"]);
    for subscription in &subscriptions {
        let said = |name: &str| text::safe(subscription[name].as_str().unwrap_or("-"));
        let time = |name: &str| subscription[name].as_str().map_or_else(|| "-".to_owned(), text::time);
        let workflow = match &subscription["version"] {
            Value::Null => said("name"),
            version => format!("{} v{version}", said("name")),
        };
        table.add_row([said("id"), said("pattern"), workflow, said("origin"), time("createdAt"), time("pausedAt")]);
    }
    output::print(table)?;
    Ok(ExitCode::SUCCESS)
}

async fn control(args: &SubscriptionArgs, verb: &str) -> anyhow::Result<ExitCode> {
    let remote = Remote::from_settings_or_default(&args.remote)?;
    let path = Remote::path(&["v1", "subscriptions", &args.id.to_string(), verb], NO_QUERY);
    let subscription = remote.ask(Method::POST, &path, None).await?;
    let state = if subscription["pausedAt"].is_string() { "is paused" } else { "is active" };
    eprintln!("subscription {} {state}", args.id);
    Ok(ExitCode::SUCCESS)
}

async fn delete(args: &SubscriptionArgs) -> anyhow::Result<ExitCode> {
    let remote = Remote::from_settings_or_default(&args.remote)?;
    remote.ask(Method::DELETE, &Remote::path(&["v1", "subscriptions", &args.id.to_string()], NO_QUERY), None).await?;
    eprintln!("deleted subscription {}", args.id);
    Ok(ExitCode::SUCCESS)
}
