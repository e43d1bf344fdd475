//! State machines in decision texts: what persons request, and what the machine answers.
//!
//! `act ann APPROVE {"version":2,"comment":"ok","data":{},"shown":"…","withdraw":true,"files":[1],"filesUntil":5000,"roles":["Manager"],"manage":true}`,
//! `assign ann {"who":["bob"],"reason":"holiday"}`, `assign ann {"voter":{"from":"bob","to":"cid"}}`.
//! A name is a person, `key:7` is a key, `person=key:7` a person with that id. The role map knows the roles Manager, Clerk and Director.
//! `shown` as the digest means the digest of the present values.

use std::collections::BTreeSet;
use std::time::Duration;

use everstep_core::actor::Actor;
use everstep_core::ids::FileId;
use everstep_core::journal::{Assigned, DecidedEnd, TransitionApplied, VoteCast};
use everstep_core::machine::{
    Act, ActionView, Applied, Assignment, AssignmentChange, Evaluation, History, Reason, Rights, Situation, actions,
    evaluate, may_read, shown, situation,
};
use everstep_core::meter::Meter;
use everstep_core::payload::Payload;
use everstep_core::run::{Cx, Reply};
use everstep_core::time::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

use super::Game;

/// A person, or a key.
pub(crate) fn actor(name: &str) -> Actor {
    match (name.strip_prefix("key:"), name.strip_prefix("person=")) {
        (Some(id), _) => Actor::key(id),
        (None, Some(id)) => Actor::person(id),
        (None, None) => Actor::person(name),
    }
}

pub(crate) fn rights(options: &Value) -> Rights {
    let roles: Vec<String> = serde_json::from_value(options["roles"].clone()).unwrap_or_default();
    Rights {
        name: None,
        granted: roles.iter().cloned().collect(),
        roles,
        known: ["Manager", "Clerk", "Director"].map(str::to_owned).into_iter().collect::<BTreeSet<_>>(),
        can_manage: options["manage"] == true,
    }
}

pub(crate) fn act(game: &Game, who: &str, rest: &str) -> Act {
    let (action, options) = rest.split_once(' ').unwrap_or((rest, "{}"));
    let options: Value = serde_json::from_str(options).unwrap();
    let text = |field: &str| options[field].as_str().map(str::to_owned);
    let shown = text("shown").map(|digest| match digest.as_str() {
        "shown" => shown(&game.workflow, &game.state).unwrap().digest,
        _ => digest,
    });
    Act {
        action: action.to_owned(),
        version: options["version"].as_u64().map(|version| u32::try_from(version).unwrap()),
        by: actor(who),
        rights: rights(&options),
        comment: text("comment"),
        data: options.get("data").map(|data| Payload::from(data.clone())),
        shown,
        withdraw: options["withdraw"] == true,
        files: options["files"].as_array().into_iter().flatten().map(|n| file(n.as_u64().unwrap())).collect(),
        files_until: options["filesUntil"].as_u64().map(|ms| Game::BEGIN.plus(Duration::from_millis(ms))),
        digest: rest.to_owned(),
    }
}

/// The file with a number.
fn file(number: u64) -> FileId {
    FileId::from_uuid(Uuid::from_u128(number.into()))
}

/// The files of an entry by their numbers.
fn show_files(files: &[String]) -> String {
    let numbers: Vec<_> = files.iter().map(|id| id.parse::<FileId>().unwrap().uuid().as_u128().to_string()).collect();
    if numbers.is_empty() { String::new() } else { format!(", files {}", numbers.join(" ")) }
}

pub(crate) fn assignment(who: &str, rest: &str) -> Assignment {
    let options: Value = serde_json::from_str(rest).unwrap();
    let change = match options.get("voter") {
        Some(voter) => serde_json::from_value(json!({ "voter": voter })).unwrap(),
        None => AssignmentChange::Who(serde_json::from_value(options["who"].clone()).unwrap()),
    };
    let reason = options["reason"].as_str().map(str::to_owned);
    Assignment { by: actor(who), rights: rights(&options), change, reason, digest: rest.to_owned() }
}

