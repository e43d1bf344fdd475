//! The effect of inputs on a run of a graph: results, timers and signals.

use super::model::{Graph, NodeKind};
use super::path::StepPath;
use crate::failure::{Failure, code};
use crate::ids::StepKey;
use crate::journal::{Event, Outcome};
use crate::payload::Payload;
use crate::run::decide::Draft;
use crate::run::{Activity, Open, Reply};
use crate::topics::EventRef;

/// Rejects a result with a handle that its node does not have.
pub(crate) fn check_handle(graph: &Graph, step: &StepKey, outcome: Outcome) -> Result<Outcome, Failure> {
    let handles = StepPath::find(graph, step).map_or(&[][..], |step_path| &graph.node(step_path.node).handles);
    match outcome.handle.as_ref().filter(|handle| !handles.contains(handle)) {
        Some(handle) => Err(Failure::fatal(
            code::UNKNOWN_HANDLE,
            format!("{step} has no handle {handle:?}; use one of {}", handles.join(", ")),
        )),
        None => Ok(outcome),
    }
}

/// The event that follows when the timer of an open step is due.
pub(crate) fn on_timer(step: StepKey, open: &Open) -> Option<Event> {
    let attempt = open.attempt;
    Some(match &open.activity {
        Activity::Delay => Event::StepCompleted { step, attempt, outcome: Outcome::default() },
        Activity::Wait { .. } => {
            let outcome = Outcome::from_output(serde_json::json!({"timeout": true})).by("timeout");
            Event::StepCompleted { step, attempt, outcome }
        }
        Activity::Child(child) => {
            let message = format!("child run {} did not end in time", child.run);
            Event::failed(step, attempt, Failure::transient(code::STEP_TIMEOUT, message))
        }
        Activity::Body | Activity::Backoff => Event::TimerFired { step, attempt },
        Activity::Task | Activity::Instant | Activity::Failed | Activity::Again => return None,
    })
}

/// A signal completes the first open wait that it matches.
pub(crate) fn on_signal(draft: &mut Draft<'_>, graph: &Graph, event: &str, payload: Payload, is_kept: bool) -> Reply {
    if is_kept {
        return Reply::refused("VALIDATION_ERROR", "only runs of code workflows buffer signals");
    }
    let meter = draft.cx.meter;
    let waiter = draft.state.open.iter().find(|(_, open)| open.activity.awaits(event, &payload, meter));
    let waiter = waiter.map(|(step, open)| (step.clone(), open.attempt));
    let Some((step, attempt)) = waiter else { return draft.state.open.ignore_signal(event) };
    let outcome = match answer(graph, &step, payload) {
        Ok(outcome) => outcome,
        Err(refusal) => return refusal,
    };
    match draft.fit(&step, outcome) {
        Ok(outcome) => draft.accept(Event::StepCompleted { step, attempt, outcome }),
        Err(failure) => draft.accept(Event::failed(step, attempt, failure)),
    }
}

/// A published event completes every open wait that names its topic and that it matches.
pub(crate) fn on_event(draft: &mut Draft<'_>, event: &EventRef, data: &Payload) -> Reply {
    let meter = draft.cx.meter;
    let fits = |open: &Open| open.activity.awaits_event(&event.topic, data, meter);
    let waiters = draft.state.open.iter().filter(|(_, open)| fits(open));
    let waiters: Vec<_> = waiters.map(|(step, open)| (step.clone(), open.attempt)).collect();
    let mut reply = Reply::ignored("no wait for this event is open");
    for (step, attempt) in waiters {
        // A failure of an earlier one may have closed the iteration around this one.
        if draft.state.open.get(&step).is_none_or(|open| open.attempt != attempt) {
            continue;
        }
        let outcome = Outcome { event: Some(Box::new(event.clone())), ..Outcome::from_output(data.clone()) };
        reply = match draft.fit(&step, outcome) {
            Ok(outcome) => draft.accept(Event::StepCompleted { step, attempt, outcome }),
            Err(failure) => draft.accept(Event::failed(step, attempt, failure)),
        };
    }
    reply
}

/// The result of a wait that a signal completes: an approval may be rejected.
fn answer(graph: &Graph, step: &StepKey, payload: Payload) -> Result<Outcome, Reply> {
    let kind = StepPath::find(graph, step).map(|step_path| &graph.node(step_path.node).kind);
    if !matches!(kind, Some(NodeKind::Wait { is_approval: true, .. })) {
        return Ok(Outcome::from_output(payload));
    }
    match payload.value().get("approved").and_then(serde_json::Value::as_bool) {
        Some(true) => Ok(Outcome::from_output(payload)),
        Some(false) => Ok(Outcome::from_output(payload).by("rejected")),
        None => {
            let message = "answer an approval with {\"approved\": true} or {\"approved\": false}";
            Err(Reply::refused("VALIDATION_ERROR", message))
        }
    }
}
