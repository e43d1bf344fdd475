//! The steps of one run as lines for a terminal: updates, and the state of each step.

use std::time::Duration;

use everstep_core::failure::Failure;
use everstep_core::ids::StepKey;
use everstep_core::status::StepStatus;
use everstep_core::story::{Activity, RunChange, RunUpdate, StepChange, StepStory, StepUpdate, Story, Update};
use everstep_core::time::Timestamp;

use crate::text;

/// The state of a step, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Running,
    Waiting,
    Retrying,
    Completed,
    Failed,
    Skipped,
    Cancelled,
}

impl Stage {
    pub(crate) fn from_story(step: &StepStory) -> Self {
        match step.status {
            StepStatus::Waiting if step.is_retrying() => Self::Retrying,
            StepStatus::Waiting => Self::Waiting,
            StepStatus::Pending | StepStatus::Running => Self::Running,
            StepStatus::Completed => Self::Completed,
            StepStatus::Failed => Self::Failed,
            StepStatus::Skipped => Self::Skipped,
            StepStatus::Cancelled => Self::Cancelled,
        }
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Retrying => "retrying",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::Cancelled => "cancelled",
        }
    }

    pub(crate) fn is_settled(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Skipped | Self::Cancelled)
    }
}

/// The duration of a step so far, over all its attempts.
pub(crate) fn duration(step: &StepStory, now: Timestamp) -> Duration {
    let end = step.ended_at.filter(|_| !step.is_open()).unwrap_or(now);
    step.since.map_or(Duration::ZERO, |since| end.since(since))
}

/// The facts about a step beside its stage.
pub(crate) fn note(step: &StepStory) -> String {
    match step.status {
        StepStatus::Completed => {
            step.handle.as_deref().map(|handle| format!("→ {}", text::safe(handle))).unwrap_or_default()
        }
        StepStatus::Skipped => String::new(),
        _ => match step.attempts.last().and_then(|last| last.error.as_ref()) {
            Some(failure) => first_line(failure),
            None => describe_activity(&step.activity, step.due),
        },
    }
}

/// The lines about an update, which the story already contains.
pub(crate) fn lines(story: &Story, update: &Update<'_>) -> Vec<String> {
    match update {
        Update::Step(update) => step_lines(story, update),
        Update::Run(update) => match update.change {
            RunChange::Paused => match update.failure {
                Some(failure) => with_stack(format!("paused    {}", first_line(failure)), failure),
                None => vec!["paused".to_owned()],
            },
            RunChange::Resumed => vec!["resumed".to_owned()],
            RunChange::Moved | RunChange::Voted | RunChange::Assigned => machine_lines(update),
            RunChange::Started
            | RunChange::TurnStarted
            | RunChange::TurnLost
            | RunChange::Retried
            | RunChange::Completed
            | RunChange::Failed
            | RunChange::Cancelled => vec![],
        },
    }
}

/// A transition, a vote or an assignment of a machine.
fn machine_lines(update: &RunUpdate<'_>) -> Vec<String> {
    let Some(machine) = &update.machine else { return vec![] };
    let action = machine.action.unwrap_or_default();
    vec![match machine.to {
        Some(to) => format!("moved     {to} ({action} by {})", machine.by),
        None if action.is_empty() => format!("assigned  by {}", machine.by),
        None => format!("voted     {action} by {}", machine.by),
    }]
}

