//! Decides what follows from an input. The rules here are common to all styles.
//!
//! The core is level-triggered: an input is recorded as events, then [`settle`] derives from the state alone
//! everything that is ready, until nothing changes. So resume, reload, adoption and "conflict, decide again" are all
//! one call with [`Input::Settle`].
//!
//! 1. A result counts only for the open attempt of its step; any other is late and changes nothing.
//! 2. A failed attempt is retried as its policy says; a timer stands between.
//! 3. A crash is not a failure: a lost task is dispatched again under the next attempt, ten times at most.
//! 4. Paused: results and signals are recorded, due timers stay due, nothing is dispatched.
//! 5. An ended run changes no more, but for the retry of a failed one.
//! 6. A child's end counts as a result does; [`crate::child`] has the rules.
//! 7. A signal or control under a key that was accepted before is not done again; [`keys`] has the rules.

use std::sync::Arc;
use std::time::Duration;

use crate::contains::contains;
use crate::evaluate::Evaluate;
use crate::failure::{Failure, code};
use crate::graph::{self, Place};
use crate::ids::StepKey;
use crate::journal::{Dispatch, Entry, Event, Outcome};
use crate::limits;
use crate::payload::{self, Payload};
use crate::planted::{self, Bug};
use crate::retry;
use crate::run::Parent;
use crate::run::keys;
use crate::run::{Doing, Phase, State};
use crate::run::{Input, Reply};
use crate::time::Timestamp;
use crate::workflow::Workflow;

/// What was decided. The state has already taken it in.
#[derive(Debug)]
pub struct Decision {
    pub entries: Vec<Entry>,
    /// For each entry that settles a step: when that was dispatched.
    pub since: Vec<Option<Timestamp>>,
    pub reply: Reply,
    /// More is ready than one item takes: decide again with [`Input::Settle`].
    pub has_more: bool,
}

/// Records an input, then settles. Total: it returns for any state and any input.
/// A signal or control may have an idempotency key.
pub fn decide(
    workflow: &Workflow,
    state: &mut State,
    input: Input,
    key: Option<&str>,
    now: Timestamp,
    evaluate: &dyn Evaluate,
) -> Decision {
    let mut draft = Draft { workflow, state, now, evaluate, key: None, entries: Vec::new(), since: Vec::new() };
    let reply = draft.record_once(input, key);
    let has_more = draft.settle();
    Decision { entries: draft.entries, since: draft.since, reply, has_more }
}

/// Records an input and leaves what follows to whoever settles the run later.
pub fn record(
    workflow: &Workflow,
    state: &mut State,
    input: Input,
    now: Timestamp,
    evaluate: &dyn Evaluate,
) -> Vec<Entry> {
    let mut draft = Draft { workflow, state, now, evaluate, key: None, entries: Vec::new(), since: Vec::new() };
    draft.record(input);
    draft.entries
}

/// Derives what is ready from the state alone. Empty for every state that was settled before.
pub fn settle(workflow: &Workflow, state: &mut State, now: Timestamp, evaluate: &dyn Evaluate) -> Vec<Entry> {
    decide(workflow, state, Input::Settle, None, now, evaluate).entries
}

pub(crate) struct Draft<'a> {
    pub(crate) workflow: &'a Workflow,
    pub(crate) state: &'a mut State,
    pub(crate) now: Timestamp,
    pub(crate) evaluate: &'a dyn Evaluate,
    /// The key of the input, until the entry is written that keeps it.
    pub(crate) key: Option<Arc<str>>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) since: Vec<Option<Timestamp>>,
}

