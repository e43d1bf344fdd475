//! Code workflows in decision texts: the reports of a worker, and the step records of the journal.
//!
//! `report 1 completed a {"x":1}`, `report 1 failed a#2 CODE {"maxAttempts":2}`, `report 1 fatal a CODE`,
//! `report 1 slept nap 5m` (or `until 5000`), `report 1 waited ok for go {"x":1} 7d`, `report 1 called pay other@2 {} 1h`,
//! `report 1 waited ok for go {} - since 15m`, `report 1 published a user.welcomed {} id`,
//! `report 1 returned {}`, `report 1 threw CODE a`, `report 1 diverged`, `report 1 blocked 3`, `report 1 declined`.
//! The end of a function may add `unawaited a,b`, and a throw `stack`.
//! JSON has no spaces in it; `big:9` is a text of nine bytes as JSON, `deep:9` is nested nine levels deep.

use everstep_core::code::{End, Moment, Report, Since};
use everstep_core::failure::Failure;
use everstep_core::ids::StepKey;
use everstep_core::payload::Payload;
use everstep_core::retry::RetryPolicy;
use everstep_core::run::State;
use everstep_core::time::Timestamp;
use everstep_core::workflow::{Style, Workflow};
use serde_json::{Value, json};

use super::Game;

/// A code workflow; only its style is known.
pub(crate) fn code() -> Workflow {
    Workflow { name: "test".into(), version: 1, style: Style::Code, is_unsaved: false, publisher: Default::default() }
}

/// A policy without jitter, so that texts have round numbers.
pub(crate) fn steady() -> RetryPolicy {
    RetryPolicy { jitter: 0.0, ..RetryPolicy::code() }
}

/// Reads a report.
pub(crate) fn report(text: &str) -> Report {
    let mut words = text.split_whitespace();
    let verb = words.next().unwrap();
    let words: Vec<_> = words.collect();
    let word = |at: usize| words.get(at).copied();
    let (step, attempt) = match word(0).unwrap_or_default().split_once('#') {
        Some((step, attempt)) => (step.into(), attempt.parse().unwrap()),
        None => (word(0).unwrap_or_default().into(), 1),
    };
    match verb {
        "completed" => {
            let logs = if word(2) == Some("logged") { vec!["hello".into()] } else { vec![] };
            Report::Completed { step, attempt, output: json(word(1)), logs, took: 1_000 }
        }
        "failed" | "fatal" => {
            let (retry, retry_after_ms) = policy(word(2));
            let failure = Failure { retryable: verb == "failed", retry_after_ms, ..failure(word(1)) };
            Report::Failed { step, attempt, failure, retry, logs: vec![], took: 1_000 }
        }
        "slept" if word(1) == Some("until") => {
            let at = Game::BEGIN.millis() + word(2).unwrap().parse::<i64>().unwrap();
            Report::Slept { step, until: Moment::At(Timestamp::from_millis(at)) }
        }
        "slept" => Report::Slept { step, until: Moment::After(millis(word(1).unwrap())) },
        "waited" => {
            let (event, rest) = match word(1) {
                Some("for") => (Some(word(2).unwrap().to_owned()), 3),
                _ => (None, 1),
            };
            // `waited w for go {} 5s since start`: the timeout is `-` if there is none.
            let since = match (word(rest + 2), word(rest + 3)) {
                (Some("since"), Some("start")) => Some(Since::Start),
                (Some("since"), Some(ago)) => Some(Since::Ago(millis(ago))),
                _ => None,
            };
            let timeout = word(rest + 1).filter(|word| *word != "-");
            Report::Waited { step, event, pattern: json(word(rest)), timeout_ms: timeout.map(millis), since }
        }
        "published" => Report::Published {
            step,
            topic: word(1).unwrap().to_owned(),
            data: json(word(2)),
            id: word(3).map(str::to_owned),
            subject: None,
        },
        "called" => {
            let (workflow, version) = match word(1).unwrap().split_once('@') {
                Some((workflow, version)) => (workflow, Some(version.parse().unwrap())),
                None => (word(1).unwrap(), None),
            };
            let (input, timeout_ms) = (json(word(2)), word(3).map(millis));
            Report::Called { step, workflow: workflow.into(), version, input, timeout_ms }
        }
        "returned" => Report::Returned { output: json(word(0)), unawaited: unawaited(&words) },
        "threw" => Report::Threw {
            failure: failure(word(0)),
            step: word(1).filter(|word| !["stack", "unawaited"].contains(word)).map(Into::into),
            stack: words.contains(&"stack").then(|| "Error: no luck\n    at run".to_owned()),
            unawaited: unawaited(&words),
        },
        "diverged" => Report::Diverged { failure: failure(word(0)) },
        "blocked" => Report::Blocked { seq: word(0).unwrap().parse().unwrap() },
        "declined" => Report::Declined { failure: failure(Some("WORKFLOW_VERSION_MISMATCH")) },
        _ => panic!("unknown report {verb:?}"),
    }
}