fn step_lines(story: &Story, update: &StepUpdate<'_>) -> Vec<String> {
    let (key, at) = (&update.step, update.at);
    let line = |word: &str, more: &str| vec![line(word, key, more)];
    let remaining = || text::span(update.due.unwrap_or(at).since(at));
    match update.change {
        StepChange::Began => {
            let again = if update.attempt > 1 { format!(" (attempt {})", update.attempt) } else { String::new() };
            match update.activity.as_ref() {
                // Its completion is part of the same item.
                Some(Activity::Instant) => vec![],
                Some(Activity::Task) | None => line("started", &again),
                Some(activity) => {
                    let stage = if update.status == StepStatus::Waiting { Stage::Waiting } else { Stage::Running };
                    line(stage.word(), &format!("{again}: {}", describe_activity(activity, update.due)))
                }
            }
        }
        StepChange::Completed => {
            let step = story.step(key);
            let taken = step.map(|step| duration(step, at)).unwrap_or_default();
            let more = format!(" in {} {}", text::span(taken), step.map(note).unwrap_or_default());
            with_logs(update, line("completed", more.trim_end()))
        }
        StepChange::Failed => {
            let why = update.error.map(first_line).unwrap_or_default();
            let head = self::line("failed", key, &format!(" (attempt {}): {why}", update.attempt));
            let lines = match update.error {
                Some(failure) => with_stack(head, failure),
                None => vec![head],
            };
            with_logs(update, lines)
        }
        StepChange::Skipped => line("skipped", ""),
        StepChange::Retries => line("retrying", &format!(" in {}", remaining())),
        StepChange::Paces => line("waiting", &format!(": next item in {}", remaining())),
        StepChange::RetryDue | StepChange::PaceDue | StepChange::Cancelled | StepChange::Reopened => vec![],
    }
}

fn describe_activity(activity: &Activity, due: Option<Timestamp>) -> String {
    match activity {
        Activity::Task | Activity::Instant => String::new(),
        Activity::Sleep => due.map(|due| format!("until {due}")).unwrap_or_default(),
        Activity::Wait { event } => format!("for the signal {:?}", text::safe(event)),
        Activity::Child { run, workflow } => format!("for {} {run}", text::safe(workflow)),
        Activity::Body { items } => text::count(*items, "item"),
    }
}

/// A failure in one line, without its stack trace.
fn first_line(failure: &Failure) -> String {
    text::safe_lines(&failure.to_string()).next().unwrap_or_default()
}

/// A line about a failure, and a line for each further line of its message.
fn with_stack(head: String, failure: &Failure) -> Vec<String> {
    let message = failure.to_string();
    let stack = text::safe_lines(&message).skip(1).map(|line| format!("{:<10}{line}", ""));
    std::iter::once(head).chain(stack).collect()
}

fn line(word: &str, step: &StepKey, more: &str) -> String {
    format!("{word:<10}{step}{more}")
}

/// The log lines of a step, then its result.
fn with_logs(update: &StepUpdate<'_>, last: Vec<String>) -> Vec<String> {
    let logs = update.logs.iter().flat_map(|log| log.split('\n'));
    let logs = logs.map(|log| line("log", &update.step, &format!(": {}", text::safe(log))));
    logs.chain(last).collect()
}

#[cfg(test)]
mod tests {
    use everstep_core::journal::{Dispatch, Entry, Event, Outcome, TimerPurpose};

    use super::*;

    #[test]
    fn a_retried_step_is_one_row_and_several_lines() {
        let mut story = Story::new(None);
        let step = StepKey::from("fetch");
        let failure = Failure::transient("IO", "gone\u{7}\n  at read (a.ts:1)");
        let dispatched = |attempt| Event::StepDispatched { step: step.clone(), attempt, dispatch: Dispatch::Task };
        let events = [
            dispatched(1),
            Event::StepFailed {
                step: step.clone(),
                attempt: 1,
                failure,
                logs: vec!["trying".into()],
                started_at: None,
            },
            Event::TimerSet {
                step: step.clone(),
                attempt: 1,
                due: Timestamp::from_millis(3_002),
                why: TimerPurpose::Retry,
            },
            dispatched(2),
            Event::StepCompleted { step: step.clone(), attempt: 2, outcome: Outcome::default() },
        ];
        let mut shown = Vec::new();
        for (n, event) in (0..).zip(events) {
            let entry = Entry::new(n as u64 + 1, Timestamp::from_millis(n * 1_001), event);
            for update in story.apply(&entry) {
                shown.extend(lines(&story, &update));
            }
        }
        assert_eq!(
            shown,
            [
                "started   fetch",
                "log       fetch: trying",
                "failed    fetch (attempt 1): IO: gone\\u{7}",
                "            at read (a.ts:1)",
                "retrying  fetch in 1.0 s",
                "started   fetch (attempt 2)",
                "completed fetch in 4.0 s",
            ]
        );
        let steps: Vec<_> = story.steps().collect();
        let [step] = steps[..] else { panic!("one step is one row") };
        assert_eq!((Stage::from_story(step), step.attempt()), (Stage::Completed, 2));
    }
}