impl Draft<'_> {
    pub(crate) fn write(&mut self, event: Event) {
        self.append(event, None);
    }

    /// Writes the entry by which a signal or control is accepted.
    pub(crate) fn accept(&mut self, event: Event) -> Reply {
        let key = self.key.take();
        self.append(event, key);
        Reply::Accepted
    }

    pub(crate) fn append(&mut self, event: Event, key: Option<Arc<str>>) {
        // Time does not go back within a journal.
        let at = self.now.max(self.state.updated_at);
        let entry = Entry { seq: self.state.seq + 1, at, event, key };
        let since = self.state.apply(self.workflow, &entry).expect("what is decided from a state fits it");
        self.entries.push(entry);
        self.since.push(since);
    }

    /// Records an input unless its key was seen before.
    pub(crate) fn record_once(&mut self, input: Input, key: Option<&str>) -> Reply {
        if let Some(key) = key {
            if let Some(reply) = keys::answer(self.state, &input, key) {
                return reply;
            }
            self.key = Some(key.into());
        }
        self.record(input)
    }

    pub(crate) fn record(&mut self, input: Input) -> Reply {
        match input {
            Input::Settle => Reply::Accepted,
            Input::Start { input, parent } => self.start(input, parent),
            Input::Result { step, attempt, result, logs } => self.result(step, attempt, result, logs),
            Input::TaskLost { step, attempt } => self.task_lost(step, attempt),
            Input::Timer { step, attempt } => self.timer(&step, attempt),
            Input::ChildEnded { step, attempt, child, result } => self.child_ended(step, attempt, child, result),
            Input::ChildStarted { step, attempt, child } => self.child_started(step, attempt, child),
            Input::Signal { event, payload } => self.signal(&event, payload, false),
            Input::BufferedSignal { event, payload } => self.signal(&event, payload, true),
            Input::BeginTurn { worker } => self.begin_turn(worker),
            Input::LoseTurn { turn } => self.lose_turn(turn),
            Input::Report { turn, report } => self.report(turn, *report),
            Input::SetContext { values } => self.set_context(values),
            Input::Pause { reason } => self.pause(reason),
            Input::Resume => self.resume(),
            Input::Cancel { reason } => self.cancel(reason),
            Input::Retry => self.retry(),
            Input::Fail { failure } => self.fail(failure),
        }
    }

    pub(crate) fn start(&mut self, input: Payload, parent: Option<Parent>) -> Reply {
        if self.state.phase != Phase::Pending {
            return Reply::ignored("the run was started before");
        }
        let definition =
            self.workflow.is_unpublished.then(|| Payload::from(self.workflow.graph().definition().clone()));
        self.write(Event::RunStarted { input, parent, definition });
        Reply::Accepted
    }

    pub(crate) fn result(
        &mut self,
        step: StepKey,
        attempt: u32,
        result: Result<Outcome, Failure>,
        logs: Vec<String>,
    ) -> Reply {
        let is_over = self.state.has_ended()
            && !(self.state.phase == Phase::Cancelled && planted::is_planted(Bug::LateResultAfterCancel));
        if is_over || !self.state.has_open_task(&step, attempt) {
            return Reply::ignored("the result is late");
        }
        let result = result.and_then(|outcome| self.check(&step, outcome));
        let event = match result {
            Ok(outcome) => Event::StepCompleted { step, attempt, outcome: Outcome { logs, ..outcome } },
            Err(failure) => Event::StepFailed { step, attempt, failure, logs, started_at: None },
        };
        self.write(event);
        Reply::Accepted
    }

    /// Refuses a result that cannot be read back, or leaves by a handle that its node does not have.
    pub(crate) fn check(&self, step: &StepKey, outcome: Outcome) -> Result<Outcome, Failure> {
        let outcome = self.fit(step, outcome)?;
        check_output(step, &outcome.output)?;
        if self.workflow.is_code() {
            return Ok(outcome);
        }
        let graph = self.workflow.graph();
        let handles = Place::find(graph, step).map_or(&[][..], |place| &graph.node(place.node).handles);
        if let Some(handle) = outcome.handle.as_ref().filter(|handle| !handles.contains(handle)) {
            return Err(Failure::fatal(
                code::UNKNOWN_HANDLE,
                format!("{step} has no handle {handle:?}; one of {}", handles.join(", ")),
            ));
        }
        Ok(outcome)
    }

    /// Refuses an output that is over a limit.
    pub(crate) fn fit(&self, step: &StepKey, outcome: Outcome) -> Result<Outcome, Failure> {
        let size = outcome.output.size();
        if size > limits::PAYLOAD_BYTES {
            return Err(Failure::fatal(
                code::PAYLOAD_TOO_LARGE,
                format!("the output of {step} is {size} bytes, more than {}", limits::PAYLOAD_BYTES),
            ));
        }
        if self.state.weight() + size > limits::STATE_BYTES {
            return Err(Failure::fatal(
                code::CONTEXT_TOO_LARGE,
                format!("with the output of {step} the run's outputs exceed {} bytes", limits::STATE_BYTES),
            ));
        }
        if self.state.context_bytes() + size > limits::CONTEXT_BYTES {
            return Err(Failure::fatal(
                code::CONTEXT_TOO_LARGE,
                format!("with the output of {step} the context exceeds {} bytes", limits::CONTEXT_BYTES),
            ));
        }
        Ok(outcome)
    }

    pub(crate) fn task_lost(&mut self, step: StepKey, attempt: u32) -> Reply {
        if self.state.phase != Phase::Live || !self.state.has_open_task(&step, attempt) {
            return Reply::ignored("the task is not open");
        }
        let crashes = self.state.open.get(&step).map_or(0, |open| open.crashes);
        if crashes + 1 >= limits::CRASHES {
            let failure = Failure::fatal(
                code::CRASH_LOOP,
                format!("{step} was dispatched {} times in a row without any result", limits::CRASHES),
            );
            self.write(Event::failed(step, attempt, failure));
            return Reply::Accepted;
        }
        let attempt = if planted::is_planted(Bug::AttemptReused) { attempt } else { attempt + 1 };
        self.write(Event::StepDispatched { step, attempt, dispatch: Dispatch::Task });
        Reply::Accepted
    }

    pub(crate) fn timer(&mut self, step: &StepKey, attempt: u32) -> Reply {
        if self.state.phase != Phase::Live {
            return Reply::ignored("the run is not running");
        }
        let Some(open) = self.state.open.get(step) else { return Reply::ignored("the timer is gone") };
        if open.attempt != attempt || open.timer.is_none_or(|due| due > self.now) {
            return Reply::ignored("the timer is not due");
        }
        let step = step.clone();
        if self.workflow.is_code() {
            let doing = open.doing.clone();
            return self.code_timer(step, attempt, &doing);
        }
        let event = match &open.doing {
            Doing::Delay => Event::StepCompleted { step, attempt, outcome: Outcome::default() },
            Doing::Wait { .. } => {
                let outcome = Outcome::of(serde_json::json!({"timeout": true})).by("timeout");
                Event::StepCompleted { step, attempt, outcome }
            }
            Doing::Child(child) => {
                let message = format!("child run {} did not end in time", child.run);
                let failure = Failure::transient(code::STEP_TIMEOUT, message);
                Event::failed(step, attempt, failure)
            }
            Doing::Body | Doing::Backoff => Event::TimerFired { step, attempt },
            Doing::Task | Doing::Instant | Doing::Failed | Doing::Again => {
                return Reply::ignored("the step has no timer");
            }
        };
        self.write(event);
        Reply::Accepted
    }

    /// A signal for a wait. Where there is none, it is kept or dropped.
    pub(crate) fn signal(&mut self, event: &str, payload: Payload, keeps: bool) -> Reply {
        if self.state.has_ended() {
            return self.refuse("RUN_ENDED", "takes no signals");
        }
        if payload.size() > limits::PAYLOAD_BYTES {
            let message = format!("a signal carries at most {} bytes", limits::PAYLOAD_BYTES);
            return Reply::refused("PAYLOAD_TOO_LARGE", message);
        }
        if let Err(unfit) = payload::check(payload.json()) {
            return Reply::refused(unfit.refusal(), format!("the signal {unfit}"));
        }
        // A timeout that is due came first.
        for (step, attempt) in self.state.due(self.now) {
            self.timer(&step, attempt);
        }
        if self.workflow.is_code() {
            return self.code_signal(event, payload, keeps);
        }
        if keeps {
            return Reply::refused("VALIDATION_ERROR", "only runs of code workflows keep signals");
        }
        let waiter = self.state.open.iter().find_map(|(step, open)| match &open.doing {
            // A wait that asks for nothing takes whatever comes, be it an object or not.
            Doing::Wait { event: awaited, pattern }
                if awaited == event && (pattern.json() == "{}" || contains(payload.value(), pattern.value())) =>
            {
                Some((step.clone(), open.attempt))
            }
            _ => None,
        });
        let Some((step, attempt)) = waiter else { return Reply::ignored("nothing waits for this signal") };
        let outcome = match self.answer(&step, payload) {
            Ok(outcome) => outcome,
            Err(refusal) => return refusal,
        };
        match self.fit(&step, outcome) {
            Ok(outcome) => self.accept(Event::StepCompleted { step, attempt, outcome }),
            Err(failure) => self.accept(Event::failed(step, attempt, failure)),
        }
    }

    /// What a signal means to the step that waited for it: an approval may be refused.
    pub(crate) fn answer(&self, step: &StepKey, payload: Payload) -> Result<Outcome, Reply> {
        let graph = self.workflow.graph();
        let kind = Place::find(graph, step).map(|place| &graph.node(place.node).kind);
        if !matches!(kind, Some(graph::Kind::Wait { is_approval: true, .. })) {
            return Ok(Outcome::of(payload));
        }
        match payload.value().get("approved").and_then(serde_json::Value::as_bool) {
            Some(true) => Ok(Outcome::of(payload)),
            Some(false) => Ok(Outcome::of(payload).by("rejected")),
            None => {
                let message = "an approval is answered with {\"approved\": true} or {\"approved\": false}";
                Err(Reply::refused("VALIDATION_ERROR", message.to_owned()))
            }
        }
    }

    pub(crate) fn set_context(&mut self, values: Payload) -> Reply {
        if self.state.has_ended() {
            return self.refuse("RUN_ENDED", "changes no more");
        }
        if self.state.phase == Phase::Pending {
            return self.refuse("INVALID_TRANSITION", "has no context yet");
        }
        if self.workflow.is_code() {
            return Reply::refused("VALIDATION_ERROR", "a run of a code workflow has no context: send it a signal");
        }
        if let Err(unfit) = payload::check(values.json()) {
            return Reply::refused(unfit.refusal(), format!("what is to be set {unfit}"));
        }
        if !values.value().is_object() {
            return Reply::refused("VALIDATION_ERROR", "expected an object of variables");
        }
        if values.value().get("input").is_some() {
            return Reply::refused("VALIDATION_ERROR", "`input` is what the run was given");
        }
        if self.state.context_bytes() + values.size() > limits::CONTEXT_BYTES || values.size() > limits::PAYLOAD_BYTES {
            return Reply::refused("CONTEXT_TOO_LARGE", "the context would exceed its limit");
        }
        self.accept(Event::ContextSet { values })
    }

    pub(crate) fn pause(&mut self, reason: Option<Failure>) -> Reply {
        match self.state.phase {
            Phase::Live => self.accept(Event::RunPaused { reason }),
            Phase::Paused => Reply::ignored("the run is paused"),
            Phase::Pending | Phase::Completed | Phase::Failed | Phase::Cancelled => {
                self.refuse("INVALID_TRANSITION", "cannot be paused")
            }
        }
    }

    pub(crate) fn resume(&mut self) -> Reply {
        if self.state.phase != Phase::Paused {
            return self.refuse("INVALID_TRANSITION", "is not paused");
        }
        self.accept(Event::RunResumed)
    }

    pub(crate) fn cancel(&mut self, reason: Option<String>) -> Reply {
        match self.state.phase {
            Phase::Live | Phase::Paused => self.accept(Event::RunCancelled { reason }),
            Phase::Cancelled => Reply::ignored("the run is cancelled"),
            Phase::Pending | Phase::Completed | Phase::Failed => {
                self.refuse("INVALID_TRANSITION", "cannot be cancelled")
            }
        }
    }

    pub(crate) fn retry(&mut self) -> Reply {
        if self.state.phase != Phase::Failed {
            return self.refuse("INVALID_TRANSITION", "has not failed");
        }
        if self.state.failed.is_empty() && !self.workflow.is_code() {
            return self.refuse("NOTHING_TO_RETRY", "has no failed step: start a new run");
        }
        self.accept(Event::RunRetried)
    }

    pub(crate) fn fail(&mut self, failure: Failure) -> Reply {
        if !matches!(self.state.phase, Phase::Live | Phase::Paused) {
            return self.refuse("INVALID_TRANSITION", "is not running");
        }
        self.write(Event::RunFailed { failure, step: None });
        Reply::Accepted
    }

    pub(crate) fn refuse(&self, code: &'static str, what: &str) -> Reply {
        Reply::refused(code, format!("run {} is {} and {what}", self.state.run, self.state.status()))
    }

    /// Writes what is ready until nothing is, or the item is full. Says whether more is ready.
    pub(crate) fn settle(&mut self) -> bool {
        while self.state.phase == Phase::Live {
            if self.entries.len() >= limits::EVENTS_PER_DECISION {
                return true;
            }
            if self.state.seq + limits::EVENTS_PER_DECISION as u64 >= limits::JOURNAL_ENTRIES {
                let message = format!("the journal reached {} entries", limits::JOURNAL_ENTRIES);
                self.write(Event::RunFailed { failure: Failure::fatal(code::JOURNAL_TOO_LONG, message), step: None });
                break;
            }
            let events = match self.state.todo.first().cloned() {
                Some(step) if self.workflow.is_code() => self.code_again(step),
                None if self.workflow.is_code() => Vec::new(),
                Some(step) if self.state.graph.doom.is_none() => self.again(step),
                _ => graph::next::next(self.workflow, self.state, self.now, self.evaluate),
            };
            if events.is_empty() {
                break;
            }
            for event in events {
                let event = self.limit(event);
                self.write(event);
            }
        }
        false
    }

    /// Sets the timer of a failed attempt, or dispatches a step again.
    pub(crate) fn again(&self, step: StepKey) -> Vec<Event> {
        let open = &self.state.open[&step];
        let attempt = open.attempt;
        let place = Place::find(self.workflow.graph(), &step).expect("open steps are part of the workflow");
        if open.doing != Doing::Failed {
            return graph::next::begin(self.workflow, self.state, &place, attempt + 1, self.now, self.evaluate);
        }
        let seed = retry::seed(self.state.run.uuid().as_u128(), step.as_str(), attempt);
        let policy = self.state.policy(self.workflow, &place);
        let asked = u64::from(open.retry_after_ms.unwrap_or(0)).min(policy.max_ms);
        let delay = policy.delay(open.failures, seed).max(Duration::from_millis(asked));
        vec![Event::TimerSet { step, attempt, due: self.now.plus(delay) }]
    }

    /// What the core itself makes is bounded as results are.
    pub(crate) fn limit(&self, event: Event) -> Event {
        match event {
            Event::StepCompleted { step, attempt, outcome } => match self.fit(&step, outcome) {
                Ok(outcome) => Event::StepCompleted { step, attempt, outcome },
                Err(failure) => Event::failed(step, attempt, failure),
            },
            event => event,
        }
    }
}

/// Refuses an output that nobody could read back.
pub(crate) fn check_output(step: &StepKey, output: &Payload) -> Result<(), Failure> {
    payload::check(output.json()).map_err(|unfit| Failure::fatal(unfit.code(), format!("the output of {step} {unfit}")))
}
