//! What the worker that has a run's turn says, and what becomes of it.
//!
//! 1. A report counts only for the last turn; one of an older turn is fenced.
//! 2. The same report again changes nothing and is accepted again; another for a step that came to its end is refused.
//! 3. A step is one entry, written when it is over. A failed attempt is tried again as its policy says.
//! 4. The function's return or throw ends the run.
//! 5. A turn that was lost is no failure: another follows, ten times in a row at most.

use std::time::Duration;

use super::Draft;
use crate::child::Child;
use crate::code::{End, Step};
use crate::event::{Dispatch, Event, Outcome, Resolution};
use crate::failure::{Failure, code};
use crate::ids::StepKey;
use crate::input::Reply;
use crate::limits;
use crate::payload::{self, Payload};
use crate::retry::{self, RetryPolicy};
use crate::state::{Doing, Phase};
use crate::time::Timestamp;
use crate::turn::{Moment, Report, StepKind};

impl Draft<'_> {
    pub(super) fn begin_turn(&mut self, worker: String) -> Reply {
        if self.state.phase != Phase::Live || !self.workflow.is_code() {
            return Reply::ignored("the run needs no worker");
        }
        self.write(Event::TurnStarted { turn: self.state.code.turn + 1, worker });
        Reply::Accepted
    }

    pub(super) fn lose_turn(&mut self, turn: u32) -> Reply {
        if self.state.phase != Phase::Live || turn != self.state.code.turn {
            return Reply::ignored("the turn is over");
        }
        self.write(Event::TurnLost { turn });
        if self.state.code.losses >= limits::LOST_TURNS {
            let message = format!("{} workers in a row were lost without any progress", limits::LOST_TURNS);
            self.write(Event::RunFailed { failure: Failure::fatal(code::WORKER_LOST, message), step: None });
        }
        Reply::Accepted
    }

    pub(super) fn report(&mut self, turn: u32, report: Report) -> Reply {
        if turn != self.state.code.turn {
            let last = self.state.code.turn;
            return Reply::refused("FENCED", format!("turn {turn} is over: the run's last turn is {last}"));
        }
        if let Some(reply) = self.known(&report) {
            return reply;
        }
        if self.state.has_ended() {
            return self.refuse("RUN_ENDED", "takes no results");
        }
        let is_result = matches!(report, Report::Completed { .. } | Report::Failed { .. });
        if self.state.phase != Phase::Live && !is_result {
            return self.refuse("FENCED", "is not gone on with");
        }
        match report {
            Report::Completed { step, attempt, output, logs, took } => {
                let outcome = Outcome { logs, started_at: Some(self.began(took)), ..Outcome::of(output) };
                let event = match self.bound(&step, outcome) {
                    Ok(outcome) => Event::StepCompleted { step, attempt, outcome },
                    Err(failure) => Event::StepFailed { step, attempt, failure, logs: Vec::new() },
                };
                self.write(event);
            }
            Report::Failed { step, attempt, failure, retry, logs, took: _ } => {
                self.step_failed(step, attempt, failure, &retry, logs);
            }
            Report::Slept { step, until } => {
                let due = match until {
                    Moment::After(millis) => self.now.plus(bounded(millis)),
                    Moment::At(time) => time.min(self.now.plus(farthest())),
                };
                self.write(Event::TimerSet { step, attempt: 1, due });
            }
            Report::Waited { step, event, pattern, timeout_ms } => self.wait(step, event, pattern, timeout_ms),
            Report::Called { step, workflow, version, input, timeout_ms } => {
                self.call(step, workflow, version, input, timeout_ms);
            }
            Report::Returned { output } => self.write(match returned(&output) {
                Ok(()) => Event::RunCompleted { output },
                Err(failure) => Event::RunFailed { failure, step: None },
            }),
            Report::Threw { failure, step } => {
                let attempts = step.as_ref().and_then(|step| self.state.code.step(step)).map(|step| step.attempt);
                let failure = Failure { retryable: false, step: step.clone(), attempts, ..failure };
                self.write(Event::RunFailed { failure, step });
            }
            Report::Diverged { failure } => {
                let reason = Failure { code: code::NONDETERMINISTIC.to_owned(), retryable: false, ..failure };
                self.write(Event::RunPaused { reason: Some(reason) });
            }
            // What these mean for the run is for whoever has it in memory.
            Report::Blocked { .. } | Report::Declined { .. } => {}
        }
        Reply::Accepted
    }

    /// The answer to a report that the journal knows already, or that contradicts it.
    fn known(&self, report: &Report) -> Option<Reply> {
        let contradicts = |step: &StepKey, known: &Step, what: &str| {
            let message = format!("the journal knows {step} as {}: {what}", describe(known));
            Some(Reply::refused(code::NONDETERMINISTIC, message))
        };
        let (step, kind) = match report {
            Report::Completed { step, .. } | Report::Failed { step, .. } => (step, StepKind::Run),
            Report::Slept { step, .. } => (step, StepKind::Sleep),
            Report::Waited { step, .. } => (step, StepKind::Wait),
            Report::Called { step, .. } => (step, StepKind::Call),
            Report::Returned { output } => {
                let is_same = self.state.phase == Phase::Completed && self.state.output.as_ref() == Some(output);
                return is_same.then_some(Reply::Repeated);
            }
            Report::Threw { .. } => return (self.state.phase == Phase::Failed).then_some(Reply::Repeated),
            Report::Diverged { .. } => return (self.state.phase == Phase::Paused).then_some(Reply::Repeated),
            Report::Blocked { .. } | Report::Declined { .. } => return None,
        };
        let Some(known) = self.state.code.step(step) else {
            let attempt = match report {
                Report::Completed { attempt, .. } | Report::Failed { attempt, .. } => *attempt,
                _ => 1,
            };
            let message = format!("{step} begins with attempt 1, not {attempt}");
            return (attempt != 1).then(|| Reply::refused("VALIDATION_ERROR", message));
        };
        if known.kind != kind {
            return contradicts(step, known, "the function takes it for something else");
        }
        match (report, &known.end) {
            (Report::Completed { output, .. }, Some(End::Output(given))) if given == output => Some(Reply::Repeated),
            (Report::Completed { attempt, .. }, Some(_)) => {
                // An output that was too large was kept as a failure.
                let is_same = *attempt == known.attempt && matches!(known.end, Some(End::Failure(_)));
                if is_same { Some(Reply::Repeated) } else { contradicts(step, known, "it gave something else") }
            }
            (Report::Failed { attempt, .. }, None | Some(End::Failure(_))) if *attempt <= known.attempt => {
                Some(Reply::Repeated)
            }
            (Report::Failed { .. }, Some(_)) => contradicts(step, known, "it cannot fail now"),
            (Report::Completed { attempt, .. } | Report::Failed { attempt, .. }, None) => {
                let is_next = *attempt == known.attempt + 1 && !self.state.is_open(step);
                let message = format!("attempt {attempt} of {step} is not the one that is to be tried");
                (!is_next).then(|| Reply::refused("VALIDATION_ERROR", message))
            }
            // A call whose run was cancelled with ours may be made again.
            (Report::Called { .. }, None) if !self.state.is_open(step) => None,
            _ => Some(Reply::Repeated),
        }
    }

    /// When something began that took so many microseconds, as far as can be.
    fn began(&self, took: u64) -> Timestamp {
        let took = i64::try_from(took).unwrap_or(i64::MAX);
        let began = Timestamp::from_micros(self.now.micros().saturating_sub(took));
        began.max(self.state.started_at).min(self.now)
    }

    /// Refuses an output that is over a limit.
    fn bound(&self, step: &StepKey, outcome: Outcome) -> Result<Outcome, Failure> {
        let outcome = self.fit(step, outcome)?;
        if payload::depth(outcome.output.json()) > limits::JSON_DEPTH {
            let message = format!("the output of {step} is nested deeper than {} levels", limits::JSON_DEPTH);
            return Err(Failure::fatal(code::PAYLOAD_TOO_DEEP, message));
        }
        Ok(outcome)
    }

    fn step_failed(&mut self, step: StepKey, attempt: u32, failure: Failure, retry: &RetryPolicy, logs: Vec<String>) {
        let failures = self.state.code.step(&step).map_or(0, |step| step.failures) + 1;
        let is_tried_again = retry.retries(failures, &failure);
        let asked = u64::from(failure.retry_after_ms.unwrap_or(0)).min(retry.max_ms);
        let failure = Failure { retryable: is_tried_again, ..failure };
        self.write(Event::StepFailed { step: step.clone(), attempt, failure, logs });
        if is_tried_again {
            let seed = retry::seed(self.state.run.uuid().as_u128(), step.as_str(), attempt);
            let delay = retry.delay(failures, seed).max(Duration::from_millis(asked));
            self.write(Event::TimerSet { step, attempt, due: self.now.plus(delay) });
        }
    }

    fn wait(&mut self, step: StepKey, event: Option<String>, pattern: Payload, timeout_ms: Option<u64>) {
        let due = timeout_ms.map(|millis| self.now.plus(bounded(millis)));
        let name = event.clone().unwrap_or_else(|| step.to_string());
        let kept = self.state.code.find_buffered(&name, &pattern, self.now);
        let kept = kept.map(|kept| (kept.seq, kept.payload.clone()));
        self.write(Event::WaitOpened { step: step.clone(), attempt: 1, event, pattern, due });
        if let Some((seq, payload)) = kept {
            let by = Resolution::Signal { event: name, payload, buffered: Some(seq) };
            self.write(Event::WaitResolved { step, attempt: 1, by });
        }
    }

    fn call(&mut self, step: StepKey, workflow: String, version: Option<u32>, input: Payload, timeout_ms: Option<u64>) {
        let attempt = self.state.code.step(&step).map_or(0, |step| step.attempt) + 1;
        let child = Child {
            run: Child::id(self.state.run, &step, attempt, self.now),
            workflow,
            version,
            input,
            waits: true,
            due: timeout_ms.map(|millis| self.now.plus(bounded(millis))),
        };
        let refusal = self.refuse_call(&step, &child);
        let dispatch = Dispatch::Child(child.into());
        self.write(Event::StepDispatched { step: step.clone(), attempt, dispatch });
        if let Some(failure) = refusal {
            self.write(Event::StepFailed { step, attempt, failure, logs: Vec::new() });
        }
    }

    /// Why a run may not be called.
    fn refuse_call(&self, step: &StepKey, child: &Child) -> Option<Failure> {
        if self.state.depth() + 1 > limits::CHILD_DEPTH {
            let message = format!("{step}: a run has at most {} runs above it", limits::CHILD_DEPTH);
            return Some(Failure::fatal(code::TOO_DEEP, message));
        }
        if child.input.size() > limits::PAYLOAD_BYTES {
            let message = format!("the input of {step} has more than {} bytes", limits::PAYLOAD_BYTES);
            return Some(Failure::fatal(code::PAYLOAD_TOO_LARGE, message));
        }
        None
    }

    /// A timer of a code workflow has come.
    pub(super) fn code_timer(&mut self, step: StepKey, attempt: u32, doing: &Doing) -> Reply {
        let event = match doing {
            Doing::Delay | Doing::Backoff => Event::TimerFired { step, attempt },
            Doing::Wait { .. } => Event::WaitResolved { step, attempt, by: Resolution::Timeout },
            Doing::Child(child) => {
                let message = format!("run {} did not end in time", child.run);
                let failure = Failure::fatal(code::STEP_TIMEOUT, message);
                Event::StepFailed { step, attempt, failure, logs: Vec::new() }
            }
            Doing::Body | Doing::Task | Doing::Instant | Doing::Failed | Doing::Again => {
                return Reply::ignored("the step has no timer");
            }
        };
        self.write(event);
        Reply::Accepted
    }

    /// A signal for a code workflow: the wait that was opened first takes it.
    pub(super) fn code_signal(&mut self, event: &str, payload: Payload, keeps: bool) -> Reply {
        let fits = |step: &StepKey| match &self.state.open[step].doing {
            Doing::Wait { event: awaited, pattern } => awaited == event && crate::code::matches(&payload, pattern),
            _ => false,
        };
        let fitting = self.state.open.keys().filter(|step| fits(step));
        let first = fitting.min_by_key(|step| self.state.code.step(step).map_or(0, |step| step.seq)).cloned();
        if self.state.context_bytes() + payload.size() > limits::CONTEXT_BYTES {
            let message = format!("the run would hold more than {} bytes", limits::CONTEXT_BYTES);
            return Reply::refused(code::CONTEXT_TOO_LARGE, message);
        }
        if let Some(step) = first {
            let attempt = self.state.open[&step].attempt;
            let by = Resolution::Signal { event: event.to_owned(), payload, buffered: None };
            return self.accept(Event::WaitResolved { step, attempt, by });
        }
        if !keeps {
            return Reply::ignored("nothing waits for this signal");
        }
        if self.state.code.buffered.len() >= limits::BUFFERED_SIGNALS {
            let message = format!("the run keeps {} signals already", limits::BUFFERED_SIGNALS);
            return Reply::refused("TOO_MANY_SIGNALS", message);
        }
        let until = self.now.plus(Duration::from_secs(limits::BUFFERED_DAYS * 86_400));
        self.accept(Event::SignalBuffered { event: event.to_owned(), payload, until });
        Reply::Buffered
    }

    /// What follows without any news: a call that a fork takes over from its original is made again.
    pub(super) fn code_again(&self, step: StepKey) -> Vec<Event> {
        let open = &self.state.open[&step];
        let Doing::Child(child) = &open.doing else { return Vec::new() };
        let attempt = open.attempt + 1;
        let child = Child { run: Child::id(self.state.run, &step, attempt, self.now), ..Child::clone(child) };
        vec![Event::StepDispatched { step, attempt, dispatch: Dispatch::Child(child.into()) }]
    }
}

