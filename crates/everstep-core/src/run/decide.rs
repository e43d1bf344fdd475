//! Decides which entries follow from an input. The rules here are common to all styles.
//!
//! The core is level-triggered: an input is recorded as events, then [`settle`] derives everything that is ready from
//! the state alone, until nothing changes. Therefore resume, reload, a change of owner and a new decision after a
//! conflict are all one call with [`Input::Settle`].
//!
//! 1. A result counts only for the open attempt of its step; any other result is late and changes nothing.
//! 2. A failed attempt is retried according to its policy, after a timer.
//! 3. A crash is not a failure: a lost task is dispatched again under the next attempt, at most ten times.
//! 4. While a run is paused, results and signals are recorded, due timers stay due, and nothing is dispatched.
//! 5. An ended run does not change, except that a failed one may be retried.
//! 6. The end of a child counts as a result; `run/child.rs` has the rules.
//! 7. A signal or control whose key was accepted before is not recorded again; [`keys`] has the rules.
//! 8. A published event resolves every open wait of the run that names its topic and that it matches; a signal resolves
//!    one.
//! 9. After a request to a machine, the answer contains the transitions that the machine performed because of it in the
//!    same item. The entries of an item have one time. If the item ends before all of them, the rest is written at a later
//!    time, so that the fold of the journal knows which transitions the caller has been answered with.
//! 10. The run's style determines which steps are ready, and the effect of a timer, a signal, an event or a report
//!     ([`crate::style`]).

use std::sync::Arc;
use std::time::Duration;

use super::keys;
use super::{Cx, Input, Phase, Reply, State};
use crate::failure::{Failure, code};
use crate::ids::StepKey;
use crate::journal::{Delivery, Dispatch, Entry, Event, Outcome};
use crate::limits;
use crate::payload::{self, Payload};
use crate::planted::{self, Bug};
use crate::style;
use crate::time::Timestamp;
use crate::topics::EventRef;
use crate::workflow::Workflow;

/// The result of a decision. The state already contains it.
#[derive(Debug)]
pub struct Decision {
    pub entries: Vec<Entry>,
    /// For each entry, the step that it settles.
    pub settled: Vec<SettledStep>,
    pub reply: Reply,
    /// The item is full, or the decision has used its fuel, and more may be ready: decide again with [`Input::Settle`].
    pub has_more: bool,
}

/// The facts about the step of an entry that only the state before the entry contains.
#[derive(Clone, Debug, Default)]
pub struct SettledStep {
    /// When the step was dispatched, if the entry settles it.
    pub since: Option<Timestamp>,
    /// The delivery that the step performs.
    pub delivery: Option<Arc<Delivery>>,
}

/// Records an input, then settles. Total: it returns for any state and any input.
/// A signal or control may have an idempotency key.
pub fn decide(workflow: &Workflow, state: &mut State, input: Input, key: Option<&str>, cx: Cx<'_>) -> Decision {
    let cx = after_answer(state, &input, cx);
    let mut draft = Draft::new(workflow, state, cx);
    let reply = draft.record_once(input, key);
    let has_more = draft.settle();
    let reply = draft.complete(reply);
    Decision { entries: draft.entries, settled: draft.settled, reply, has_more }
}

/// The context of the rest of a decision: its time is later than that of a request whose answer was given (rule 9).
fn after_answer<'a>(state: &State, input: &Input, cx: Cx<'a>) -> Cx<'a> {
    if !matches!(input, Input::Settle) || !state.progress.has_open_answer() {
        return cx;
    }
    Cx { now: cx.now.max(state.updated_at.plus(Duration::from_micros(1))), ..cx }
}

/// Records an input. Its consequences are decided when the run is settled later.
pub fn record(workflow: &Workflow, state: &mut State, input: Input, cx: Cx<'_>) -> Vec<Entry> {
    let mut draft = Draft::new(workflow, state, cx);
    draft.record(input);
    draft.entries
}

/// Derives everything that is ready from the state alone. Empty for a state that was settled before.
pub fn settle(workflow: &Workflow, state: &mut State, cx: Cx<'_>) -> Vec<Entry> {
    decide(workflow, state, Input::Settle, None, cx).entries
}

/// The entries of most decisions: a step is completed, and the next one is dispatched.
const ENTRIES_USUAL: usize = 2;

/// A decision in progress.
pub(crate) struct Draft<'a> {
    pub(crate) workflow: &'a Workflow,
    pub(crate) state: &'a mut State,
    pub(crate) cx: Cx<'a>,
    /// The key of the input, until the entry that records it is written.
    key: Option<Arc<str>>,
    entries: Vec<Entry>,
    settled: Vec<SettledStep>,
}

