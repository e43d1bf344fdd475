//! The fold of a graph's run: how each entry changes its progress and its open steps.

use serde_json::Value;

use super::model::{Graph, NodeKind};
use super::path::{ScopePath, StepPath};
use super::progress::Progress;
use super::repeat::Pacing;
use super::run::find;
use crate::failure::Failure;
use crate::ids::StepKey;
use crate::journal::{Dispatch, Event, Outcome, TimerPurpose};
use crate::payload::Payload;
use crate::run::apply::{Fold, Folded};
use crate::run::{Activity, Fired, Open};

const NOT_OPEN: &str = "the step is not open";

/// Folds one entry.
pub(crate) fn fold(graph: &Graph, progress: &mut Progress, mut fold: Fold<'_>) -> Folded {
    let entry = fold.entry;
    let mut since = None;
    match &entry.event {
        Event::RunStarted { .. } => progress.begin(graph),
        Event::ContextSet { values } => {
            for (name, value) in values.value().as_object().into_iter().flatten() {
                progress.set(&ScopePath::default(), name, Payload::from(value.clone()));
            }
        }
        Event::RunRetried => retry(graph, progress, &mut fold),
        Event::StepDispatched { step, attempt, dispatch } => {
            let step_path = find(graph, step)?;
            dispatched(graph, progress, &mut fold, &step_path, (step, *attempt, dispatch)).ok_or(NOT_OPEN)?;
        }
        Event::StepCompleted { step, outcome, .. } => {
            let step_path = find(graph, step)?;
            since = Some(fold.open.close(step).ok_or(NOT_OPEN)?.since);
            set_variables(graph, progress, &step_path, outcome);
            progress.completed(graph, &step_path, outcome).ok_or(NOT_OPEN)?;
        }
        Event::StepFailed { step, failure, .. } => {
            let step_path = find(graph, step)?;
            since = Some(fold.open.get(step).ok_or(NOT_OPEN)?.since);
            failed(graph, progress, &mut fold, step, &step_path, failure).ok_or(NOT_OPEN)?;
        }
        Event::StepSkipped { step } => progress.skipped(graph, &find(graph, step)?).ok_or(NOT_OPEN)?,
        Event::TimerSet { step, due, why, .. } => {
            let step_path = find(graph, step)?;
            match why {
                TimerPurpose::Retry => fold.open.back_off(step, *due).ok_or(NOT_OPEN)?,
                TimerPurpose::Pace => {
                    fold.open.pace(step, *due).ok_or(NOT_OPEN)?;
                    progress.paced(graph, &step_path, Pacing::Waits);
                }
                TimerPurpose::Sleep | TimerPurpose::After => return Err("a graph sets no timer with this purpose"),
            }
        }
        Event::TimerFired { step, .. } => {
            let step_path = find(graph, step)?;
            match fold.open.fire(step).ok_or(NOT_OPEN)? {
                Fired::Pace => progress.paced(graph, &step_path, Pacing::May),
                Fired::Retry => {}
            }
        }
        Event::RunPaused { .. }
        | Event::RunResumed
        | Event::RunCompleted { .. }
        | Event::RunFailed { .. }
        | Event::RunCancelled { .. } => {}
        Event::WaitOpened { .. }
        | Event::WaitResolved { .. }
        | Event::SignalBuffered { .. }
        | Event::TurnStarted { .. }
        | Event::TurnLost { .. } => return Err("it belongs to a code workflow"),
        Event::TransitionApplied(_) | Event::VoteCast(_) | Event::Assigned(_) => {
            return Err("it belongs to a state machine");
        }
    }
    Ok(since)
}

