//! The waits of a run: in one sentence for people, and with all fields for programs.

use std::fmt::Write as _;

use everstep_core::ids::{RunId, StepKey};
use everstep_core::payload::Payload;
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_engine::{DefinedWait, EXAMINED_EVENTS_MAX, LookBackSnapshot, RunSnapshot, StepActivity, StepSnapshot};
use everstep_store::RunRow;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::machine;
use crate::http::schema::{Id, Json, Object};
use crate::http::time::Time;

/// Characters of a match in the sentence about a run.
const MATCH_CHARS_MAX: usize = 200;

/// A step in progress.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Open {
    #[schemars(with = "String")]
    step: StepKey,
    /// `task`: a handler performs it. `delay`: it sleeps. `wait`: it waits for a signal. `child`: it waits for a run
    /// that it started. `retry`: it failed and is retried. `body`: steps inside it are in progress. `soon`: it
    /// continues at once.
    #[schemars(extend("enum" = ["task", "delay", "wait", "child", "retry", "body", "soon"]))]
    kind: &'static str,
    attempt: u32,
    since: Option<Time>,
    /// When it continues without an input.
    #[serde(skip_serializing_if = "Option::is_none")]
    due: Option<Time>,
    /// The signal that it waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<String>,
    /// The JSON that the payload of the signal must contain; missing if any payload is accepted.
    #[serde(rename = "match", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Json")]
    pattern: Option<Payload>,
    /// Whether it waits for the decision of a person: the signal contains `approved`.
    approval: bool,
    /// The config of a wait in a graph, as it was evaluated.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Object>")]
    about: Option<Value>,
    /// The run that it started.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Id>")]
    child: Option<RunId>,
}

impl Open {
    pub(crate) fn from_snapshot(step: StepSnapshot) -> Self {
        let (event, pattern, child) = match &step.activity {
            StepActivity::Wait { event, pattern, .. } => (Some(event.clone()), restriction(pattern).cloned(), None),
            StepActivity::Child { run } => (None, None, Some(*run)),
            StepActivity::Task
            | StepActivity::Delay
            | StepActivity::Retry
            | StepActivity::Body
            | StepActivity::Soon => (None, None, None),
        };
        Self {
            kind: word(&step.activity),
            step: step.step,
            attempt: step.attempt,
            since: step.since.map(Time::from_timestamp),
            due: step.due.map(Time::from_timestamp),
            approval: is_approval(&step.activity),
            about: about(&step.activity),
            event,
            pattern,
            child,
        }
    }
}

/// Whether a step waits for the decision of a person.
fn is_approval(activity: &StepActivity) -> bool {
    matches!(activity, StepActivity::Wait { defined: Some(DefinedWait { is_approval: true, .. }), .. })
}

/// The evaluated config of a wait in a graph. It was evaluated when the wait began.
pub(crate) fn about(activity: &StepActivity) -> Option<Value> {
    let StepActivity::Wait { event, pattern, defined: Some(defined), .. } = activity else { return None };
    let name = if defined.is_approval { "approval" } else { "event" };
    Some(json!({name: event, "match": pattern}))
}

/// The match of a wait, unless it accepts any payload.
fn restriction(pattern: &Payload) -> Option<&Payload> {
    Some(pattern).filter(|pattern| pattern.json() != "{}")
}

fn word(activity: &StepActivity) -> &'static str {
    match activity {
        StepActivity::Task => "task",
        StepActivity::Delay => "delay",
        StepActivity::Wait { .. } => "wait",
        StepActivity::Child { .. } => "child",
        StepActivity::Retry => "retry",
        StepActivity::Body => "body",
        StepActivity::Soon => "soon",
    }
}

/// The sentence about a run that could begin or continue, and for which no node has a place.
const FOR_ROOM: &str = "waits for room on a node";

