//! What a run tells other runs.

use crate::failure::{Failure, code};
use crate::ids::RunId;
use crate::journal::{Entry, Event};
use crate::payload::Payload;
use crate::run::Input;
use crate::run::State;
use crate::status::Status;

/// What follows for other runs from the entries of one item. `state` is what the item leaves behind.
///
/// 1. A run that ends tells the step that waits for it.
/// 2. A run that no longer waits for a child cancels it; the child may not exist yet.
///
/// **Invariant**: the entries of one item were decided at one time.
pub fn messages(state: &State, entries: &[Entry]) -> Vec<(RunId, Input)> {
    let Some(first) = entries.first() else { return Vec::new() };
    let left = state.open.left_since(first.seq);
    if left.is_empty() && state.parent().is_none() {
        return Vec::new();
    }
    let cancel = |(seq, child): &(u64, RunId)| {
        let why = why(&entries.get((seq - first.seq) as usize)?.event);
        Some((*child, Input::Cancel { reason: Some(format!("the parent run {} {why}", state.run)) }))
    };
    let mut messages: Vec<_> = left.iter().filter_map(cancel).collect();
    messages.extend(to_parent(state, entries));
    messages
}

/// What the event that left a child says of its parent.
fn why(event: &Event) -> &'static str {
    match event {
        Event::RunCancelled { .. } => "was cancelled",
        Event::RunFailed { .. } => "failed",
        Event::RunCompleted { .. } => "completed without waiting for it",
        Event::RunStarted { .. }
        | Event::StepDispatched { .. }
        | Event::StepCompleted { .. }
        | Event::StepFailed { .. }
        | Event::StepSkipped { .. }
        | Event::TimerSet { .. }
        | Event::TimerFired { .. }
        | Event::WaitOpened { .. }
        | Event::WaitResolved { .. }
        | Event::SignalBuffered { .. }
        | Event::TurnStarted { .. }
        | Event::TurnLost { .. }
        | Event::ContextSet { .. }
        | Event::RunPaused { .. }
        | Event::RunResumed
        | Event::RunRetried => "no longer waits for it",
    }
}

fn to_parent(state: &State, entries: &[Entry]) -> Option<(RunId, Input)> {
    let parent = state.awaited_by().filter(|_| state.has_ended())?;
    // Nothing follows a run's end, so the item that ends it ends with it.
    let end = entries.last().filter(|last| last.seq == state.seq)?;
    let reason = if let Event::RunCancelled { reason } = &end.event { reason.as_deref() } else { None };
    let result = ended(state.run, state.status(), state.output(), state.failure(), reason)?;
    let step = parent.step.clone();
    Some((parent.run, Input::ChildEnded { step, attempt: parent.attempt, child: state.run, result }))
}

/// The end of a child as its parent takes it; `None` for a run that has not ended.
pub fn ended(
    child: RunId,
    status: Status,
    output: Option<&Payload>,
    failure: Option<&Failure>,
    reason: Option<&str>,
) -> Option<Result<Payload, Failure>> {
    match status {
        Status::Pending | Status::Running | Status::Waiting | Status::Paused => None,
        Status::Completed => Some(Ok(output.cloned().unwrap_or_default())),
        Status::Failed => Some(Err(match failure {
            // The child's step is none of the parent's.
            Some(failure) => Failure {
                message: format!("child run {child} failed: {}", failure.message),
                step: None,
                attempts: None,
                ..failure.clone()
            },
            None => Failure::fatal(code::CHILD_FAILED, format!("child run {child} failed")),
        })),
        Status::Cancelled => {
            let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
            let message = format!("child run {child} was cancelled{reason}");
            Some(Err(Failure::fatal(code::CHILD_CANCELLED, message)))
        }
    }
}
