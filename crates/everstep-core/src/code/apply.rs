//! The fold of a code workflow's run: how each entry changes its steps.

use super::progress::{Buffered, End, Progress, TurnStatus};
use super::report::StepKind;
use crate::journal::{Dispatch, Event, Resolution, TimerPurpose};
use crate::run::apply::{Fold, Folded};
use crate::run::{Activity, Open, Phase};
use crate::time::Timestamp;

/// Folds one entry.
pub(crate) fn fold(progress: &mut Progress, mut fold: Fold<'_>) -> Folded {
    match &fold.entry.event {
        Event::RunPaused { .. } => {
            progress.paused();
            Ok(None)
        }
        Event::RunRetried => {
            retry(progress, &mut fold);
            Ok(None)
        }
        Event::RunStarted { .. }
        | Event::RunResumed
        | Event::RunCompleted { .. }
        | Event::RunFailed { .. }
        | Event::RunCancelled { .. } => Ok(None),
        Event::ContextSet { .. } => Err("a code workflow has no context"),
        Event::TransitionApplied(_) | Event::VoteCast(_) | Event::Assigned(_) => Err("a code workflow has no states"),
        Event::StepDispatched { .. }
        | Event::StepCompleted { .. }
        | Event::StepFailed { .. }
        | Event::StepSkipped { .. }
        | Event::TimerSet { .. }
        | Event::TimerFired { .. }
        | Event::WaitOpened { .. }
        | Event::WaitResolved { .. }
        | Event::SignalBuffered { .. }
        | Event::TurnStarted { .. }
        | Event::TurnLost { .. } => fold_step(progress, fold).ok_or("it does not follow from the entries before it"),
    }
}

/// Folds an entry about a turn or a step. `None` if it does not fit the entries before it.
fn fold_step(progress: &mut Progress, fold: Fold<'_>) -> Option<Option<Timestamp>> {
    let Fold { run, phase, open, entry } = fold;
    let seq = entry.seq;
    let mut since = None;
    match &entry.event {
        Event::TurnStarted { turn, .. } => {
            if *turn != progress.turn + 1 {
                return None;
            }
            (progress.turn, progress.turn_status) = (*turn, TurnStatus::Held);
        }
        Event::TurnLost { turn } => {
            if *turn == 0 || *turn != progress.turn {
                return None;
            }
            progress.losses += 1;
            progress.turn_status = TurnStatus::Lost;
        }
        Event::StepDispatched { step, attempt, dispatch } => {
            let kind = match dispatch {
                // A rejected call ends at once.
                Dispatch::Child(_) | Dispatch::Instant => StepKind::Call,
                Dispatch::Publish => StepKind::Publish,
                Dispatch::Task
                | Dispatch::Delay { .. }
                | Dispatch::Wait { .. }
                | Dispatch::Body { .. }
                | Dispatch::Delivery(_) => return None,
            };
            if open.contains(step) && !open.has_foreign_child(run, step) {
                return None;
            }
            progress.begin(step, kind, seq, *attempt)?;
            open.dispatch(run, (step, *attempt), dispatch, false, entry.at);
        }
        Event::StepCompleted { step, attempt, outcome } => {
            let kind = progress.step(step).map_or(StepKind::Run, |step| step.kind);
            since = match kind {
                StepKind::Call | StepKind::Publish => Some(open.close(step)?.since),
                StepKind::Run if !open.contains(step) => outcome.started_at,
                StepKind::Run | StepKind::Sleep | StepKind::Wait => return None,
            };
            progress.finish(step, seq, *attempt, End::Output(outcome.output.clone()))?;
        }
        Event::StepFailed { step, attempt, failure, started_at, .. } => {
            let kind = progress.step(step).map_or(StepKind::Run, |step| step.kind);
            since = *started_at;
            match kind {
                StepKind::Call | StepKind::Publish => {
                    let closed = open.close(step)?;
                    since = Some(closed.since);
                    if phase.is_live() {
                        open.leave_late_child(run, &closed, failure, entry);
                    }
                    progress.finish(step, seq, *attempt, End::Failure(failure.clone()))?;
                }
                StepKind::Run if open.contains(step) => return None,
                StepKind::Run if failure.retryable => progress.failed(step, seq, *attempt)?,
                StepKind::Run => progress.finish(step, seq, *attempt, End::Failure(failure.clone()))?,
                StepKind::Sleep | StepKind::Wait => return None,
            }
        }
        Event::TimerSet { step, attempt, due, why } => {
            let activity = match why {
                TimerPurpose::Sleep => {
                    if progress.step(step).is_some() {
                        return None;
                    }
                    progress.begin(step, StepKind::Sleep, seq, *attempt)?;
                    Activity::Delay
                }
                TimerPurpose::Retry => {
                    let is_tried = progress.step(step).is_some_and(|step| step.kind == StepKind::Run);
                    if !is_tried || open.contains(step) {
                        return None;
                    }
                    progress.back_off(step, seq, true)?;
                    Activity::Backoff
                }
                TimerPurpose::Pace | TimerPurpose::After => return None,
            };
            open.insert(step.clone(), Open::new(*attempt, activity, Some(*due), entry.at));
        }
        Event::TimerFired { step, attempt } => {
            let closed = open.close(step)?;
            match closed.activity {
                Activity::Delay => {
                    since = Some(closed.since);
                    progress.finish(step, seq, *attempt, End::Slept)?;
                }
                Activity::Backoff => progress.back_off(step, seq, false)?,
                Activity::Task
                | Activity::Instant
                | Activity::Wait { .. }
                | Activity::Child(_)
                | Activity::Body
                | Activity::Failed
                | Activity::Again => return None,
            }
        }
        Event::WaitOpened { step, attempt, event, pattern, due, since: looks_back } => {
            if progress.step(step).is_some() {
                return None;
            }
            progress.begin(step, StepKind::Wait, seq, *attempt)?;
            progress.bytes += pattern.size();
            let by_topic = event.is_some();
            let event = event.clone().unwrap_or_else(|| step.to_string());
            let activity = Activity::Wait { event, pattern: pattern.clone(), by_topic, since: *looks_back };
            open.insert(step.clone(), Open::new(*attempt, activity, *due, entry.at));
        }
        Event::WaitResolved { step, attempt, by } => {
            let closed = open.close(step)?;
            let Activity::Wait { pattern, .. } = &closed.activity else { return None };
            since = Some(closed.since);
            progress.bytes -= pattern.size();
            let end = match by {
                Resolution::Signal { payload, buffered, .. } => {
                    if let Some(buffered) = buffered {
                        progress.unbuffer(*buffered);
                    }
                    End::Signal(payload.clone())
                }
                Resolution::Event { event, data } => End::Event { data: data.clone(), event: Box::new(event.clone()) },
                Resolution::Timeout => End::Timeout,
            };
            progress.finish(step, seq, *attempt, end)?;
        }
        Event::SignalBuffered { event, payload, until } => {
            let (event, payload) = (event.clone(), payload.clone());
            progress.buffer(Buffered { seq, event, payload, until: *until }, entry.at);
        }
        Event::StepSkipped { .. }
        | Event::TransitionApplied(_)
        | Event::VoteCast(_)
        | Event::Assigned(_)
        | Event::ContextSet { .. } => return None,
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

/// A failed run is retried. The failure cancelled the children that the run waited for; the function calls them again.
fn retry(progress: &mut Progress, fold: &mut Fold<'_>) {
    for step in fold.open.waiting_for_children() {
        fold.open.close(&step);
    }
    let Phase::Failed { failure } = fold.phase else { return };
    progress.retried(fold.entry.seq, failure.step.as_ref());
}
