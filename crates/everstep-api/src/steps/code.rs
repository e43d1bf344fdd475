//! The steps of a run of code. A step is one entry, or the few that say that it was tried again, slept, waited or called.

use everstep_core::ids::StepKey;
use everstep_core::journal::{Dispatch, Entry, Event, Resolution};
use everstep_core::payload::Payload;
use everstep_core::run::State;
use everstep_core::status::StepStatus;
use everstep_core::time::Timestamp;
use serde_json::json;

use super::{Folded, Page};
use crate::wire::{Attempt, Error, Time};

impl Page {
    /// Takes an entry of a journal that is read from its beginning; the page has the steps that began after `after`.
    /// `state` is what the run was after the entry, as far as that is known.
    pub(super) fn take_code(&mut self, after: u64, entry: Entry, state: Option<&State>) {
        let (seq, at) = (entry.seq, entry.at);
        match entry.event {
            Event::StepCompleted { step, attempt, outcome } => {
                if let Some(folded) = self.code_step(after, seq, &step) {
                    folded.begin_code("run", attempt, outcome.started_at.unwrap_or(at));
                    folded.settle(at, attempt, StepStatus::Completed, None, outcome.logs);
                    folded.step.output = Some(outcome.output);
                }
            }
            Event::StepFailed { step, attempt, failure, logs, started_at } => {
                if let Some(folded) = self.code_step(after, seq, &step) {
                    folded.begin_code("run", attempt, started_at.unwrap_or(at));
                    folded.settle(at, attempt, StepStatus::Failed, Some(Error::of(failure)), logs);
                }
            }
            Event::TimerSet { step, attempt, due, .. } => {
                if let Some(folded) = self.code_step(after, seq, &step) {
                    // One that failed before waits for its next attempt.
                    if folded.step.kind.is_none() {
                        folded.begin_code("sleep", attempt, at);
                        folded.due = Some(due);
                    }
                    folded.step.status = StepStatus::Waiting;
                }
            }
            Event::TimerFired { step, attempt } => {
                if let Some(folded) = self.code_step(after, seq, &step) {
                    if folded.step.kind.as_deref() == Some("sleep") {
                        folded.settle(at, attempt, StepStatus::Completed, None, Vec::new());
                        folded.step.output = folded.due.map(|due| Payload::from(json!({"slept_until": Time::of(due)})));
                    } else {
                        folded.step.status = StepStatus::Running;
                    }
                }
            }
            Event::WaitOpened { step, attempt, .. } => {
                if let Some(folded) = self.code_step(after, seq, &step) {
                    folded.begin_code("wait", attempt, at);
                    folded.step.status = StepStatus::Waiting;
                }
            }
            Event::WaitResolved { step, attempt, by } => {
                if let Some(folded) = self.code_step(after, seq, &step) {
                    folded.settle(at, attempt, StepStatus::Completed, None, Vec::new());
                    (folded.step.output, folded.step.handle) = match by {
                        Resolution::Signal { payload, .. } => (Some(payload), None),
                        Resolution::Timeout => {
                            (Some(Payload::from(json!({"timeout": true}))), Some("timeout".to_owned()))
                        }
                    };
                }
            }
            Event::StepDispatched { step, attempt, dispatch: Dispatch::Child(_) } => {
                if let Some(folded) = self.code_step(after, seq, &step) {
                    folded.begin_code("call", attempt, at);
                    folded.step.status = StepStatus::Waiting;
                }
            }
            // A call that is refused.
            Event::StepDispatched { step, attempt, dispatch: Dispatch::Instant } => {
                if let Some(folded) = self.code_step(after, seq, &step) {
                    folded.begin_code("call", attempt, at);
                }
            }
            // A failure that the function has handled stays one.
            Event::RunRetried => {
                let is_over = |key: &StepKey| state?.code()?.step(key)?.end.as_ref();
                let failed = self.steps.iter_mut().filter(|folded| folded.step.status == StepStatus::Failed);
                for folded in failed.filter(|folded| is_over(&folded.step.key).is_none()) {
                    (folded.step.status, folded.ended_at) = (StepStatus::Running, None);
                }
            }
            Event::StepDispatched { .. }
            | Event::StepSkipped { .. }
            | Event::RunStarted { .. }
            | Event::SignalBuffered { .. }
            | Event::TurnStarted { .. }
            | Event::TurnLost { .. }
            | Event::ContextSet { .. }
            | Event::RunPaused { .. }
            | Event::RunResumed
            | Event::RunCompleted { .. }
            | Event::RunFailed { .. }
            | Event::RunCancelled { .. } => {}
        }
    }

