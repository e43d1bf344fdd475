//! Runs of code workflows, as part of a run's state.

use crate::code::StepKind;
use crate::code::{Buffered, End, Standing};
use crate::ids::StepKey;
use crate::journal::{Dispatch, Entry, Event, Resolution};
use crate::run::{Doing, Open, State};
use crate::status::StepStatus;
use crate::time::Timestamp;

impl State {
    /// Folds an entry about a turn or a step of a code workflow. `None` when it does not fit.
    pub(crate) fn apply_code(&mut self, entry: &Entry) -> Option<Option<Timestamp>> {
        let seq = entry.seq;
        let mut since = None;
        match &entry.event {
            Event::TurnStarted { turn, .. } => {
                if *turn != self.code.turn + 1 {
                    return None;
                }
                (self.code.turn, self.code.standing) = (*turn, Standing::Held);
            }
            Event::TurnLost { turn } => {
                if *turn == 0 || *turn != self.code.turn {
                    return None;
                }
                self.code.losses += 1;
                self.code.standing = Standing::Lost;
            }
            Event::StepDispatched { step, attempt, dispatch } => {
                // A call that is refused is over at once.
                if !matches!(dispatch, Dispatch::Child(_) | Dispatch::Instant) {
                    return None;
                }
                if self.open.contains_key(step) && !self.has_foreign_child(step) {
                    return None;
                }
                self.code.begin(step, StepKind::Call, seq, *attempt)?;
                self.dispatched(step, *attempt, dispatch);
            }
            Event::StepCompleted { step, attempt, outcome } => {
                let kind = self.code.step(step).map_or(StepKind::Run, |step| step.kind);
                since = match kind {
                    StepKind::Call => self.close(step)?.since,
                    StepKind::Run if !self.open.contains_key(step) => outcome.started_at,
                    StepKind::Run | StepKind::Sleep | StepKind::Wait => return None,
                };
                self.code.finish(step, seq, *attempt, End::Output(outcome.output.clone()))?;
            }
            Event::StepFailed { step, attempt, failure, started_at, .. } => {
                let kind = self.code.step(step).map_or(StepKind::Run, |step| step.kind);
                since = *started_at;
                match kind {
                    StepKind::Call => {
                        let open = self.close(step)?;
                        since = open.since;
                        self.leave_late_child(step, &open, failure);
                        self.code.finish(step, seq, *attempt, End::Failure(failure.clone()))?;
                    }
                    StepKind::Run if self.open.contains_key(step) => return None,
                    StepKind::Run if failure.retryable => self.code.failed(step, seq, *attempt)?,
                    StepKind::Run => self.code.finish(step, seq, *attempt, End::Failure(failure.clone()))?,
                    StepKind::Sleep | StepKind::Wait => return None,
                }
            }
            Event::TimerSet { step, attempt, due } => {
                let doing = match self.code.step(step).map(|step| step.kind) {
                    None => {
                        self.code.begin(step, StepKind::Sleep, seq, *attempt)?;
                        Doing::Delay
                    }
                    Some(StepKind::Run) if !self.open.contains_key(step) => {
                        self.code.back_off(step, seq, true)?;
                        Doing::Backoff
                    }
                    Some(_) => return None,
                };
                self.open_code(step, *attempt, doing, Some(*due));
            }
            Event::TimerFired { step, attempt } => {
                let open = self.close(step)?;
                match open.doing {
                    Doing::Delay => {
                        since = open.since;
                        self.code.finish(step, seq, *attempt, End::Slept)?;
                    }
                    Doing::Backoff => self.code.back_off(step, seq, false)?,
                    _ => return None,
                }
            }
            Event::WaitOpened { step, attempt, event, pattern, due } => {
                if self.code.step(step).is_some() {
                    return None;
                }
                self.code.begin(step, StepKind::Wait, seq, *attempt)?;
                self.code.bytes += pattern.size();
                let event = event.clone().unwrap_or_else(|| step.to_string());
                self.open_code(step, *attempt, Doing::Wait { event, pattern: pattern.clone() }, *due);
            }
            Event::WaitResolved { step, attempt, by } => {
                let open = self.close(step)?;
                let Doing::Wait { pattern, .. } = &open.doing else { return None };
                since = open.since;
                self.code.bytes -= pattern.size();
                let end = match by {
                    Resolution::Signal { payload, buffered, .. } => {
                        if let Some(buffered) = buffered {
                            self.code.unbuffer(*buffered);
                        }
                        End::Signal(payload.clone())
                    }
                    Resolution::Timeout => End::Timeout,
                };
                self.code.finish(step, seq, *attempt, end)?;
            }
            Event::SignalBuffered { event, payload, until } => {
                let (event, payload) = (event.clone(), payload.clone());
                self.code.buffer(Buffered { seq, event, payload, until: *until }, entry.at);
            }
            Event::StepSkipped { .. } | Event::ContextSet { .. } => return None,
            Event::RunStarted { .. }
            | Event::RunPaused { .. }
            | Event::RunResumed
            | Event::RunRetried
            | Event::RunCompleted { .. }
            | Event::RunFailed { .. }
            | Event::RunCancelled { .. } => {}
        }
        Some(since)
    }

    fn open_code(&mut self, step: &StepKey, attempt: u32, doing: Doing, timer: Option<Timestamp>) {
        if let Some(due) = timer {
            self.timers.insert((due, step.clone()));
        }
        let since = Some(self.updated_at);
        let open = Open { attempt, failures: 0, crashes: 0, doing, timer, retry_after_ms: None, since };
        self.open.insert(step.clone(), open);
    }

    /// A failed run is retried. Children that were waited for were cancelled with it, and are called again by the function.
    pub(crate) fn retried_code(&mut self, blamed: Option<&StepKey>) {
        let is_left = |open: &Open| matches!(&open.doing, Doing::Child(child) if child.waits);
        let left: Vec<_> = self.open.iter().filter(|(_, open)| is_left(open)).map(|(step, _)| step.clone()).collect();
        for step in left {
            self.close(&step);
        }
        self.code.retried(self.seq, blamed);
    }

    /// What [`crate::code::Progress`] counts, found by looking at everything: steps that may be tried, and bytes.
    pub(crate) fn scan_code(&self) -> (usize, usize) {
        let may_be_tried = self.code.steps().filter(|(step, known)| {
            known.kind == StepKind::Run && known.end.is_none() && !self.open.contains_key(*step)
        });
        let ends = self.code.steps().filter_map(|(_, step)| step.end.as_ref()).map(End::size);
        let kept = self.code.buffered.iter().map(|kept| kept.payload.size());
        let awaited = self.open.values().map(|open| match &open.doing {
            Doing::Wait { pattern, .. } => pattern.size(),
            _ => 0,
        });
        (may_be_tried.count(), ends.chain(kept).chain(awaited).sum())
    }

    /// Whether a step that the journal knows is open: a wake will come for it.
    pub fn is_open(&self, step: &StepKey) -> bool {
        self.open.contains_key(step)
    }

    pub(crate) fn code_step_status(&self, step: &StepKey) -> Option<StepStatus> {
        Some(match &self.code.step(step)?.end {
            Some(End::Failure(_)) => StepStatus::Failed,
            Some(_) => StepStatus::Completed,
            None if self.has_ended() => StepStatus::Cancelled,
            None => StepStatus::Running,
        })
    }
}
