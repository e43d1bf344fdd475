//! How the reports of the worker that holds a run's turn are decided.
//!
//! **Invariant**: a report counts only for the last turn of its run.
//!
//! 1. A report counts only for the last turn; a report of an older turn is fenced. A turn that a pause ended accepts
//!    the results of steps that were running, and nothing else; a turn that a retry ended accepts nothing.
//! 2. A repeated report changes nothing and is accepted again; a different report for a step that has ended is
//!    rejected.
//! 3. A step is one entry, which is written when the step ends. A failed attempt is retried according to its policy.
//! 4. The return or throw of the function ends the run.
//! 5. A lost turn is not a failure: another turn follows, at most ten times in a row.

use std::time::Duration;

use super::progress::{End, Step, TurnStatus};
use super::report::{Report, StepKind};
use super::run::progress;
use super::{trim, waits};
use crate::failure::{Failure, code};
use crate::ids::StepKey;
use crate::journal::{Dispatch, Event, Outcome, TimerPurpose};
use crate::limits;
use crate::payload::{self, Payload};
use crate::planted::{self, Bug};
use crate::retry::{self, RetryPolicy};
use crate::run::decide::Draft;
use crate::run::{Phase, Reply};
use crate::time::Timestamp;
use crate::topics::{self, Publication};

/// A worker takes the turn of a live run.
pub(crate) fn on_turn_begun(draft: &mut Draft<'_>, worker: String) -> Reply {
    if !draft.state.phase.is_live() {
        return Reply::ignored("the run needs no worker");
    }
    draft.write(Event::TurnStarted { turn: progress(draft.state).turn + 1, worker });
    Reply::Accepted
}

/// The worker that holds a turn was lost.
pub(crate) fn on_turn_lost(draft: &mut Draft<'_>, turn: u32) -> Reply {
    let is_held = turn == progress(draft.state).turn && progress(draft.state).turn_status == TurnStatus::Held;
    if !draft.state.phase.is_live() || turn == 0 || !is_held {
        return Reply::ignored("the turn has ended");
    }
    draft.write(Event::TurnLost { turn });
    if progress(draft.state).losses >= limits::CONSECUTIVE_LOST_TURNS {
        let message = format!("{} workers in a row were lost without any progress", limits::CONSECUTIVE_LOST_TURNS);
        draft.write(Event::run_failed(Failure::fatal(code::WORKER_LOST, message), None));
    }
    Reply::Accepted
}

/// A report of the worker that holds a turn.
pub(crate) fn on_report(draft: &mut Draft<'_>, turn: u32, report: Report) -> Reply {
    let (last, turn_status) = (progress(draft.state).turn, progress(draft.state).turn_status);
    let is_over = turn != last || turn_status == TurnStatus::Over;
    if turn == 0 || is_over && !planted::is_planted(Bug::TurnNotFenced) {
        return Reply::refused("FENCED", format!("turn {turn} has ended; the run's last turn is {last}"));
    }
    if let Some(reply) = draft.known(&report) {
        return reply;
    }
    if draft.state.has_ended() {
        return draft.refuse("RUN_ENDED", "accepts no results");
    }
    let is_result = matches!(report, Report::Completed { .. } | Report::Failed { .. });
    if (turn_status == TurnStatus::Revoked || draft.state.is_paused()) && !is_result {
        return Reply::refused("FENCED", format!("the run was paused in turn {turn}: no new step begins in it"));
    }
    match report {
        Report::Completed { step, attempt, output, logs, took } => {
            let (logs, started_at) = (trim::logs(logs), Some(draft.began(took)));
            let outcome = Outcome { logs, started_at, ..Outcome::from_output(output) };
            let event = match draft.bound(&step, outcome) {
                Ok(outcome) => Event::StepCompleted { step, attempt, outcome },
                Err(failure) => Event::StepFailed { step, attempt, failure, logs: Vec::new(), started_at },
            };
            draft.write(event);
        }
        Report::Failed { step, attempt, failure, retry, logs, took } => {
            draft.step_failed(step, attempt, trim::failure(failure), &retry, trim::logs(logs), took);
        }
        Report::Slept { step, until } => draft.sleep(step, until),
        Report::Waited { step, event, pattern, timeout_ms, since } => {
            return draft.wait(step, event, pattern, timeout_ms, since);
        }
        Report::Published { step, topic, data, id, subject } => {
            draft.publish(step, Publication { topic, data, id, subject });
        }
        Report::Called { step, workflow, version, input, timeout_ms } => {
            draft.call(step, workflow, version, input, timeout_ms);
        }
        Report::Returned { output, unawaited } => {
            let unawaited = trim::steps(unawaited);
            draft.write(match returned(&output) {
                Ok(()) => Event::RunCompleted { output, unawaited },
                Err(failure) => Event::RunFailed { failure, step: None, stack: None, unawaited },
            });
        }
        Report::Threw { failure, step, stack, unawaited } => draft.write(Event::RunFailed {
            failure: thrown(failure),
            step,
            stack: stack.map(trim::stack),
            unawaited: trim::steps(unawaited),
        }),
        Report::Diverged { failure } => {
            let reason = Failure { code: code::NONDETERMINISTIC.to_owned(), ..thrown(failure) };
            draft.write(Event::RunPaused { reason: Some(reason) });
        }
        // The node that holds the run in memory handles these.
        Report::Blocked { .. } | Report::Declined { .. } => {}
    }
    Reply::Accepted
}

