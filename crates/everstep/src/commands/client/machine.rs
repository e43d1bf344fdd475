//! `everstep act|actions|history`: runs of state machines.

use std::process::ExitCode;

use everstep_core::actor::Actor;
use everstep_net::Method;
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::client_args::{ActArgs, ActionsArgs, HistoryArgs};
use crate::commands::client::run_id;
use crate::remote::{NO_QUERY, Remote};
use crate::{input, output, text};

pub(crate) async fn act(args: &ActArgs) -> anyhow::Result<ExitCode> {
    let remote = Remote::from_settings_or_default(&args.remote)?;
    let mut body = json!({"action": args.action});
    if let Some(data) = &args.data {
        body["data"] = input::read("--data", data)?.value().clone();
    }
    if let Some(comment) = &args.comment {
        body["comment"] = json!(comment);
    }
    if let Some(version) = args.at_version {
        body["version"] = json!(version);
    }
    if let Some(digest) = &args.shown {
        body["shown"] = json!(digest);
    }
    if !args.files.is_empty() {
        body["files"] = json!(args.files);
    }
    if args.withdraw {
        body["withdraw"] = json!(true);
    }
    let run = run_id::find(&remote, &args.run).await?;
    let path = Remote::path(&["v1", "runs", &run, "transitions"], NO_QUERY);
    let answer = remote.ask_with(Method::POST, &path, args.key.as_deref(), Some(&body)).await?;
    match args.json {
        true => output::print(answer)?,
        false => eprintln!("{}", describe_answer(&answer)),
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn actions(args: &ActionsArgs) -> anyhow::Result<ExitCode> {
    let remote = Remote::from_settings_or_default(&args.remote)?;
    let run = run_id::find(&remote, &args.run).await?;
    let shown = remote.ask(Method::GET, &Remote::path(&["v1", "runs", &run, "actions"], NO_QUERY), None).await?;
    match args.json {
        true => output::print(shown)?,
        false => output::print(describe_actions(&shown))?,
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn history(args: &HistoryArgs) -> anyhow::Result<ExitCode> {
    let remote = Remote::from_settings_or_default(&args.remote)?;
    let run = run_id::find(&remote, &args.run).await?;
    let entries = remote.list(&Remote::path(&["v1", "runs", &run, "history"], NO_QUERY), "entries").await?;
    if args.json {
        output::print(json!({"entries": entries}))?;
        return Ok(ExitCode::SUCCESS);
    }
    for entry in &entries {
        output::print(describe_entry(entry))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A text of an answer, safe to show.
fn said(value: &Value, name: &str) -> String {
    value[name].as_str().map(text::safe).unwrap_or_default()
}

/// Texts of a list, with commas between.
fn list(values: &Value) -> String {
    let texts = values.as_array().into_iter().flatten().filter_map(Value::as_str).map(text::safe);
    texts.collect::<Vec<_>>().join(", ")
}

fn describe_answer(answer: &Value) -> String {
    let votes = &answer["votes"];
    if answer["applied"] == false && !votes.is_null() {
        let action = said(votes, "action");
        return format!("counted: {} of {} votes for {action}", votes["count"], votes["need"]);
    }
    let end = if answer["isCompleted"] == true { ", and the run has ended" } else { "" };
    let (from, to) = (said(answer, "previousState"), said(answer, "nextState"));
    format!("{from} -> {to}, version {}{end}", answer["versionNo"])
}

fn describe_actions(shown: &Value) -> String {
    let since = text::time(shown["since"].as_str().unwrap_or_default());
    let mut lines = vec![format!("state     {}, version {}, since {since}", said(shown, "state"), shown["versionNo"])];
    lines.extend(shown["due"].as_str().map(|due| format!("due       {}", text::time(due))));
    lines.extend(Some(list(&shown["assigned"])).filter(|who| !who.is_empty()).map(|who| format!("assigned  {who}")));
    lines.push(format!("shown     {}", text::safe(&shown["shown"]["fields"].to_string())));
    let actions = shown["actions"].as_array().map(Vec::as_slice).unwrap_or_default();
    if actions.iter().any(|action| action["needs"]["shown"] == true) {
        lines.push(format!("digest    {}", said(&shown["shown"], "digest")));
    }
    let width = actions.iter().map(|action| said(action, "action").chars().count()).max().unwrap_or(0);
    for action in actions {
        let name = said(action, "action");
        let effect = format!("to {}{}", list(&action["to"]), describe_needs(action));
        lines.push(match action["open"] == false {
            true => format!("{name:<width$}  closed ({effect})"),
            false => format!("{name:<width$}  {effect}"),
        });
        for reason in action["reasons"].as_array().into_iter().flatten() {
            lines.push(format!("{:width$}    {}: {}", "", said(reason, "code"), said(reason, "message")));
        }
    }
    lines.join("\n")
}

/// The votes and the parts of a request that an action needs.
fn describe_needs(action: &Value) -> String {
    let needs = &action["needs"];
    let mut words = Vec::new();
    if needs["comment"] == true {
        words.push("a comment".to_owned());
    }
    match needs["files"].as_u64() {
        None | Some(0) => {}
        Some(1) => words.push("a file".to_owned()),
        Some(least) => words.push(format!("{least} files")),
    }
    if needs["shown"] == true {
        words.push("--shown with the digest".to_owned());
    }
    words.extend(Some(list(&needs["data"])).filter(|data| !data.is_empty()).map(|data| format!("data {data}")));
    let mut text = String::new();
    if !action["quorum"].is_null() {
        text += &format!(", {} of {} votes", action["quorum"]["count"], action["quorum"]["need"]);
    }
    if !words.is_empty() {
        text += &format!(", needs {}", words.join(" and "));
    }
    text
}

/// The name of an actor, by its kind: the id of a person may be that of a key, or `@timer`.
fn describe_actor(actor: &Value) -> String {
    match Actor::deserialize(actor) {
        Ok(actor) => text::safe(&actor.name()),
        // A kind of a later release.
        Err(_) => format!("{}:{}", said(actor, "kind"), said(actor, "id")),
    }
}

fn describe_entry(entry: &Value) -> String {
    let time = text::time(entry["at"].as_str().unwrap_or_default());
    let by = describe_actor(&entry["by"]);
    let what = match entry["kind"].as_str() {
        Some("transition") => {
            let from = entry["from"].as_str().map(|from| format!("{} -> ", text::safe(from))).unwrap_or_default();
            format!("{}  {from}{}", said(entry, "action"), said(entry, "to"))
        }
        Some("vote") if entry["isWithdrawn"] == true => format!("withdraws the vote for {}", said(entry, "action")),
        Some("vote") => format!("votes for {}", said(entry, "action")),
        Some("assignment") => match entry["assignment"]["voter"].as_object() {
            Some(_) => {
                let voter = &entry["assignment"]["voter"];
                format!("replaces the voter {} by {}", said(voter, "from"), said(voter, "to"))
            }
            None => format!("assigns to {}", list(&entry["assignment"]["who"])),
        },
        Some(_) | None => format!("timer {}", said(entry, "action")),
    };
    let comment = entry["comment"].as_str().map(|comment| format!("  {:?}", text::safe(comment))).unwrap_or_default();
    let files = describe_files(&entry["files"]);
    format!("{:>5}  {time}  v{}  {by}  {what}{comment}{files}", entry["seq"].to_string(), entry["versionNo"])
}

/// The names of files; a deleted one has none.
fn describe_files(files: &Value) -> String {
    let name = |file: &Value| match file["name"].as_str() {
        Some(name) => text::safe(name),
        None => format!("{} (deleted)", said(file, "id")),
    };
    let names: Vec<_> = files.as_array().into_iter().flatten().map(name).collect();
    if names.is_empty() { String::new() } else { format!("  files {}", names.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_one_line() {
        let moved = json!({"applied": true, "previousState": "review", "nextState": "done", "versionNo": 3, "isCompleted": true});
        assert_eq!(describe_answer(&moved), "review -> done, version 3, and the run has ended");
        let vote = json!({"applied": false, "votes": {"action": "APPROVE", "count": 1, "need": 3}});
        assert_eq!(describe_answer(&vote), "counted: 1 of 3 votes for APPROVE");
    }

    #[test]
    fn actions_are_shown_with_the_reasons_against_them() {
        let needs = json!({"comment": true, "data": ["account"], "shown": true});
        let files = json!({"comment": false, "data": [], "files": 2, "shown": false});
        let reasons = json!([{"code": "PERMISSION_DENIED", "message": "not you\u{1b}"}]);
        let shown = json!({
            "state": "review", "versionNo": 1, "since": "2026-11-17T06:26:48Z", "due": null, "assigned": ["mia"],
            "shown": {"fields": {"amount": 5}, "digest": "ab12"},
            "actions": [
                {"action": "APPROVE", "to": ["done"], "open": false, "needs": needs, "quorum": null, "reasons": reasons},
                {"action": "VOTE", "to": ["a", "b"], "open": true, "needs": files, "quorum": {"count": 0, "need": 2}, "reasons": []},
            ],
        });
        let lines = [
            "state     review, version 1, since 2026-11-17T06:26:48.000Z",
            "assigned  mia",
            "shown     {\"amount\":5}",
            "digest    ab12",
            "APPROVE  closed (to done, needs a comment and --shown with the digest and data account)",
            "           PERMISSION_DENIED: not you\\u{1b}",
            "VOTE     to a, b, 0 of 2 votes, needs 2 files",
        ];
        assert_eq!(describe_actions(&shown).lines().collect::<Vec<_>>(), lines);
    }

    #[test]
    fn a_history_has_a_line_per_entry() {
        let entry = |more: Value| {
            let mut entry =
                json!({"seq": 4, "at": "2026-11-17T06:26:48Z", "versionNo": 2, "by": {"kind": "person", "id": "mia"}});
            entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            describe_entry(&entry)
        };
        let head = "    4  2026-11-17T06:26:48.000Z  v2  mia  ";
        let moved =
            json!({"kind": "transition", "action": "APPROVE", "from": "review", "to": "done", "comment": "fine"});
        assert_eq!(entry(moved), format!("{head}APPROVE  review -> done  \"fine\""));
        assert_eq!(
            entry(json!({"kind": "vote", "action": "NO", "isWithdrawn": true})),
            format!("{head}withdraws the vote for NO")
        );
        let files = json!([{"id": "1", "name": "offer.pdf"}, {"id": "2", "name": null}]);
        let vote = json!({"kind": "vote", "action": "NO", "files": files});
        assert_eq!(entry(vote), format!("{head}votes for NO  files offer.pdf, 2 (deleted)"));
        let voter = json!({"kind": "assignment", "assignment": {"voter": {"from": "a", "to": "b"}}});
        assert_eq!(entry(voter), format!("{head}replaces the voter a by b"));
        let who = json!({"kind": "assignment", "assignment": {"who": ["a", "b"]}});
        assert_eq!(entry(who), format!("{head}assigns to a, b"));
        assert_eq!(entry(json!({"kind": "timer", "action": "@after[2].0"})), format!("{head}timer @after[2].0"));
        // A person is not shown as another actor, whatever the id is.
        let by = |kind: &str, id: &str| {
            let line = entry(json!({"kind": "vote", "action": "NO", "by": {"kind": kind, "id": id}}));
            line.split("  ").nth(5).unwrap().to_owned()
        };
        assert_eq!([by("system", "@timer"), by("person", "@timer")], ["@timer", "person:@timer"]);
        assert_eq!([by("key", "7"), by("person", "key:7"), by("robot", "r2")], ["key:7", "person:key:7", "robot:r2"]);
    }
}