pub(crate) fn show_transition(applied: &TransitionApplied) -> String {
    let mut text = format!("{}: ", applied.action);
    if let Some(from) = &applied.from {
        text += &format!("{from} -> ");
    }
    text += &format!("{} v{} by {}", applied.to, applied.version_no, applied.by);
    let json = |payload: &Payload| if payload.size() > 200 { "…".to_owned() } else { payload.json().to_owned() };
    for (word, payload) in [("data", &applied.data), ("set", &applied.set)] {
        text += &payload.as_ref().map(|payload| format!(", {word} {}", json(payload))).unwrap_or_default();
    }
    if let Some(comment) = &applied.comment {
        text += &format!(", comment {comment:?}");
    }
    text += &show_files(&applied.files);
    if !applied.assigned.is_empty() {
        text += &format!(", assigned {}", applied.assigned.join(" "));
    }
    for (action, ballot) in &applied.voters {
        let of = ballot.of.as_ref().map_or("any".to_owned(), |of| of.join(" "));
        text += &format!(", {action} needs {} of {of}", ballot.need);
    }
    if !applied.votes.is_empty() {
        text += &format!(", votes {}", names(&applied.votes));
    }
    if let Some(auto) = &applied.auto {
        let data = auto.data.as_ref().map(|data| format!(" {}", data.json())).unwrap_or_default();
        text += &format!(", then {}{data}", auto.action);
    }
    match &applied.end {
        Some(DecidedEnd::Completed { output }) => text += &format!(", will complete = {}", json(output)),
        Some(DecidedEnd::Failed { failure }) => text += &format!(", will fail {}", failure.code),
        None => {}
    }
    text
}

pub(crate) fn show_vote(vote: &VoteCast) -> String {
    let verb = if vote.is_withdrawn { "withdrew" } else { "voted" };
    let comment = vote.comment.as_ref().map(|comment| format!(", comment {comment:?}")).unwrap_or_default();
    let files = show_files(&vote.files);
    format!("{verb} {} v{} by {}{comment}{files}", vote.action, vote.version_no, vote.by)
}

pub(crate) fn show_assigned(assigned: &Assigned) -> String {
    let change = match &assigned.change {
        AssignmentChange::Who(who) => format!("to {}", who.join(" ")),
        AssignmentChange::Voter { from, to } => format!("voter {to} for {from}"),
    };
    let reason = assigned.reason.as_ref().map(|reason| format!(", reason {reason:?}")).unwrap_or_default();
    format!("assigned {change} by {}{reason}", assigned.by)
}