impl Draft<'_> {
    /// The reply to a report that the journal already contains, or that contradicts the journal.
    fn known(&self, report: &Report) -> Option<Reply> {
        let contradicts = |step: &StepKey, known: &Step, what: &str| {
            let message = format!("the journal contains {step} as {}: {what}", describe(known));
            Some(Reply::refused(code::NONDETERMINISTIC, message))
        };
        let (step, kind) = match report {
            Report::Completed { step, .. } | Report::Failed { step, .. } => (step, StepKind::Run),
            Report::Slept { step, .. } => (step, StepKind::Sleep),
            Report::Waited { step, .. } => (step, StepKind::Wait),
            Report::Published { step, .. } => (step, StepKind::Publish),
            Report::Called { step, .. } => (step, StepKind::Call),
            Report::Returned { output, .. } => {
                let is_same = self.state.output() == Some(output);
                return is_same.then_some(Reply::Repeated);
            }
            Report::Threw { failure, step, .. } => {
                let is_same = |known: &Failure| {
                    let attempts = known.attempts;
                    *known == Failure { step: step.clone(), attempts, ..thrown(failure.clone()) }
                };
                let Phase::Failed { failure: known } = &self.state.phase else { return None };
                return is_same(known).then_some(Reply::Repeated);
            }
            Report::Diverged { .. } => return self.state.is_paused().then_some(Reply::Repeated),
            Report::Blocked { .. } | Report::Declined { .. } => return None,
        };
        let Some(known) = progress(self.state).step(step) else {
            let attempt = match report {
                Report::Completed { attempt, .. } | Report::Failed { attempt, .. } => *attempt,
                _ => 1,
            };
            let message = format!("{step} begins with attempt 1, not {attempt}");
            return (attempt != 1).then(|| Reply::refused("VALIDATION_ERROR", message));
        };
        if known.kind != kind {
            return contradicts(step, known, "the function now uses it as another kind of step");
        }
        match (report, &known.end) {
            (Report::Completed { output, .. }, Some(End::Output(given))) if given == output => Some(Reply::Repeated),
            (Report::Completed { attempt, .. }, Some(_)) => {
                // An output that was too large was recorded as a failure.
                let is_same = *attempt == known.attempt && matches!(known.end, Some(End::Failure(_)));
                if is_same { Some(Reply::Repeated) } else { contradicts(step, known, "its result was different") }
            }
            // An attempt that was followed by another one has failed, whatever the result of the later one is.
            (Report::Failed { attempt, .. }, _) if *attempt < known.attempt => Some(Reply::Repeated),
            (Report::Failed { attempt, .. }, None | Some(End::Failure(_))) if *attempt == known.attempt => {
                Some(Reply::Repeated)
            }
            (Report::Failed { .. }, Some(_)) => contradicts(step, known, "it cannot fail now"),
            (Report::Completed { attempt, .. } | Report::Failed { attempt, .. }, None) => {
                let is_next = *attempt == known.attempt + 1 && !self.state.is_open(step);
                let message = format!("attempt {attempt} of {step} is not the attempt that is due");
                (!is_next).then(|| Reply::refused("VALIDATION_ERROR", message))
            }
            // A publication that failed may be made again when the run is retried.
            (Report::Published { .. }, None) if !self.state.is_open(step) => None,
            // A call whose run was cancelled together with this run may be made again.
            (Report::Called { .. }, None) if !self.state.is_open(step) => None,
            _ => Some(Reply::Repeated),
        }
    }

    /// The approximate start of work that took this many microseconds.
    fn began(&self, took: u64) -> Timestamp {
        let took = i64::try_from(took).unwrap_or(i64::MAX);
        let began = Timestamp::from_micros(self.cx.now.micros().saturating_sub(took));
        began.max(self.state.started_at).min(self.cx.now)
    }

    /// Decides a step that publishes, at once.
    fn publish(&mut self, step: StepKey, publication: Publication) {
        let attempt = progress(self.state).step(&step).map_or(0, |step| step.attempt) + 1;
        let outcome = topics::publish(publication, (&step, attempt), self.state, self.cx.now);
        let outcome = outcome.and_then(|outcome| self.fit(&step, outcome));
        self.write(Event::StepDispatched { step: step.clone(), attempt, dispatch: Dispatch::Publish });
        self.write(match outcome {
            Ok(outcome) => Event::StepCompleted { step, attempt, outcome },
            Err(failure) => Event::failed(step, attempt, failure),
        });
    }

    fn step_failed(
        &mut self,
        step: StepKey,
        attempt: u32,
        failure: Failure,
        retry: &RetryPolicy,
        logs: Vec<String>,
        took: u64,
    ) {
        let failures = progress(self.state).step(&step).map_or(0, |step| step.failures) + 1;
        let is_tried_again = retry.retries(failures, &failure);
        let asked = u64::from(failure.retry_after_ms.unwrap_or(0)).min(retry.max_ms);
        let failure = Failure { retryable: is_tried_again, ..failure };
        let started_at = Some(self.began(took));
        self.write(Event::StepFailed { step: step.clone(), attempt, failure, logs, started_at });
        if is_tried_again {
            let seed = retry::seed(self.state.run.uuid().as_u128(), step.as_str(), attempt);
            let delay = retry.delay(failures, seed).max(Duration::from_millis(asked)).min(waits::farthest());
            let why = TimerPurpose::Retry;
            self.write(Event::TimerSet { step, attempt, due: self.cx.now.plus(delay), why });
        }
    }
}

fn describe(step: &Step) -> &'static str {
    match (step.kind, &step.end) {
        (StepKind::Run, None) => "a step that is being retried",
        (StepKind::Run, Some(End::Failure(_))) => "a step that failed",
        (StepKind::Run, Some(_)) => "a step that has completed",
        (StepKind::Sleep, _) => "a sleep",
        (StepKind::Wait, _) => "a wait",
        (StepKind::Call, _) => "a call",
        (StepKind::Publish, _) => "a publication",
    }
}

/// The error that a function threw, as the failure of its run.
fn thrown(failure: Failure) -> Failure {
    Failure { retryable: false, ..trim::failure(failure) }
}

/// Whether the output of a function is valid as the output of a run.
fn returned(output: &Payload) -> Result<(), Failure> {
    if output.size() > limits::PAYLOAD_BYTES {
        let message = format!("the output is {} bytes, more than {}", output.size(), limits::PAYLOAD_BYTES);
        return Err(Failure::fatal(code::PAYLOAD_TOO_LARGE, message));
    }
    payload::check(output.json()).map_err(|error| Failure::fatal(error.code(), format!("the output {error}")))
}