impl<'a> Draft<'a> {
    fn new(workflow: &'a Workflow, state: &'a mut State, cx: Cx<'a>) -> Self {
        let (entries, settled) = (Vec::with_capacity(ENTRIES_USUAL), Vec::with_capacity(ENTRIES_USUAL));
        Self { workflow, state, cx, key: None, entries, settled }
    }
}

impl Draft<'_> {
    pub(crate) fn write(&mut self, event: Event) {
        self.append(event, None);
    }

    /// Writes the entry that accepts a signal or control.
    pub(crate) fn accept(&mut self, event: Event) -> Reply {
        let key = self.key.take();
        self.append(event, key);
        Reply::Accepted
    }

    fn append(&mut self, event: Event, key: Option<Arc<str>>) {
        // The times of a journal never decrease.
        let at = self.cx.now.max(self.state.updated_at);
        let entry = Entry { seq: self.state.seq + 1, at, event, key };
        let delivery = entry.event.step().and_then(|(step, _)| self.state.delivery_of(step));
        let since =
            self.state.apply(self.workflow, &entry).expect("a decision fits the state that it was derived from");
        self.entries.push(entry);
        self.settled.push(SettledStep { since, delivery });
    }

    /// Records an input unless its key was accepted before.
    fn record_once(&mut self, input: Input, key: Option<&str>) -> Reply {
        let own_key = input.own_key();
        if let Some(key) = own_key.as_deref().or(key) {
            let known = keys::answer(self.state, &input, key, self.cx.now);
            if let Some(reply) = known.filter(|_| !self.is_refused_early(&input)) {
                return reply;
            }
            self.key = Some(key.into());
        }
        self.record(input)
    }

    /// The planted bug: a request whose version is stale is not compared with earlier ones.
    fn is_refused_early(&self, input: &Input) -> bool {
        let version_no = self.state.place_of_machine().map(|(_, version_no)| version_no);
        planted::is_planted(Bug::VersionCheckedBeforeKey)
            && matches!(input, Input::Transition(act) if act.version.is_some() && act.version != version_no)
    }

    fn record(&mut self, input: Input) -> Reply {
        self.cx.meter.begin_part();
        match input {
            Input::Settle => Reply::Accepted,
            Input::Start { input, cause } => self.start(input, cause),
            Input::Result { step, attempt, result, logs } => self.result(step, attempt, result, logs),
            Input::TaskLost { step, attempt } => self.task_lost(step, attempt),
            Input::Timer { step, attempt } => self.timer(&step, attempt),
            Input::ChildEnded { step, attempt, child, result } => self.child_ended(step, attempt, child, result),
            Input::ChildStarted { step, attempt, child } => self.child_started(step, attempt, child),
            Input::Signal { event, payload } => self.signal(&event, payload, false),
            Input::BufferedSignal { event, payload } => self.signal(&event, payload, true),
            Input::Event { event, data } => self.event(&event, &data),
            Input::BeginTurn { worker } => style::on_turn_begun(self, worker),
            Input::LoseTurn { turn } => style::on_turn_lost(self, turn),
            Input::Report { turn, report } => style::on_report(self, turn, *report),
            Input::Transition(act) => style::on_act(self, &act),
            Input::Assign(assignment) => style::on_assignment(self, *assignment),
            Input::SetContext { values } => self.set_context(values),
            Input::Pause { reason } => self.pause(reason),
            Input::Resume => self.resume(),
            Input::Cancel { reason } => self.cancel(reason),
            Input::Retry => self.retry(),
            Input::Fail { failure } => self.fail(failure),
        }
    }

    fn result(&mut self, step: StepKey, attempt: u32, result: Result<Outcome, Failure>, logs: Vec<String>) -> Reply {
        let is_cancelled = matches!(self.state.phase, Phase::Cancelled { .. });
        let is_over = self.state.has_ended() && !(is_cancelled && planted::is_planted(Bug::LateResultAfterCancel));
        if is_over || !self.state.has_open_task(&step, attempt) {
            return Reply::ignored("the result is late");
        }
        let is_delivery = self.state.open.get(&step).is_some_and(|open| open.delivery.is_some());
        let result = match result {
            // It was performed, and another attempt would perform it twice: its output is left out if it does not fit.
            Ok(outcome) if is_delivery => Ok(self.check(&step, outcome).unwrap_or_default()),
            result => result.and_then(|outcome| self.check(&step, outcome)),
        };
        let event = match result {
            Ok(outcome) => Event::StepCompleted { step, attempt, outcome: Outcome { logs, ..outcome } },
            Err(failure) => Event::StepFailed { step, attempt, failure, logs, started_at: None },
        };
        self.write(event);
        Reply::Accepted
    }

    /// Rejects a result that exceeds a limit, cannot be read back, or does not fit the workflow.
    pub(crate) fn check(&self, step: &StepKey, outcome: Outcome) -> Result<Outcome, Failure> {
        self.workflow.style.check_result(step, self.bound(step, outcome)?)
    }

    /// Rejects an output that exceeds a limit, or that cannot be read back.
    pub(crate) fn bound(&self, step: &StepKey, outcome: Outcome) -> Result<Outcome, Failure> {
        let outcome = self.fit(step, outcome)?;
        payload::check(outcome.output.json())
            .map_err(|error| Failure::fatal(error.code(), format!("the output of {step} {error}")))?;
        Ok(outcome)
    }

    /// Rejects an output that exceeds a limit.
    pub(crate) fn fit(&self, step: &StepKey, outcome: Outcome) -> Result<Outcome, Failure> {
        let size = outcome.output.size();
        if size > limits::PAYLOAD_BYTES {
            return Err(Failure::fatal(
                code::PAYLOAD_TOO_LARGE,
                format!("the output of {step} has {size} bytes, more than {}", limits::PAYLOAD_BYTES),
            ));
        }
        if self.state.weight() + size > limits::STATE_BYTES {
            return Err(Failure::fatal(
                code::CONTEXT_TOO_LARGE,
                format!("with the output of {step} the outputs of the run would exceed {} bytes", limits::STATE_BYTES),
            ));
        }
        if self.state.context_bytes() + size > limits::CONTEXT_BYTES {
            return Err(Failure::fatal(
                code::CONTEXT_TOO_LARGE,
                format!("with the output of {step} the context would exceed {} bytes", limits::CONTEXT_BYTES),
            ));
        }
        Ok(outcome)
    }

    fn task_lost(&mut self, step: StepKey, attempt: u32) -> Reply {
        if !self.state.phase.is_live() || !self.state.has_open_task(&step, attempt) {
            return Reply::ignored("the task is not open");
        }
        let crashes = self.state.open.get(&step).map_or(0, |open| open.crashes);
        if crashes + 1 >= limits::CONSECUTIVE_CRASHES {
            let failure = Failure::fatal(
                code::CRASH_LOOP,
                format!("{step} was dispatched {} times in a row without any result", limits::CONSECUTIVE_CRASHES),
            );
            self.write(Event::failed(step, attempt, failure));
            return Reply::Accepted;
        }
        let attempt = if planted::is_planted(Bug::AttemptReused) { attempt } else { attempt + 1 };
        self.write(Event::StepDispatched { step, attempt, dispatch: Dispatch::Task });
        Reply::Accepted
    }

    fn timer(&mut self, step: &StepKey, attempt: u32) -> Reply {
        if !self.state.phase.is_live() {
            return Reply::ignored("the run is not running");
        }
        let Some(open) = self.state.open.get(step) else { return Reply::ignored("the timer no longer exists") };
        if open.attempt != attempt || open.timer.is_none_or(|due| due > self.cx.now) {
            return Reply::ignored("the timer is not due");
        }
        let events = style::on_timer(self.workflow, self.state, step, open, self.cx);
        if events.is_empty() {
            return Reply::ignored("the step has no timer");
        }
        for event in events {
            self.write(event);
        }
        Reply::Accepted
    }

    /// Fires the timers that are due, with everything that follows from each.
    pub(crate) fn fire_due_timers(&mut self) {
        while let Some((step, attempt)) = self.state.first_due(self.cx.now) {
            if self.timer(&step, attempt) != Reply::Accepted || self.settle() {
                return;
            }
        }
    }

    /// A signal for a wait. `is_kept` requests that it is buffered if no wait for it is open yet.
    fn signal(&mut self, event: &str, payload: Payload, is_kept: bool) -> Reply {
        if self.state.has_ended() {
            return self.refuse("RUN_ENDED", "accepts no signals");
        }
        if payload.size() > limits::PAYLOAD_BYTES {
            let message = format!("the payload of a signal has at most {} bytes", limits::PAYLOAD_BYTES);
            return Reply::refused("PAYLOAD_TOO_LARGE", message);
        }
        if let Err(error) = payload::check(payload.json()) {
            return Reply::refused(error.refusal(), format!("the signal {error}"));
        }
        // A timeout that is due takes effect before the signal.
        for (step, attempt) in self.state.due(self.cx.now) {
            self.timer(&step, attempt);
        }
        style::on_signal(self, event, payload, is_kept)
    }

    /// A published event for every open wait that it matches.
    fn event(&mut self, event: &EventRef, data: &Payload) -> Reply {
        if self.state.has_ended() {
            return self.refuse("RUN_ENDED", "accepts no events");
        }
        // A timeout that is due takes effect before the event.
        for (step, attempt) in self.state.due(self.cx.now) {
            self.timer(&step, attempt);
        }
        style::on_event(self, event, data)
    }

    fn set_context(&mut self, values: Payload) -> Reply {
        if self.state.has_ended() || self.state.decided_end().is_some() {
            return self.refuse("RUN_ENDED", "no longer changes");
        }
        if self.state.phase == Phase::Pending {
            return self.refuse("INVALID_TRANSITION", "has no context yet");
        }
        if let Some(reason) = self.workflow.style.refuse_context() {
            return Reply::refused("VALIDATION_ERROR", reason);
        }
        if let Err(error) = payload::check(values.json()) {
            return Reply::refused(error.refusal(), format!("the document to set {error}"));
        }
        if !values.value().is_object() {
            return Reply::refused("VALIDATION_ERROR", "expected an object of variables");
        }
        if values.value().get("input").is_some() {
            return Reply::refused("VALIDATION_ERROR", "`input` is the input of the run and cannot be set");
        }
        if self.state.context_bytes() + values.size() > limits::CONTEXT_BYTES || values.size() > limits::PAYLOAD_BYTES {
            return Reply::refused("CONTEXT_TOO_LARGE", "the context would exceed its limit");
        }
        self.accept(Event::ContextSet { values })
    }

    /// The answer to an accepted request to a machine, after everything that followed.
    fn complete(&self, reply: Reply) -> Reply {
        match (reply, self.state.progress.answer()) {
            (Reply::Applied(applied), Some(answer)) if applied.seq == answer.seq && !applied.repeated => {
                Reply::Applied(Box::new(answer.clone()))
            }
            (reply, _) => reply,
        }
    }

    /// Whether the input has a key that the entry of an accepted request will contain.
    pub(crate) fn has_key(&self) -> bool {
        self.key.is_some()
    }

    /// Writes everything that is ready, until nothing is, or the item is full or has used its fuel. Returns whether more
    /// may be ready.
    pub(crate) fn settle(&mut self) -> bool {
        while self.state.phase.is_live() {
            // A decision that writes nothing would be made again without end.
            let is_spent = self.cx.meter.is_spent() && !self.entries.is_empty();
            if self.entries.len() >= limits::EVENTS_PER_DECISION || is_spent {
                return true;
            }
            if self.state.seq + limits::EVENTS_PER_DECISION as u64 >= limits::JOURNAL_ENTRIES {
                let message = format!("the journal reached {} entries", limits::JOURNAL_ENTRIES);
                self.write(Event::run_failed(Failure::fatal(code::JOURNAL_TOO_LONG, message), None));
                break;
            }
            self.cx.meter.begin_part();
            let events = style::next(self.workflow, self.state, self.cx);
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

    /// Applies the limits of results to outputs of the core itself.
    fn limit(&self, event: Event) -> Event {
        match event {
            Event::StepCompleted { step, attempt, outcome } => match self.fit(&step, outcome) {
                Ok(outcome) => Event::StepCompleted { step, attempt, outcome },
                Err(failure) => Event::failed(step, attempt, failure),
            },
            Event::RunStarted { .. }
            | Event::StepDispatched { .. }
            | Event::StepFailed { .. }
            | Event::StepSkipped { .. }
            | Event::TimerSet { .. }
            | Event::TimerFired { .. }
            | Event::WaitOpened { .. }
            | Event::WaitResolved { .. }
            | Event::SignalBuffered { .. }
            | Event::TurnStarted { .. }
            | Event::TurnLost { .. }
            | Event::TransitionApplied(_)
            | Event::VoteCast(_)
            | Event::Assigned(_)
            | Event::ContextSet { .. }
            | Event::RunPaused { .. }
            | Event::RunResumed
            | Event::RunRetried
            | Event::RunCompleted { .. }
            | Event::RunFailed { .. }
            | Event::RunCancelled { .. } => event,
        }
    }
}
