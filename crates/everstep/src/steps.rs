//! The steps of one run as a person sees them: a fold of its journal.

use std::collections::BTreeMap;
use std::time::Duration;

use everstep_core::failure::Failure;
use everstep_core::ids::StepKey;
use everstep_core::journal::{Dispatch, Entry, Event, Resolution};
use everstep_core::time::Timestamp;

use crate::text;

/// Every step that was dispatched or skipped, in that order.
#[derive(Default)]
pub(crate) struct Steps {
    rows: Vec<Row>,
    index: BTreeMap<StepKey, usize>,
}

pub(crate) struct Row {
    pub(crate) step: StepKey,
    pub(crate) stage: Stage,
    pub(crate) attempt: u32,
    began: Timestamp,
    ended: Option<Timestamp>,
    /// What else there is to say.
    pub(crate) note: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Running,
    Waiting,
    Retrying,
    Completed,
    Failed,
    Skipped,
}

impl Stage {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Retrying => "retrying",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }

    pub(crate) fn is_settled(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Skipped)
    }
}

impl Row {
    /// How long the step has taken so far, over all its attempts.
    pub(crate) fn duration(&self, now: Timestamp) -> Duration {
        self.ended.unwrap_or(now).since(self.began)
    }
}

impl Steps {
    pub(crate) fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Takes one entry and returns the lines that tell of it.
    pub(crate) fn apply(&mut self, entry: &Entry) -> Vec<String> {
        let at = entry.at;
        match &entry.event {
            Event::StepDispatched { step, attempt, dispatch } => {
                let (stage, note) = describe(dispatch);
                let row = self.row(step, at);
                (row.stage, row.attempt, row.ended, row.note) = (stage, *attempt, None, note.clone());
                let again = if *attempt > 1 { format!(" (attempt {attempt})") } else { String::new() };
                match dispatch {
                    // Its completion stands in the same item.
                    Dispatch::Instant => vec![],
                    Dispatch::Task => vec![line("started", step, &again)],
                    Dispatch::Delay { .. } | Dispatch::Wait { .. } | Dispatch::Child(_) | Dispatch::Body { .. } => {
                        vec![line(stage.word(), step, &format!("{again}: {note}"))]
                    }
                }
            }
            Event::StepCompleted { step, outcome, .. } => {
                let row = self.row(step, at);
                (row.stage, row.ended) = (Stage::Completed, Some(at));
                row.note =
                    outcome.handle.as_ref().map(|handle| format!("→ {}", text::safe(handle))).unwrap_or_default();
                let more = format!(" in {} {}", text::span(row.duration(at)), row.note);
                with_logs(step, &outcome.logs, line("completed", step, more.trim_end()))
            }
            Event::StepFailed { step, attempt, failure, logs, .. } => {
                let row = self.row(step, at);
                (row.stage, row.ended, row.note) = (Stage::Failed, Some(at), told(failure));
                let more = format!(" (attempt {attempt}): {}", row.note);
                with_logs(step, logs, line("failed", step, &more))
            }
            Event::StepSkipped { step } => {
                let row = self.row(step, at);
                (row.stage, row.ended) = (Stage::Skipped, Some(at));
                vec![line("skipped", step, "")]
            }
            Event::TimerSet { step, due, .. } if !self.index.contains_key(step) => {
                let row = self.row(step, at);
                (row.stage, row.note) = (Stage::Waiting, format!("until {due}"));
                vec![line("sleeps", step, &format!(" {}", text::span(due.since(at))))]
            }
            Event::WaitOpened { step, event, .. } => {
                let row = self.row(step, at);
                let event = event.as_deref().unwrap_or(step.as_str());
                (row.stage, row.note) = (Stage::Waiting, format!("for {}", text::safe(event)));
                vec![line("waits", step, &format!(" for {}", text::safe(event)))]
            }
            Event::WaitResolved { step, by, .. } => {
                let row = self.row(step, at);
                (row.stage, row.ended) = (Stage::Completed, Some(at));
                row.note = match by {
                    Resolution::Signal { .. } => String::new(),
                    Resolution::Timeout => "→ timeout".to_owned(),
                };
                let more = format!(" in {} {}", text::span(row.duration(at)), row.note);
                vec![line("completed", step, more.trim_end())]
            }
            Event::TimerFired { step, .. } => {
                let row = self.row(step, at);
                if row.stage != Stage::Waiting {
                    return vec![];
                }
                (row.stage, row.ended) = (Stage::Completed, Some(at));
                vec![line("completed", step, &format!(" in {}", text::span(row.duration(at))))]
            }
            Event::TimerSet { step, due, .. } => {
                let row = self.row(step, at);
                (row.stage, row.ended) = (Stage::Retrying, None);
                vec![line("retrying", step, &format!(" in {}", text::span(due.since(at))))]
            }
            Event::RunPaused { reason } => {
                vec![format!("paused    {}", reason.as_ref().map(told).unwrap_or_default())]
            }
            Event::RunResumed => vec!["resumed".to_owned()],
            Event::RunStarted { .. }
            | Event::SignalBuffered { .. }
            | Event::TurnStarted { .. }
            | Event::TurnLost { .. }
            | Event::ContextSet { .. }
            | Event::RunRetried
            | Event::RunCompleted { .. }
            | Event::RunFailed { .. }
            | Event::RunCancelled { .. } => vec![],
        }
    }