/// `None` if the step must not be dispatched.
fn dispatched(
    graph: &Graph,
    progress: &mut Progress,
    fold: &mut Fold<'_>,
    step_path: &StepPath,
    (step, attempt, dispatch): (&StepKey, u32, &Dispatch),
) -> Option<()> {
    // An open step is dispatched again only if its task was lost or it is retried.
    let is_again = |open: &Open| matches!(open.activity, Activity::Task | Activity::Again);
    if fold.open.get(step).is_some_and(|open| !is_again(open)) && !fold.open.has_foreign_child(fold.run, step) {
        return None;
    }
    let by_topic = matches!(graph.node(step_path.node).kind, NodeKind::Wait { is_approval: false, .. });
    fold.open.dispatch(fold.run, (step, attempt), dispatch, by_topic, fold.entry.at);
    let items = match dispatch {
        Dispatch::Body { items } => Some(items.as_slice()),
        Dispatch::Publish | Dispatch::Delivery(_) => return None,
        Dispatch::Task | Dispatch::Instant | Dispatch::Delay { .. } | Dispatch::Wait { .. } | Dispatch::Child(_) => {
            None
        }
    };
    progress.dispatched(graph, step_path, items)
}

fn failed(
    graph: &Graph,
    progress: &mut Progress,
    fold: &mut Fold<'_>,
    step: &StepKey,
    step_path: &StepPath,
    failure: &Failure,
) -> Option<()> {
    let node = graph.node(step_path.node);
    let mut open = fold.open.close(step)?;
    open.failures += 1;
    open.retry_after_ms = failure.retry_after_ms;
    open.crashes = 0;
    if fold.phase.is_live() {
        fold.open.leave_late_child(fold.run, &open, failure, fold.entry);
    }
    let may_retry = matches!(open.activity, Activity::Task | Activity::Child(_));
    if may_retry && node.retry.retries(open.failures, failure) {
        (open.activity, open.timer, open.since) = (Activity::Failed, None, fold.entry.at);
        fold.open.insert(step.clone(), open);
        return Some(());
    }
    let (is_handled, dropped) = progress.failed(graph, step_path, failure)?;
    if is_handled {
        if let Some(variable) = &node.output_variable {
            let error = serde_json::json!({"error": {"code": failure.code, "message": failure.message}});
            progress.set(&step_path.path, variable, Payload::from(error));
        }
    } else {
        progress.failed.insert(step.clone(), open.attempt);
    }
    if let Some(prefix) = dropped {
        fold.open.drop_within(fold.run, &prefix, fold.entry.seq);
        progress.drop_failed(&prefix);
    }
    Some(())
}

/// A failed run is retried.
///
/// 1. The failure of the run cancelled the children that it waited for: their steps are dispatched again.
/// 2. A failed loop or scope continues where it was, under its next attempt.
/// 3. Every other failed step is dispatched again.
fn retry(graph: &Graph, progress: &mut Progress, fold: &mut Fold<'_>) {
    for step in fold.open.waiting_for_children() {
        if let Some(open) = fold.open.close(&step) {
            fold.open.insert(step, Open { activity: Activity::Again, timer: None, ..open });
        }
    }
    fold.open.forget_crashes();
    for (step, attempt) in std::mem::take(&mut progress.failed) {
        let Some(step_path) = StepPath::find(graph, &step) else { continue };
        let (activity, attempt) =
            if progress.is_under_way(&step_path) { (Activity::Body, attempt + 1) } else { (Activity::Again, attempt) };
        fold.open.insert(step, Open::new(attempt, activity, None, fold.entry.at));
        progress.reopen(graph, &step_path);
    }
}

/// Sets the variables that a completed step writes to the context.
fn set_variables(graph: &Graph, progress: &mut Progress, step_path: &StepPath, outcome: &Outcome) {
    let node = graph.node(step_path.node);
    if let NodeKind::End { .. } = node.kind {
        let mut fields = progress.ends_output().clone();
        if let Some(Value::Object(more)) = outcome.output.value().get("workflowOutput") {
            fields.extend(more.clone());
        }
        progress.set(&ScopePath::default(), "output", Payload::from(Value::Object(fields)));
    }
    let Some(variable) = &node.output_variable else { return };
    // If the output has a field with the variable's name, the variable is that field. Most outputs have no such field;
    // they are not parsed to find that out.
    let json = outcome.output.json();
    let named = if json.starts_with('{') && (json.contains(variable.as_str()) || json.contains("\\u")) {
        outcome.output.value().get(variable).cloned().map(Payload::from)
    } else {
        None
    };
    progress.set(&step_path.path, variable, named.unwrap_or_else(|| outcome.output.clone()));
}