/// The sentence about a run that has not begun.
pub(crate) fn sentence_before_begin(row: &RunRow, now: Timestamp) -> Option<String> {
    let planned = row.start.as_ref().and_then(|start| start.begin_at);
    match row.status {
        Status::Paused => {
            let when = planned.map(|at| format!("; it was to begin at {}", time(at))).unwrap_or_default();
            Some(format!("is paused before its beginning{when}"))
        }
        Status::Pending => {
            let begin = planned.unwrap_or(row.wake_at).max(row.wake_at);
            let is_later = begin > now && begin != Timestamp::NEVER;
            Some(if is_later { format!("begins at {}", time(begin)) } else { FOR_ROOM.to_owned() })
        }
        Status::Running | Status::Waiting | Status::Completed | Status::Failed | Status::Cancelled => None,
    }
}

/// The sentence about the waits of a run, without its subject: "sleeps at step nap until …".
/// None for a run that has ended.
pub(crate) fn sentence(snapshot: &RunSnapshot) -> Option<String> {
    match snapshot.status {
        Status::Completed | Status::Failed | Status::Cancelled => return None,
        Status::Pending => return Some(FOR_ROOM.to_owned()),
        Status::Paused => {
            let since = snapshot.paused_at.map(|at| format!(" since {}", time(at))).unwrap_or_default();
            let why =
                snapshot.failure.as_ref().map(|failure| format!(" because {}", failure.message)).unwrap_or_default();
            return Some(format!("is paused{since}{why}"));
        }
        Status::Running | Status::Waiting => {}
    }
    if let Some(place) = &snapshot.machine {
        return Some(machine::sentence(&place.situation));
    }
    let at = snapshot.worker.as_ref().map(|worker| format!("runs at worker {worker}"));
    let Some(first) = snapshot.open.first() else { return Some(at.unwrap_or_else(|| "continues at once".to_owned())) };
    let mut text = clause(first);
    // A loop is open while its steps are: it does not count as another step that the run waits for.
    let others =
        snapshot.open.iter().skip(1).filter(|open| open.activity != StepActivity::Body).count() + snapshot.more;
    if others > 0 {
        let _ = write!(text, " and {others} more");
    }
    Some(at.map_or_else(|| text.clone(), |at| format!("{at}: {text}")))
}

/// Why the run of a code workflow does not continue although it could.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForWorker {
    /// Workers serve it, and none of them holds it.
    Served,
    /// No worker serves it.
    Unserved,
}

impl ForWorker {
    pub(crate) fn sentence(self, workflow: &str, version: u32) -> String {
        let which = format!("waits for a worker that serves {workflow} version {version}");
        match self {
            Self::Served => format!("{which} and has room"),
            Self::Unserved => format!("{which}: none is connected"),
        }
    }
}

/// The warning to the caller that starts a run which no worker can continue.
pub(crate) fn warning(workflow: &str, version: u32) -> String {
    format!("no worker serves {workflow} version {version}; the run waits for one")
}

fn clause(open: &StepSnapshot) -> String {
    let StepSnapshot { step, attempt, due, activity, .. } = open;
    let until = due.map(|due| format!(" until {}", time(due))).unwrap_or_default();
    match activity {
        StepActivity::Task => format!("performs step {step}, attempt {attempt}"),
        StepActivity::Delay => format!("sleeps at step {step}{until}"),
        StepActivity::Wait { event, pattern, look_back, .. } => {
            let with = restriction(pattern).map(|pattern| format!(" with {}", excerpt(pattern))).unwrap_or_default();
            let what = if is_approval(activity) { "approval" } else { "signal" };
            let examined = match look_back {
                Some(LookBackSnapshot { since, is_exhausted: true }) => format!(
                    "; the first {EXAMINED_EVENTS_MAX} events since {} were examined, and none of them matches",
                    time(*since)
                ),
                _ => String::new(),
            };
            format!("waits for the {what} {event:?}{with} at step {step}{until}{examined}")
        }
        StepActivity::Child { run } => format!("waits for child run {run} at step {step}{until}"),
        StepActivity::Retry => match due {
            Some(due) => format!("will retry step {step} at {}", time(*due)),
            None => format!("will retry step {step}"),
        },
        StepActivity::Body => match due {
            Some(due) => format!("continues with the next item of step {step} at {}", time(*due)),
            None => format!("continues inside step {step}"),
        },
        StepActivity::Soon => format!("continues with step {step}"),
    }
}

