//! Inputs that a run sends to the inbox of other runs.

use super::{Input, State};
use crate::failure::{Failure, code};
use crate::ids::RunId;
use crate::journal::{DecidedEnd, Entry, Event};
use crate::payload::Payload;
use crate::planted::{self, Bug};
use crate::status::Status;

/// The inputs for other runs that follow from the entries of one item. `state` is the state after the item.
///
/// 1. A run that ends sends its result to the step that waits for it. A machine sends it with its transition to a
///    terminal state, although side effects are still to be performed; then its end sends nothing.
/// 2. A run that stops waiting for a child cancels it; the child may not exist yet.
///
/// **Invariant**: the entries of one item were decided at one time.
pub fn inputs_after(state: &State, entries: &[Entry]) -> Vec<(RunId, Input)> {
    let Some(first) = entries.first() else { return Vec::new() };
    let left = state.open.left_since(first.seq);
    if left.is_empty() && state.parent().is_none() {
        return Vec::new();
    }
    let cancel = |(seq, child): &(u64, RunId)| {
        let why = why(&entries.get((seq - first.seq) as usize)?.event);
        Some((*child, Input::Cancel { reason: Some(format!("the parent run {} {why}", state.run)) }))
    };
    let mut inputs: Vec<_> = left.iter().filter_map(cancel).collect();
    inputs.extend(to_parent(state, entries));
    inputs
}

/// Why a child is cancelled, by the event that stopped waiting for it.
fn why(event: &Event) -> &'static str {
    match event {
        Event::RunCancelled { .. } => "was cancelled",
        Event::RunFailed { .. } => "failed",
        Event::RunCompleted { .. } => "completed without waiting for it",
        Event::TransitionApplied(_) => "left the state that waited for it",
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
        | Event::VoteCast(_)
        | Event::Assigned(_)
        | Event::ContextSet { .. }
        | Event::RunPaused { .. }
        | Event::RunResumed
        | Event::RunRetried => "no longer waits for it",
    }
}

fn to_parent(state: &State, entries: &[Entry]) -> Option<(RunId, Input)> {
    let parent = state.awaited_by()?;
    let decided = state.decided_end().filter(|_| !planted::is_planted(Bug::ParentWaitsForWebhooks));
    let result = match decided {
        Some(end) => {
            let (first, moved) = (entries.first()?.seq, state.progress.moved_at()?);
            decided_result(state.run, end).filter(|_| moved >= first)?
        }
        None => result_of_end(state, entries)?,
    };
    let step = parent.step.clone();
    Some((parent.run, Input::ChildEnded { step, attempt: parent.attempt, child: state.run, result }))
}

fn result_of_end(state: &State, entries: &[Entry]) -> Option<Result<Payload, Failure>> {
    // No entry follows the end of a run, so the end is the last entry of its item.
    let end = entries.last().filter(|last| last.seq == state.seq && state.has_ended())?;
    let reason = if let Event::RunCancelled { reason } = &end.event { reason.as_deref() } else { None };
    child_result(state.run, state.status(), state.output(), state.failure(), reason)
}

fn decided_result(child: RunId, end: &DecidedEnd) -> Option<Result<Payload, Failure>> {
    match end {
        DecidedEnd::Completed { output } => child_result(child, Status::Completed, Some(output), None, None),
        DecidedEnd::Failed { failure } => child_result(child, Status::Failed, None, Some(failure), None),
    }
}

/// The end of a child as the result of the step that waits for it; `None` for a run that has not ended.
pub fn child_result(
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
            // The step of the child is not a step of the parent.
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
