//! `everstep publish` and `everstep events`.

use std::process::ExitCode;

use comfy_table::Table;
use comfy_table::presets::NOTHING;
use everstep_engine::{Clock as _, SystemClock};
use everstep_net::Method;
use serde_json::{Value, json};

use super::times::read_time;
use crate::event_args::{EventsArgs, PublishArgs};
use crate::remote::{NO_QUERY, Remote};
use crate::{input, output, text};

const PAGE_SIZE_MAX: usize = 500;
/// How long one request may wait until the fan-out of an event is done.
const WAIT_SECONDS: &str = "30";

pub(crate) async fn publish(args: &PublishArgs) -> anyhow::Result<ExitCode> {
    let remote = Remote::from_settings_or_default(&args.remote)?;
    let mut body = json!({"topic": args.topic, "data": data(args)?});
    for (name, value) in [("id", &args.id), ("source", &args.source), ("subject", &args.subject)] {
        if let Some(value) = value {
            body[name] = json!(value);
        }
    }
    let wait: &[(&str, &str)] = if args.wait { &[("waitSeconds", WAIT_SECONDS)] } else { &[] };
    let published = remote.ask(Method::POST, &Remote::path(&["v1", "events"], wait), Some(&body)).await?;
    if args.json {
        output::print(published)?;
        return Ok(ExitCode::SUCCESS);
    }
    let id = text::safe(published["id"].as_str().unwrap_or_default());
    output::print(&id)?;
    if published["created"] == json!(false) {
        eprintln!("the event was published before, with the same id");
    }
    if args.wait {
        match describe_matched(&published["matched"]) {
            Some(matched) => eprintln!("{matched}"),
            None => eprintln!("the fan-out has not ended within {WAIT_SECONDS} s; it continues"),
        }
        if let Some(failed) = describe_failed(&published["matched"]) {
            eprintln!("{failed}: everstep events {id}");
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The data of the event on the command line.
fn data(args: &PublishArgs) -> anyhow::Result<Value> {
    let given = match (&args.file, &args.data) {
        (None, None) => return Ok(Value::Null),
        (Some(file), _) if file == "-" => input::read("FILE", "-"),
        (Some(file), _) => input::read("FILE", &format!("@{file}")),
        (None, Some(data)) => input::read("--data", data),
    };
    Ok(given?.value().clone())
}

/// What an event has reached, in words; none while its fan-out continues.
fn describe_matched(matched: &Value) -> Option<String> {
    let count = |name: &str| matched[name].as_u64().and_then(|count| usize::try_from(count).ok());
    let (runs, waits) = (count("workflows")?, count("waits")?);
    Some(format!("started {}, resolved {}", text::count(runs, "run"), text::count(waits, "wait")))
}

/// The number of subscriptions that could not start a run, in words; none if there is no such subscription.
fn describe_failed(matched: &Value) -> Option<String> {
    let failed = matched["failed"].as_u64().filter(|count| *count > 0)?;
    Some(format!("{} failed", text::count(usize::try_from(failed).ok()?, "subscription")))
}

pub(crate) async fn events(args: &EventsArgs) -> anyhow::Result<ExitCode> {
    let remote = Remote::from_settings_or_default(&args.remote)?;
    match &args.event {
        Some(id) => show(&remote, id, args.json).await,
        None => list(&remote, args).await,
    }
}

async fn list(remote: &Remote, args: &EventsArgs) -> anyhow::Result<ExitCode> {
    let most = args.limit as usize;
    // All pages have the same filter.
    let now = SystemClock::default().wall();
    let since = args.since.as_deref().map(|time| read_time("--since", time, now)).transpose()?;
    let until = args.until.as_deref().map(|time| read_time("--until", time, now)).transpose()?;
    let (mut events, mut cursor) = (Vec::new(), None::<String>);
    while events.len() < most {
        let mut query = vec![("limit", (most - events.len()).min(PAGE_SIZE_MAX).to_string())];
        query.extend(args.topic.iter().map(|topic| ("topic", topic.clone())));
        query.extend(since.iter().map(|time| ("since", time.clone())));
        query.extend(until.iter().map(|time| ("until", time.clone())));
        query.extend(cursor.take().map(|cursor| ("cursor", cursor)));
        let mut page = remote.ask(Method::GET, &Remote::path(&["v1", "events"], &query), None).await?;
        if let Value::Array(found) = page["events"].take() {
            events.extend(found);
        }
        cursor = page["nextCursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            break;
        }
    }
    if args.json {
        output::print(json!({"events": events, "nextCursor": cursor}))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(["EVENT", "TOPIC", "SOURCE", "ID", "PUBLISHED", "RUNS", "WAITS"]);
    for event in &events {
        let said = |name: &str| text::safe(event[name].as_str().unwrap_or("-"));
        let count = |name: &str| event["matched"][name].as_u64().map_or_else(|| "-".to_owned(), |n| n.to_string());
        let at = event["at"].as_str().map_or_else(|| "-".to_owned(), text::time);
        table.add_row([
            said("id"),
            said("topic"),
            said("source"),
            said("eventId"),
            at,
            count("workflows"),
            count("waits"),
        ]);
    }
    output::print(table)?;
    if cursor.is_some() {
        eprintln!("there are more events; show them with a larger --limit");
    }
    Ok(ExitCode::SUCCESS)
}

async fn show(remote: &Remote, id: &str, is_json: bool) -> anyhow::Result<ExitCode> {
    let path = Remote::path(&["v1", "events", id], NO_QUERY);
    let mut event = remote.ask(Method::GET, &path, None).await?;
    let results = remote.list(&path, "results").await?;
    if is_json {
        event["results"] = json!(results);
        event["nextCursor"] = Value::Null;
        output::print(event)?;
        return Ok(ExitCode::SUCCESS);
    }
    let said = |name: &str| text::safe(event[name].as_str().unwrap_or("-"));
    output::print(format_args!("topic      {}", said("topic")))?;
    output::print(format_args!("published  {}", text::time(event["at"].as_str().unwrap_or_default())))?;
    output::print(format_args!("source     {}", said("source")))?;
    for (label, name) in [("id", "eventId"), ("subject", "subject"), ("replay of", "replayOf")] {
        if event[name].is_string() {
            output::print(format_args!("{label:<10} {}", said(name)))?;
        }
    }
    let matched = describe_matched(&event["matched"]).filter(|_| event["fannedAt"].is_string());
    let failed = describe_failed(&event["matched"]).map(|failed| format!(", {failed}")).unwrap_or_default();
    output::print(format_args!("fan-out    {}{failed}", matched.as_deref().unwrap_or("continues")))?;
    output::print(format_args!("data       {}", text::safe(&event["data"].to_string())))?;
    if results.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(["RESULT", "SUBSCRIPTION", "RUN", "STEP", "REASON"]);
    for result in &results {
        let said = |name: &str| text::safe(result[name].as_str().unwrap_or("-"));
        let reason = match (result["code"].as_str(), result["message"].as_str()) {
            (Some(code), Some(message)) => format!("{}: {}", text::safe(code), text::safe(message)),
            _ => "-".to_owned(),
        };
        table.add_row([said("type"), said("subscription"), said("run"), said("step"), reason]);
    }
    output::print(table)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_described_when_they_are_known() {
        let matched = json!({"workflows": 1, "queues": 0, "http": 0, "waits": 2});
        assert_eq!(describe_matched(&matched).as_deref(), Some("started 1 run, resolved 2 waits"));
        assert_eq!(describe_matched(&Value::Null), None);
    }
}