/// The text of a match, of bounded length.
fn excerpt(pattern: &Payload) -> String {
    let text = pattern.json();
    match text.char_indices().nth(MATCH_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A time for people: to the second.
pub(super) fn time(time: Timestamp) -> String {
    format!("{:.0}", Timestamp::from_millis(time.millis() / 1_000 * 1_000))
}

#[cfg(test)]
mod tests {
    use everstep_core::failure::Failure;
    use everstep_core::ids::WorkspaceId;
    use everstep_store::PendingStart;

    use super::*;

    fn step_snapshot(step: &str, activity: StepActivity, due: Option<i64>) -> StepSnapshot {
        let due = due.map(Timestamp::from_millis);
        StepSnapshot { step: step.into(), attempt: 2, since: None, due, activity }
    }

    fn snapshot(open: Vec<StepSnapshot>) -> RunSnapshot {
        let status = Status::Waiting;
        RunSnapshot { seq: 9, status, failure: None, paused_at: None, open, more: 0, worker: None, machine: None }
    }

    #[test]
    fn a_run_shows_what_it_waits_for() {
        let day = Some(1_763_251_200_000);
        let run = RunId::new(Timestamp::EPOCH, 7);
        let say = |step: StepSnapshot| sentence(&snapshot(vec![step])).unwrap();
        let wait = |pattern| StepActivity::Wait {
            event: "approve".to_owned(),
            pattern: Payload::from(pattern),
            defined: None,
            look_back: None,
        };
        let ask = wait(json!({}));
        let approval = StepActivity::Wait {
            event: "approve".to_owned(),
            pattern: Payload::from(json!({})),
            defined: Some(DefinedWait { is_approval: true, title: None }),
            look_back: None,
        };
        assert_eq!(about(&approval), Some(json!({"approval": "approve", "match": {}})));
        assert_eq!(say(step_snapshot("ask", approval, None)), "waits for the approval \"approve\" at step ask");
        assert_eq!(
            say(step_snapshot("ask", ask.clone(), day)),
            "waits for the signal \"approve\" at step ask until 2025-11-16T00:00:00Z"
        );
        assert_eq!(say(step_snapshot("ask", ask, None)), "waits for the signal \"approve\" at step ask");
        assert_eq!(
            say(step_snapshot("ask", wait(json!({"order": 7})), None)),
            "waits for the signal \"approve\" with {\"order\":7} at step ask"
        );
        assert!(say(step_snapshot("ask", wait(json!({"order": "é".repeat(500)})), None)).contains("é… at step"));
        let looking_back = |is_exhausted| StepActivity::Wait {
            event: "order.paid".to_owned(),
            pattern: Payload::from(json!({})),
            defined: None,
            look_back: Some(LookBackSnapshot { since: Timestamp::from_millis(1_763_251_200_000), is_exhausted }),
        };
        let waits = "waits for the signal \"order.paid\" at step ask";
        assert_eq!(say(step_snapshot("ask", looking_back(false), None)), waits);
        assert_eq!(
            say(step_snapshot("ask", looking_back(true), None)),
            format!(
                "{waits}; the first 10000 events since 2025-11-16T00:00:00Z were examined, and none of them matches"
            )
        );
        assert_eq!(
            say(step_snapshot("nap", StepActivity::Delay, day)),
            "sleeps at step nap until 2025-11-16T00:00:00Z"
        );
        assert_eq!(say(step_snapshot("fetch", StepActivity::Task, None)), "performs step fetch, attempt 2");
        assert_eq!(
            say(step_snapshot("call", StepActivity::Child { run }, None)),
            format!("waits for child run {run} at step call")
        );
        assert_eq!(say(step_snapshot("x", StepActivity::Retry, day)), "will retry step x at 2025-11-16T00:00:00Z");
    }

    #[test]
    fn a_run_that_has_not_begun_shows_its_time_or_that_it_waits_for_room() {
        let now = Timestamp::from_millis(1_763_251_200_000);
        let row = |status: Status, wake_at: Timestamp| RunRow {
            id: RunId::new(now, 7),
            workspace: WorkspaceId::DEFAULT,
            workflow: "w".to_owned(),
            version: 1,
            lane: String::new(),
            status,
            owner: None,
            wake_at,
            format: 3,
            key: None,
            input: Payload::null(),
            output: None,
            error: None,
            parent: None,
            origin: None,
            tags: Payload::from(json!({})),
            retention_days: 1,
            is_test: false,
            created_at: now,
            ended_at: None,
            trigger: None,
            start: None,
            machine: None,
            seq: 0,
        };
        let say = |status, wake_at| sentence_before_begin(&row(status, wake_at), now).unwrap();
        assert_eq!(say(Status::Pending, now), "waits for room on a node");
        // A node owns it, and has not begun it yet.
        assert_eq!(say(Status::Pending, Timestamp::NEVER), "waits for room on a node");
        let later = now.plus(std::time::Duration::from_secs(60));
        assert_eq!(say(Status::Pending, later), "begins at 2025-11-16T00:01:00Z");
        assert_eq!(say(Status::Paused, Timestamp::NEVER), "is paused before its beginning");
        let start = Some(PendingStart { begin_at: Some(later), ..PendingStart::default() });
        let paused = RunRow { start, ..row(Status::Paused, Timestamp::NEVER) };
        assert_eq!(
            sentence_before_begin(&paused, now).unwrap(),
            "is paused before its beginning; it was to begin at 2025-11-16T00:01:00Z"
        );
        assert_eq!(sentence_before_begin(&row(Status::Running, now), now), None);
    }

    #[test]
    fn several_things_are_counted_and_a_loop_is_none_of_them() {
        let task = |step| step_snapshot(step, StepActivity::Task, None);
        let several = snapshot(vec![task("a"), task("b"), task("c"), step_snapshot("each", StepActivity::Body, None)]);
        assert_eq!(sentence(&several).unwrap(), "performs step a, attempt 2 and 2 more");
        let body = snapshot(vec![step_snapshot("each", StepActivity::Body, None)]);
        assert_eq!(sentence(&body).unwrap(), "continues inside step each");
    }

    #[test]
    fn a_run_of_code_shows_its_worker() {
        let mut running = snapshot(vec![]);
        (running.status, running.worker) = (Status::Running, Some("host:1".to_owned()));
        assert_eq!(sentence(&running).unwrap(), "runs at worker host:1");
        running.open = vec![step_snapshot("nap", StepActivity::Delay, None)];
        assert_eq!(sentence(&running).unwrap(), "runs at worker host:1: sleeps at step nap");
        let none = "waits for a worker that serves onboard-user version 2: none is connected";
        assert_eq!(ForWorker::Unserved.sentence("onboard-user", 2), none);
        assert_eq!(ForWorker::Served.sentence("a", 1), "waits for a worker that serves a version 1 and has room");
    }

    #[test]
    fn a_paused_run_shows_the_time_and_the_reason() {
        let mut paused = snapshot(vec![]);
        paused.status = Status::Paused;
        paused.paused_at = Some(Timestamp::from_millis(1_763_251_200_000));
        assert_eq!(sentence(&paused).unwrap(), "is paused since 2025-11-16T00:00:00Z");
        paused.failure = Some(Failure::fatal("X", "entry 7 cannot be read"));
        assert!(sentence(&paused).unwrap().ends_with(" because entry 7 cannot be read"));
        paused.status = Status::Completed;
        assert_eq!(sentence(&paused), None);
    }
}