    /// The step of an entry, if it is on this page. The first entry of a step decides where it stands.
    fn code_step(&mut self, after: u64, seq: u64, key: &StepKey) -> Option<&mut Folded> {
        if let Some(index) = self.index.get(key) {
            return self.steps.get_mut(*index);
        }
        if self.elsewhere.contains(key) {
            return None;
        }
        let is_full = self.is_full() && !self.steps.is_empty();
        if seq <= after || is_full {
            self.has_more |= seq > after;
            self.elsewhere.insert(key.clone());
            return None;
        }
        self.index.insert(key.clone(), self.steps.len());
        let mut folded = Folded::new(seq, key.clone());
        folded.step.node = key.to_string();
        self.steps.push(folded);
        self.steps.last_mut()
    }
}

impl Folded {
    /// Notes what it is, and an attempt that began then.
    fn begin_code(&mut self, kind: &'static str, attempt: u32, began: Timestamp) {
        self.step.kind.get_or_insert_with(|| kind.to_owned());
        self.started_at.get_or_insert(began);
        self.step.status = StepStatus::Running;
        self.ended_at = None;
        if self.step.attempts.last().is_none_or(|last| last.attempt != attempt) {
            // A call that is made again: what it called before was cancelled with the run, or is its original's.
            if let Some(left) = self.step.attempts.last_mut().filter(|last| last.ended_at.is_none()) {
                (left.status, left.ended_at) = (StepStatus::Cancelled, Some(Time::of(began)));
            }
            let dispatched_at = Some(Time::of(began));
            let status = StepStatus::Running;
            self.step.attempts.push(Attempt {
                attempt,
                dispatched_at,
                ended_at: None,
                status,
                error: None,
                logs: Vec::new(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use everstep_core::failure::Failure;
    use everstep_core::ids::RunId;
    use everstep_core::journal::{Outcome, TimerPurpose};
    use everstep_core::run::Child;
    use everstep_core::workflow::{Style, Workflow};

    use super::*;
    use crate::wire::Steps;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_millis(second * 1_000)
    }

    fn failed(attempt: u32, failure: Failure) -> Event {
        let started_at = Some(at(1 + 2 * i64::from(attempt)));
        Event::StepFailed { step: "pay.now".into(), attempt, failure, logs: vec![], started_at }
    }

    /// What a run of code has left in its journal.
    fn journal() -> Vec<Event> {
        let outcome = Outcome { started_at: Some(at(1)), ..Outcome::of(json!(7)) };
        let wait = |step: &str, attempt| Event::WaitOpened {
            step: step.into(),
            attempt,
            event: None,
            pattern: Payload::from(json!({})),
            due: None,
        };
        let signal =
            Resolution::Signal { event: "ok".to_owned(), payload: Payload::from(json!("yes")), buffered: None };
        vec![
            Event::RunStarted { input: Payload::null(), cause: None, definition: None },
            Event::TurnStarted { turn: 1, worker: "w".to_owned() },
            Event::StepCompleted { step: "a".into(), attempt: 1, outcome },
            failed(1, Failure::transient("X", "no")),
            Event::TimerSet { step: "pay.now".into(), attempt: 1, due: at(9), why: TimerPurpose::Retry },
            Event::TimerSet { step: "nap".into(), attempt: 1, due: at(8), why: TimerPurpose::Sleep },
            Event::TimerFired { step: "nap".into(), attempt: 1 },
            Event::TimerFired { step: "pay.now".into(), attempt: 1 },
            failed(2, Failure::fatal("X", "never")),
            wait("ok", 1),
            wait("late", 1),
            Event::WaitResolved { step: "ok".into(), attempt: 1, by: signal },
            Event::WaitResolved { step: "late".into(), attempt: 1, by: Resolution::Timeout },
        ]
    }

    fn page(after: u64, limit: usize) -> Steps {
        fold(journal(), after, limit)
    }

    fn fold(journal: Vec<Event>, after: u64, limit: usize) -> Steps {
        let workflow = Workflow { name: "w".to_owned(), version: 1, style: Style::Code, is_unpublished: false };
        let mut state = State::new(RunId::new(Timestamp::EPOCH, 1), &workflow);
        let mut page = Page::new(limit);
        for (seq, event) in (1..).zip(journal) {
            let entry = Entry { seq, at: at(seq as i64), event, key: None };
            state.apply(&workflow, &entry).unwrap();
            page.take_code(after, entry, Some(&state));
        }
        page.finish(state.has_ended(), None)
    }

    #[test]
    fn each_step_of_code_is_one_row() {
        let steps = page(0, 10).steps;
        let rows: Vec<_> = steps
            .iter()
            .map(|step| (step.key.as_str(), step.kind.as_deref().unwrap_or("?"), step.status.as_str()))
            .collect();
        let expected = [
            ("a", "run", "completed"),
            ("pay.now", "run", "failed"),
            ("nap", "sleep", "completed"),
            ("ok", "wait", "completed"),
            ("late", "wait", "completed"),
        ];
        assert_eq!(rows, expected);
        assert_eq!((steps[0].duration_ms, steps[2].duration_ms), (Some(2_000.0), Some(1_000.0)));
        assert_eq!((steps[1].node.as_str(), steps[1].attempts.len(), steps[1].error.is_some()), ("pay.now", 2, true));
        let began: Vec<_> = steps[1].attempts.iter().map(|attempt| json!(attempt.dispatched_at)).collect();
        assert_eq!(began, [json!(Time::of(at(3))), json!(Time::of(at(5)))]);
        assert_eq!(steps[2].output, Some(Payload::from(json!({"slept_until": Time::of(at(8))}))));
        assert_eq!(steps[3].output.as_ref().map(Payload::json), Some("\"yes\""));
        assert_eq!(steps[4].output.as_ref().map(Payload::json), Some(r#"{"timeout":true}"#));
        assert_eq!(steps[4].handle.as_deref(), Some("timeout"));
    }

    #[test]
    fn a_retry_tries_again_what_failed_the_run_and_nothing_else() {
        let run = RunId::new(Timestamp::EPOCH, 1);
        let failed = |step: &str| Event::failed(step.into(), 1, Failure::fatal("X", "no"));
        let called = |attempt| {
            let step = StepKey::from("call");
            let child = Child {
                run: Child::id(run, &step, attempt, at(0)),
                workflow: "other".to_owned(),
                version: None,
                input: Payload::null(),
                waits: true,
                due: None,
            };
            Event::StepDispatched { step, attempt, dispatch: Dispatch::Child(child.into()) }
        };
        let refused = Event::StepDispatched { step: "refused".into(), attempt: 1, dispatch: Dispatch::Instant };
        let begun = vec![
            Event::RunStarted { input: Payload::null(), cause: None, definition: None },
            Event::TurnStarted { turn: 1, worker: "w".to_owned() },
            failed("handled"),
            refused,
            failed("refused"),
            called(1),
            failed("last"),
            Event::RunFailed { failure: Failure::fatal("X", "no"), step: Some("last".into()) },
        ];
        let rows = |journal: Vec<Event>| -> Vec<_> {
            let steps = fold(journal, 0, 10).steps;
            steps.into_iter().map(|step| (step.key.to_string(), step.kind.unwrap_or_default(), step.status)).collect()
        };
        let row = |key: &str, kind: &str, status| (key.to_owned(), kind.to_owned(), status);
        let handled = || vec![row("handled", "run", StepStatus::Failed), row("refused", "call", StepStatus::Failed)];
        let ended = rows(begun.clone());
        let left = [row("call", "call", StepStatus::Cancelled), row("last", "run", StepStatus::Failed)];
        assert_eq!(ended, [&handled()[..], &left].concat());

        let retried =
            [begun, vec![Event::RunRetried, Event::TurnStarted { turn: 2, worker: "w".to_owned() }, called(2)]];
        let retried = retried.concat();
        let again = [row("call", "call", StepStatus::Waiting), row("last", "run", StepStatus::Running)];
        assert_eq!(rows(retried.clone()), [&handled()[..], &again].concat());
        let attempts: Vec<_> =
            fold(retried, 0, 10).steps[2].attempts.iter().map(|attempt| (attempt.attempt, attempt.status)).collect();
        assert_eq!(attempts, [(1, StepStatus::Cancelled), (2, StepStatus::Running)]);
    }

    #[test]
    fn a_step_of_code_stands_on_one_page() {
        let (mut cursor, mut keys) = (0, Vec::new());
        loop {
            let page = page(cursor, 1);
            keys.extend(page.steps.iter().map(|step| step.key.to_string()));
            let Some(next) = page.next_cursor else { break };
            cursor = next.parse().unwrap_or_else(|_| panic!("{next}"));
        }
        assert_eq!(keys, ["a", "pay.now", "nap", "ok", "late"]);
    }
}