/// The steps that a report names after `unawaited`.
fn unawaited(words: &[&str]) -> Vec<StepKey> {
    let names = words.iter().skip_while(|word| **word != "unawaited").nth(1);
    names.map(|names| names.split(',').map(Into::into).collect()).unwrap_or_default()
}

fn failure(code: Option<&str>) -> Failure {
    Failure::fatal(code.unwrap_or("BROKEN"), "no luck")
}

/// The policy that a text changes, and the delay that the failure demands.
fn policy(changes: Option<&str>) -> (RetryPolicy, Option<u32>) {
    let mut policy = serde_json::to_value(steady()).unwrap();
    let changes: Value = serde_json::from_str(changes.unwrap_or("{}")).unwrap();
    let asked = changes["retryAfterMs"].as_u64().map(|asked| u32::try_from(asked).unwrap());
    for (field, value) in changes.as_object().unwrap() {
        policy[field] = value.clone();
    }
    (serde_json::from_value(policy).unwrap(), asked)
}

fn json(text: Option<&str>) -> Payload {
    payload(text.unwrap_or("null"))
}

/// Reads JSON, or a short form for a large document.
pub(crate) fn payload(text: &str) -> Payload {
    let number = |text: &str| text.parse::<usize>().unwrap();
    if let Some(bytes) = text.strip_prefix("big:") {
        return Payload::from(json!("x".repeat(number(bytes) - 2)));
    }
    if let Some(levels) = text.strip_prefix("deep:") {
        return Payload::from_json("[".repeat(number(levels)) + &"]".repeat(number(levels))).unwrap();
    }
    Payload::from_json(text).unwrap()
}

/// `5s`, `5m`, `5h`, `5d` or plain milliseconds.
fn millis(text: &str) -> u64 {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let number: u64 = text[..text.len() - unit.len()].parse().unwrap();
    number
        * match unit {
            "" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => panic!("unknown unit {unit:?}"),
        }
}

/// The step records that a worker receives at the beginning of a turn, in the order of the journal.
pub(crate) fn known(state: &State) -> String {
    let mut steps: Vec<_> = state.code().unwrap().steps().collect();
    steps.sort_by_key(|(_, step)| step.seq);
    let tell = |end: &Option<End>, is_open: bool, next: u32| match end {
        Some(End::Output(output)) => format!("gave {}", output.json()),
        Some(End::Failure(failure)) => format!("failed {}", failure.code),
        Some(End::Slept) => "slept".into(),
        Some(End::Signal(payload)) => format!("got {}", payload.json()),
        Some(End::Timeout) => "timed out".into(),
        Some(End::Event { data, event }) => format!("got {} of {}", data.json(), event.topic),
        None if is_open => "is open".into(),
        None => format!("may be tried as #{next}"),
    };
    let steps =
        steps.iter().map(|(name, step)| format!("{name} {}", tell(&step.end, state.is_open(name), step.attempt + 1)));
    steps.collect::<Vec<_>>().join(", ")
}
