//! The waits of a code workflow: for a time, a signal or another run.
//!
//! 1. A report opens each of them; it is settled when its time is reached, its signal arrives or its run ends.
//! 2. A signal resolves the wait that was opened first among those that it matches; a timeout that is due takes effect
//!    before it.
//! 3. A published event resolves every wait that names it and that it matches.
//! 4. If the data of an event would exceed the limit of the run's data, the run fails. A sender receives the refusal of
//!    its signal; a publisher receives none, so that the event would be lost while the wait stays open.
//! 5. A signal that matches no wait is dropped, or buffered if its sender requests it: the first wait that it matches
//!    takes it.

use std::time::Duration;

use super::report::{Moment, Since};
use super::run::progress;
use crate::failure::{Failure, code};
use crate::ids::StepKey;
use crate::journal::{Dispatch, Event, Outcome, Resolution, TimerPurpose};
use crate::limits;
use crate::payload::{self, Payload};
use crate::run::child::{self, Child};
use crate::run::decide::Draft;
use crate::run::{Activity, Open, Reply};
use crate::time::Timestamp;
use crate::topics::{EventRef, is_reserved};

impl Draft<'_> {
    pub(super) fn sleep(&mut self, step: StepKey, until: Moment) {
        let due = match until {
            Moment::After(millis) => self.cx.now.plus(bounded(millis)),
            Moment::At(time) => time.clamp(Timestamp::EPOCH, self.cx.now.plus(farthest())),
        };
        self.write(Event::TimerSet { step, attempt: 1, due, why: TimerPurpose::Sleep });
    }

    pub(super) fn wait(
        &mut self,
        step: StepKey,
        event: Option<String>,
        pattern: Payload,
        timeout_ms: Option<u64>,
        since: Option<Since>,
    ) -> Reply {
        if let Some(refusal) = self.refuse_wait(&step, event.as_deref(), &pattern) {
            return refusal;
        }
        let due = timeout_ms.map(|millis| self.cx.now.plus(bounded(millis)));
        // Only a wait that names an event accepts events.
        let since = since.filter(|_| event.is_some()).map(|since| self.since(since));
        let name = event.clone().unwrap_or_else(|| step.to_string());
        let kept = progress(self.state).find_buffered(&name, &pattern, self.cx);
        let kept = kept.map(|kept| (kept.seq, kept.payload.clone()));
        self.write(Event::WaitOpened { step: step.clone(), attempt: 1, event, pattern, due, since });
        if let Some((seq, payload)) = kept {
            let by = Resolution::Signal { event: name, payload, buffered: Some(seq) };
            self.write(Event::WaitResolved { step, attempt: 1, by });
        }
        Reply::Accepted
    }

    /// The time from which on a wait accepts events.
    fn since(&self, since: Since) -> Timestamp {
        let now = self.cx.now;
        match since {
            Since::Start => self.state.started_at,
            Since::Ago(millis) => {
                let micros = i64::try_from(bounded(millis).as_micros()).unwrap_or(i64::MAX);
                Timestamp::from_micros(now.micros().saturating_sub(micros)).max(Timestamp::EPOCH)
            }
            Since::At(time) => time.clamp(Timestamp::EPOCH, now),
        }
    }

    /// Why a wait for a signal is rejected.
    fn refuse_wait(&self, step: &StepKey, event: Option<&str>, pattern: &Payload) -> Option<Reply> {
        if let Some(event) = event.filter(|event| is_reserved(event)) {
            let message = format!("{event:?} is reserved: an event does not begin with `@` or `everstep.`");
            return Some(Reply::refused(code::VALIDATION_ERROR, message));
        }
        if pattern.size() > limits::PAYLOAD_BYTES {
            let message = format!("the match of {step} has more than {} bytes", limits::PAYLOAD_BYTES);
            return Some(Reply::refused(code::PAYLOAD_TOO_LARGE, message));
        }
        if let Err(error) = payload::check(pattern.json()) {
            return Some(Reply::refused(error.refusal(), format!("the match of {step} {error}")));
        }
        self.refuse_bytes(pattern)
    }

    fn refuse_bytes(&self, more: &Payload) -> Option<Reply> {
        let message = format!("the data of the run would exceed {} bytes", limits::CONTEXT_BYTES);
        let is_full = self.state.context_bytes() + more.size() > limits::CONTEXT_BYTES;
        is_full.then(|| Reply::refused(code::CONTEXT_TOO_LARGE, message))
    }

    pub(super) fn call(
        &mut self,
        step: StepKey,
        workflow: String,
        version: Option<u32>,
        input: Payload,
        timeout_ms: Option<u64>,
    ) {
        let attempt = progress(self.state).step(&step).map_or(0, |step| step.attempt) + 1;
        let checked = child::check_depth(self.state).and_then(|()| child::check_input(&step, &input, self.state));
        if let Err(failure) = checked {
            self.write(Event::StepDispatched { step: step.clone(), attempt, dispatch: Dispatch::Instant });
            return self.write(Event::failed(step, attempt, failure));
        }
        let child = Child {
            run: Child::id(self.state.run, &step, attempt, self.cx.now),
            workflow,
            version,
            input,
            waits: true,
            due: timeout_ms.map(|millis| self.cx.now.plus(bounded(millis))),
        };
        self.write(Event::StepDispatched { step, attempt, dispatch: Dispatch::Child(child.into()) });
    }
}