fn describe(step: &Step) -> &'static str {
    match (step.kind, &step.end) {
        (StepKind::Run, None) => "a step that is tried again",
        (StepKind::Run, Some(End::Failure(_))) => "a step that failed",
        (StepKind::Run, Some(_)) => "a step that is done",
        (StepKind::Sleep, _) => "a sleep",
        (StepKind::Wait, _) => "a wait",
        (StepKind::Call, _) => "a call",
    }
}

/// Whether a function's output can be a run's.
fn returned(output: &Payload) -> Result<(), Failure> {
    if output.size() > limits::PAYLOAD_BYTES {
        let message = format!("the output is {} bytes, more than {}", output.size(), limits::PAYLOAD_BYTES);
        return Err(Failure::fatal(code::PAYLOAD_TOO_LARGE, message));
    }
    if payload::depth(output.json()) > limits::JSON_DEPTH {
        let message = format!("the output is nested deeper than {} levels", limits::JSON_DEPTH);
        return Err(Failure::fatal(code::PAYLOAD_TOO_DEEP, message));
    }
    Ok(())
}

fn farthest() -> Duration {
    Duration::from_secs(limits::FARTHEST_DAYS * 86_400)
}

fn bounded(millis: u64) -> Duration {
    Duration::from_millis(millis).min(farthest())
}
