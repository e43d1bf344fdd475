//! A run of a code workflow: the events that follow without an input, and the views of its state for readers.

use std::collections::BTreeMap;

use serde::Serialize;

use super::progress::{End, Progress};
use super::report::StepKind;
use crate::ids::StepKey;
use crate::journal::{Dispatch, Event};
use crate::payload::Payload;
use crate::run::{Activity, Child, Cx, Open, State};
use crate::status::StepStatus;

pub(super) fn progress(state: &State) -> &Progress {
    state.code().expect("the state of a code workflow's run has a code workflow's progress")
}

/// The events that follow from the state alone: a fork makes the open calls of its original again.
pub(crate) fn next(state: &State, cx: Cx<'_>) -> Vec<Event> {
    let Some(step) = state.open.first_todo() else { return Vec::new() };
    let Some(Open { activity: Activity::Child(child), attempt, .. }) = state.open.get(step) else { return Vec::new() };
    let attempt = attempt + 1;
    let child = Child { run: Child::id(state.run, step, attempt, cx.now), ..Child::clone(child) };
    vec![Event::StepDispatched { step: step.clone(), attempt, dispatch: Dispatch::Child(child.into()) }]
}

/// The status of a step that is not open.
pub(crate) fn step_status(state: &State, step: &StepKey) -> Option<StepStatus> {
    Some(match &progress(state).step(step)?.end {
        Some(End::Failure(_)) => StepStatus::Failed,
        Some(End::Output(_) | End::Slept | End::Signal(_) | End::Timeout | End::Event { .. }) => StepStatus::Completed,
        None if state.has_ended() => StepStatus::Cancelled,
        None => StepStatus::Running,
    })
}

/// The input and the outputs of the steps so far, by name.
pub(crate) fn context(state: &State) -> Payload {
    #[derive(Serialize)]
    struct Context<'a> {
        input: &'a Payload,
        steps: BTreeMap<&'a str, &'a Payload>,
    }
    let outputs = progress(state).steps().filter_map(|(name, step)| match &step.end {
        Some(End::Output(output) | End::Signal(output) | End::Event { data: output, .. }) => {
            Some((name.as_str(), output))
        }
        Some(End::Failure(_) | End::Slept | End::Timeout) | None => None,
    });
    let context = Context { input: &state.input, steps: outputs.collect() };
    Payload::from_raw(serde_json::value::to_raw_value(&context).expect("payloads are JSON"))
}

/// Compares the counted number of retryable steps and of bytes with the numbers found in the steps.
pub(crate) fn check_counts(state: &State) -> Result<(), String> {
    let progress = progress(state);
    let is_ready = |(step, known): &(&StepKey, &super::Step)| {
        known.kind == StepKind::Run && known.end.is_none() && !state.open.contains(step)
    };
    let ends = progress.steps().filter_map(|(_, step)| step.end.as_ref()).map(End::size);
    let kept = progress.buffered.iter().map(|kept| kept.payload.size());
    let awaited = state.open.iter().filter_map(|(_, open)| open.activity.awaited()).map(|(_, pattern)| pattern.size());
    let found = (progress.steps().filter(is_ready).count(), ends.chain(kept).chain(awaited).sum::<usize>());
    let counted = (progress.ready, progress.bytes);
    match found == counted {
        true => Ok(()),
        false => Err(format!("the counts of retryable steps and bytes are {counted:?} and should be {found:?}")),
    }
}