/// The event that follows when the timer of an open step is due.
pub(crate) fn on_timer(step: StepKey, open: &Open) -> Option<Event> {
    let attempt = open.attempt;
    Some(match &open.activity {
        Activity::Delay | Activity::Backoff => Event::TimerFired { step, attempt },
        Activity::Wait { .. } => Event::WaitResolved { step, attempt, by: Resolution::Timeout },
        Activity::Child(child) => {
            let message = format!("child run {} did not end in time", child.run);
            Event::failed(step, attempt, Failure::fatal(code::STEP_TIMEOUT, message))
        }
        Activity::Body | Activity::Task | Activity::Instant | Activity::Failed | Activity::Again => return None,
    })
}

/// A signal resolves the wait that was opened first among those that it matches.
pub(crate) fn on_signal(draft: &mut Draft<'_>, event: &str, payload: Payload, is_kept: bool) -> Reply {
    let opened_at = |step: &StepKey| progress(draft.state).step(step).map_or(0, |step| step.seq);
    let meter = draft.cx.meter;
    let fitting = draft.state.open.iter().filter(|(_, open)| open.activity.awaits(event, &payload, meter));
    let first = fitting.min_by_key(|(step, _)| opened_at(step)).map(|(step, open)| (step.clone(), open.attempt));
    if first.is_none() && !is_kept {
        return draft.state.open.ignore_signal(event);
    }
    if let Some(refusal) = draft.refuse_bytes(&payload) {
        return refusal;
    }
    if let Some((step, attempt)) = first {
        let by = Resolution::Signal { event: event.to_owned(), payload, buffered: None };
        return draft.accept(Event::WaitResolved { step, attempt, by });
    }
    if progress(draft.state).count_buffered(draft.cx.now) >= limits::BUFFERED_SIGNALS {
        let message =
            format!("the run has buffered {} signals already, which is the maximum", limits::BUFFERED_SIGNALS);
        return Reply::refused("TOO_MANY_SIGNALS", message);
    }
    let until = draft.cx.now.plus(Duration::from_secs(limits::BUFFERED_DAYS * 86_400));
    draft.accept(Event::SignalBuffered { event: event.to_owned(), payload, until });
    Reply::Buffered
}

/// A published event resolves every open wait that names its topic and that it matches, in the order in which they were
/// opened.
pub(crate) fn on_event(draft: &mut Draft<'_>, event: &EventRef, data: &Payload) -> Reply {
    let opened_at = |step: &StepKey| progress(draft.state).step(step).map_or(0, |step| step.seq);
    let meter = draft.cx.meter;
    let fits = |open: &Open| open.activity.awaits_event(&event.topic, data, meter);
    let fitting = draft.state.open.iter().filter(|(_, open)| fits(open));
    let mut waits: Vec<_> = fitting.map(|(step, open)| (opened_at(step), step.clone(), open.attempt)).collect();
    waits.sort();
    let mut reply = Reply::ignored("no wait for this event is open");
    for (_, step, attempt) in waits {
        if let Err(failure) = draft.fit(&step, Outcome::from_output(data.clone())) {
            draft.write(Event::run_failed(failure, Some(step)));
            return Reply::Accepted;
        }
        let by = Resolution::Event { event: event.clone(), data: data.clone() };
        reply = draft.accept(Event::WaitResolved { step, attempt, by });
    }
    reply
}

/// The latest time of a timer, from now.
pub(super) fn farthest() -> Duration {
    Duration::from_secs(limits::TIMER_DAYS * 86_400)
}

fn bounded(millis: u64) -> Duration {
    Duration::from_millis(millis).min(farthest())
}