fn names(actors: &[Actor]) -> String {
    actors.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

/// The answer to an accepted request.
pub(crate) fn show_applied(applied: &Applied) -> String {
    let Applied { previous_state, next_state, version_no, seq, .. } = applied;
    let mut text = match (applied.applied, previous_state == next_state) {
        (true, _) => format!("applied: {previous_state} -> {next_state} v{version_no}"),
        (false, _) => format!("accepted: {next_state} v{version_no}"),
    };
    if let Some(votes) = &applied.votes {
        text += &format!(", {} {} of {}", votes.action, votes.count, votes.need);
    }
    if applied.is_completed {
        text += ", completed";
    }
    if applied.repeated {
        text += &format!(", as entry {seq} before");
    }
    text
}

/// A rejection. One of a machine has details.
pub(crate) fn show_refused(reply: &Reply) -> String {
    let Reply::Refused { code, message, details } = reply else { panic!("{reply:?} is not a refusal") };
    let Some(details) = details else { return format!("refused: {code}") };
    let state = details.state.as_deref().unwrap_or("no state");
    let by = details.last_by.as_ref().map(ToString::to_string).unwrap_or_default();
    let mut text = format!("refused: {code} in {state} v{} by {by}: {message}", details.version_no.unwrap());
    for error in &details.errors {
        text += &format!("\n    {}: {}", error.field, error.message);
    }
    for part in &details.explanation {
        text += &format!("\n    {part}");
    }
    if !details.required.is_empty() {
        text += &format!("\n    requires {}", details.required.join(", "));
    }
    text
}

/// A reader's view: `state`, `votes`, `waits`, `actions ann {…}`, `evaluate ann APPROVE {…}`, `reads ann`, `history`.
pub(crate) fn show(game: &Game, verb: &str, rest: &str) -> String {
    let Game { workflow, state, evaluate: evaluator, now, .. } = game;
    let cx = Cx { now: *now, evaluate: evaluator, meter: &Meter::new() };
    let (who, tail) = rest.split_once(' ').unwrap_or((rest, ""));
    let options = || serde_json::from_str(if tail.is_empty() { "{}" } else { tail }).unwrap();
    match verb {
        "state" => state.place_of_machine().map_or("none".into(), |(state, version)| format!("{state} v{version}")),
        "votes" => {
            let votes = state.machine().unwrap().votes();
            let tally = votes
                .iter()
                .map(|votes| format!("{} {} of {} by {}", votes.action, votes.count, votes.need, names(&votes.by)));
            tally.collect::<Vec<_>>().join(", ")
        }
        "assigned" => state.machine().unwrap().assigned().join(" "),
        "waits" => situation(workflow, state).as_ref().map_or("none".into(), sentence),
        "actions" => {
            let views = actions(workflow, state, &actor(who), &rights(&options()), cx);
            views.iter().map(show_action).collect::<Vec<_>>().join("\n  ")
        }
        "evaluate" => show_evaluation(&evaluate(workflow, state, &act(game, who, tail), cx)),
        "reads" => may_read(workflow, state, &actor(who), &rights(&options()), cx).to_string(),
        _ => {
            let mut history = History::new(state.run);
            let rows = game.journal.iter().filter_map(|entry| history.apply(entry)).map(|row| {
                let comment = row.comment.map(|comment| format!(" {comment:?}")).unwrap_or_default();
                let changes = row.changes.iter().map(|change| {
                    let text = |value: &Option<Value>| value.as_ref().map_or("-".into(), Value::to_string);
                    format!(" {}: {} -> {}", change.path, text(&change.before), text(&change.after))
                });
                format!(
                    "{} {} {} {} -> {} v{} by {}{comment}{}",
                    row.seq,
                    row.kind.as_str(),
                    row.action.unwrap_or_default(),
                    row.from.unwrap_or_default(),
                    row.to.unwrap_or_default(),
                    row.version_no,
                    row.by,
                    changes.collect::<String>()
                )
            });
            rows.collect::<Vec<_>>().join("\n  ")
        }
    }
}

fn after(time: Timestamp) -> String {
    format!("{} ms", time.since(Game::BEGIN).as_millis())
}

/// As the API may word it.
fn sentence(situation: &Situation) -> String {
    let choices = situation.choices.iter().map(|choice| {
        let by = if choice.by.is_empty() { String::new() } else { format!(" by {}", choice.by.join(" or ")) };
        let votes = choice.votes.as_ref().map(|votes| format!(" ({} of {} votes)", votes.count, votes.need));
        format!("{}{by}{}", choice.action, votes.unwrap_or_default())
    });
    let choices: Vec<_> = choices.collect();
    let choices = if choices.is_empty() { String::new() } else { format!(": {}", choices.join(" or ")) };
    let exit = situation.exit.as_ref().map(|exit| {
        format!("; goes to {} at {}", exit.to.as_deref().unwrap_or("a state by conditions"), after(exit.at))
    });
    let child = if situation.child.is_some() { "; waits for a run" } else { "" };
    format!("is in {} since {}{choices}{}{child}", situation.state, after(situation.since), exit.unwrap_or_default())
}

fn show_reason(reason: &Reason) -> String {
    let explanation: String = reason.explanation.iter().map(|part| format!(" {part}")).collect();
    format!("{}: {}{explanation}", reason.code, reason.message)
}

fn show_action(view: &ActionView) -> String {
    let reasons: String = view.reasons.iter().map(|reason| format!("; {}", show_reason(reason))).collect();
    let open = if view.open { "open" } else { "closed" };
    format!("{} to {} is {open}{reasons}", view.action, view.to.join(" or "))
}

fn show_evaluation(evaluation: &Evaluation) -> String {
    let mut text = format!(
        "{} -> {} v{}{}",
        evaluation.state.as_deref().unwrap_or_default(),
        evaluation.next_state.as_deref().unwrap_or_default(),
        evaluation.version_no,
        if evaluation.applied { "" } else { ", does not move" }
    );
    for reason in &evaluation.reasons {
        text += &format!("\n  {}", show_reason(reason));
    }
    for timer in &evaluation.timers {
        let to = timer.to.as_ref().or(timer.action.as_ref()).map_or("", String::as_str);
        text += &format!("\n  timer {} at {} to {to}", timer.n, after(timer.due));
    }
    for event in &evaluation.events {
        text += &format!("\n  {event}");
    }
    for (action, ballot) in &evaluation.voters {
        text += &format!("\n  {action} needs {}", ballot.need);
    }
    if let Some(pause) = &evaluation.pause {
        text += &format!("\n  pauses: {}", show_reason(pause));
    }
    if let Some(output) = &evaluation.output {
        text += &format!("\n  output {}", output.json());
    }
    text
}
