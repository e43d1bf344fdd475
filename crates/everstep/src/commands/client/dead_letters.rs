//! `everstep dlq`.

use std::process::ExitCode;

use clap::ValueEnum;
use comfy_table::Table;
use comfy_table::presets::NOTHING;
use everstep_core::time::Timestamp;
use everstep_engine::{Clock as _, SystemClock};
use everstep_net::Method;
use serde_json::{Map, Value, json};

use super::times::read_time;
use crate::dead_letter_args::{
    DiscardArgs, DlqArgs, DlqCommand, LetterFilter, LetterSelection, ListLettersArgs, RequeueArgs, ShowLetterArgs,
};
use crate::remote::{NO_QUERY, Remote};
use crate::{output, text};

const PAGE_SIZE_MAX: usize = 500;
const ROOT: &str = "dead-letters";

pub(crate) async fn run(args: &DlqArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        DlqCommand::List(args) => list(args).await,
        DlqCommand::Show(args) => show(args).await,
        DlqCommand::Requeue(args) => requeue(args).await,
        DlqCommand::Discard(args) => discard(args).await,
    }
}

/// The name of a choice on the command line.
fn word(choice: &impl ValueEnum) -> String {
    choice.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// The fields of a filter, by their names in the API.
fn fields(filter: &LetterFilter, now: Timestamp) -> anyhow::Result<Vec<(&'static str, String)>> {
    let LetterFilter { source, kind, workflow, run, error, since, until } = filter;
    let mut fields = Vec::new();
    fields.extend(source.iter().map(|source| ("source", word(source))));
    fields.extend(kind.iter().map(|kind| ("kind", kind.clone())));
    fields.extend(workflow.iter().map(|workflow| ("workflow", workflow.clone())));
    fields.extend(run.iter().map(|run| ("run", run.to_string())));
    fields.extend(error.iter().map(|error| ("error", error.clone())));
    for (name, flag, time) in [("since", "--since", since), ("until", "--until", until)] {
        if let Some(time) = time {
            fields.push((name, read_time(flag, time, now)?));
        }
    }
    Ok(fields)
}

async fn list(args: &ListLettersArgs) -> anyhow::Result<ExitCode> {
    let remote = Remote::from_settings_or_default(&args.remote)?;
    let most = args.limit as usize;
    // All pages have the same filter.
    let filter = fields(&args.filter, SystemClock::default().wall())?;
    let (mut letters, mut cursor) = (Vec::new(), None::<String>);
    while letters.len() < most {
        let mut query = filter.clone();
        query.push(("limit", (most - letters.len()).min(PAGE_SIZE_MAX).to_string()));
        query.extend(args.status.iter().map(|status| ("status", word(status))));
        query.extend(cursor.take().map(|cursor| ("cursor", cursor)));
        let mut page = remote.ask(Method::GET, &Remote::path(&["v1", ROOT], &query), None).await?;
        if let Value::Array(found) = page["deadLetters"].take() {
            letters.extend(found);
        }
        cursor = page["nextCursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            break;
        }
    }
    if args.json {
        output::print(json!({"deadLetters": letters, "nextCursor": cursor}))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(["DEAD LETTER", "STATUS", "KIND", "WORKFLOW", "TARGET", "ERROR", "WRITTEN"]);
    for letter in &letters {
        let said = |name: &str| text::safe(letter[name].as_str().unwrap_or("-"));
        let error = last_error(letter).map_or_else(|| "-".to_owned(), text::safe);
        let at = letter["createdAt"].as_str().map_or_else(|| "-".to_owned(), text::time);
        table.add_row([said("id"), said("status"), said("kind"), said("workflow"), said("target"), error, at]);
    }
    output::print(table)?;
    if cursor.is_some() {
        eprintln!("there are more dead letters; show them with a larger --limit");
    }
    Ok(ExitCode::SUCCESS)
}

/// The code of the last failed attempt.
fn last_error(letter: &Value) -> Option<&str> {
    let codes = letter["attempts"].as_array()?.iter().rev().filter_map(|attempt| attempt["code"].as_str());
    codes.into_iter().find(|code| *code != "DELIVERED")
}

async fn show(args: &ShowLetterArgs) -> anyhow::Result<ExitCode> {
    let remote = Remote::from_settings_or_default(&args.remote)?;
    let path = Remote::path(&["v1", ROOT, &args.id.to_string()], NO_QUERY);
    let letter = remote.ask(Method::GET, &path, None).await?;
    if args.json {
        output::print(letter)?;
        return Ok(ExitCode::SUCCESS);
    }
    for (label, name) in [
        ("status", "status"),
        ("source", "source"),
        ("kind", "kind"),
        ("target", "target"),
        ("workflow", "workflow"),
        ("run", "run"),
        ("step", "step"),
        ("delivery", "deliveryId"),
        ("history", "historyId"),
        ("event", "event"),
        ("reason", "reason"),
    ] {
        if let Some(value) = letter[name].as_str() {
            output::print(format_args!("{label:<10} {}", text::safe(value)))?;
        }
    }
    for (label, name) in [("written", "createdAt"), ("changed", "changedAt"), ("notified", "notifiedAt")] {
        if let Some(time) = letter[name].as_str() {
            output::print(format_args!("{label:<10} {}", text::time(time)))?;
        }
    }
    output::print(format_args!("config     {}", text::safe(&letter["config"].to_string())))?;
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(["ATTEMPT", "MS", "CODE", "HTTP", "MESSAGE"]);
    for attempt in letter["attempts"].as_array().into_iter().flatten() {
        let said = |name: &str| text::safe(attempt[name].as_str().unwrap_or_default());
        let number = |name: &str| attempt[name].as_u64().map_or_else(|| "-".to_owned(), |number| number.to_string());
        let at = attempt["at"].as_str().map_or_else(|| "-".to_owned(), text::time);
        table.add_row([at, number("ms"), said("code"), number("status"), said("message")]);
    }
    output::print(table)?;
    Ok(ExitCode::SUCCESS)
}

async fn requeue(args: &RequeueArgs) -> anyhow::Result<ExitCode> {
    let remote = Remote::from_settings_or_default(&args.remote)?;
    control(&remote, &args.selection, ("requeue", "requeued"), None).await
}

async fn discard(args: &DiscardArgs) -> anyhow::Result<ExitCode> {
    let remote = Remote::from_settings_or_default(&args.remote)?;
    control(&remote, &args.selection, ("discard", "discarded"), args.reason.as_deref()).await
}

/// Sends a control to one dead letter, or to all of a filter, call by call.
async fn control(
    remote: &Remote,
    selection: &LetterSelection,
    (verb, done): (&str, &str),
    reason: Option<&str>,
) -> anyhow::Result<ExitCode> {
    if let Some(id) = selection.id {
        let body = reason.map(|reason| json!({"reason": reason}));
        let path = Remote::path(&["v1", ROOT, &id.to_string(), verb], NO_QUERY);
        remote.ask(Method::POST, &path, body.as_ref()).await?;
        eprintln!("{done} dead letter {id}");
        return Ok(ExitCode::SUCCESS);
    }
    let fields = fields(&selection.filter, SystemClock::default().wall())?;
    let filter: Map<_, _> = fields.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
    let mut body = json!({"filter": filter, "all": selection.all, "dryRun": selection.dry_run});
    if let Some(reason) = reason {
        body["reason"] = reason.into();
    }
    let path = Remote::path(&["v1", ROOT, verb], NO_QUERY);
    let mut matched = 0;
    loop {
        let result = remote.ask(Method::POST, &path, Some(&body)).await?;
        matched += result["matched"].as_u64().and_then(|count| usize::try_from(count).ok()).unwrap_or_default();
        if selection.dry_run {
            let more = if result["hasMore"] == json!(true) { "more than " } else { "" };
            eprintln!("would be {done}: {more}{}", text::count(matched, "dead letter"));
            return Ok(ExitCode::SUCCESS);
        }
        if result["hasMore"] != json!(true) {
            eprintln!("{done} {}", text::count(matched, "dead letter"));
            return Ok(ExitCode::SUCCESS);
        }
        // Those that have failed again since are not selected twice.
        body["cursor"] = result["nextCursor"].clone();
    }
}