    fn row(&mut self, step: &StepKey, at: Timestamp) -> &mut Row {
        let index = *self.index.entry(step.clone()).or_insert_with(|| {
            self.rows.push(Row {
                step: step.clone(),
                stage: Stage::Running,
                attempt: 0,
                began: at,
                ended: None,
                note: String::new(),
            });
            self.rows.len() - 1
        });
        &mut self.rows[index]
    }
}

fn describe(dispatch: &Dispatch) -> (Stage, String) {
    match dispatch {
        Dispatch::Task | Dispatch::Instant => (Stage::Running, String::new()),
        Dispatch::Delay { due } => (Stage::Waiting, format!("until {due}")),
        Dispatch::Wait { event, .. } => (Stage::Waiting, format!("for the event {:?}", text::safe(event))),
        Dispatch::Child(child) => (Stage::Waiting, format!("for {} {}", text::safe(&child.workflow), child.run)),
        Dispatch::Body { items } => (Stage::Running, text::count(items.len(), "item")),
    }
}

fn told(failure: &Failure) -> String {
    text::safe(&failure.to_string())
}

fn line(word: &str, step: &StepKey, more: &str) -> String {
    format!("{word:<10}{step}{more}")
}

/// What a step logged, then what became of it.
fn with_logs(step: &StepKey, logs: &[String], last: String) -> Vec<String> {
    let logs = logs.iter().flat_map(|log| log.split('\n'));
    let mut lines: Vec<_> = logs.map(|log| line("log", step, &format!(": {}", text::safe(log)))).collect();
    lines.push(last);
    lines
}

#[cfg(test)]
mod tests {
    use everstep_core::journal::{Outcome, TimerPurpose};

    use super::*;

    #[test]
    fn a_retried_step_is_one_row_and_several_lines() {
        let mut steps = Steps::default();
        let step = StepKey::from("fetch");
        let failure = Failure::transient("IO", "gone\u{7}");
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
        let lines: Vec<_> = (0..)
            .zip(events)
            .flat_map(|(n, event)| steps.apply(&Entry::new(n as u64 + 1, Timestamp::from_millis(n * 1_001), event)))
            .collect();
        assert_eq!(
            lines,
            [
                "started   fetch",
                "log       fetch: trying",
                "failed    fetch (attempt 1): IO: gone\\u{7}",
                "retrying  fetch in 1.0 s",
                "started   fetch (attempt 2)",
                "completed fetch in 4.0 s",
            ]
        );
        let [row] = steps.rows() else { panic!("one step is one row") };
        assert_eq!((row.stage, row.attempt), (Stage::Completed, 2));
    }
}
