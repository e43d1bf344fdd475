//! Reads entries as updates for observers without a story.

use super::read::{StepContext, read};
use super::update::Update;
use crate::ids::StepKey;
use crate::journal::{Entry, TimerPurpose};
use crate::run::State;
use crate::style;
use crate::time::Timestamp;
use crate::workflow::Workflow;

/// Reads an entry that was just committed, for observers without a story. `since` is when the step that it settles
/// began; `state` is the run's state after the entry. Both the workflow and the state are none for a run that this
/// build cannot read.
pub fn observe<'e>(
    entry: &'e Entry,
    since: Option<Timestamp>,
    run: Option<(&'e Workflow, &'e State)>,
) -> Option<Update<'e>> {
    let context = entry.event.step().map(|(key, _)| observed(key, since, run)).unwrap_or_default();
    read(entry, context)
}

fn observed<'e>(key: &'e StepKey, since: Option<Timestamp>, run: Option<(&'e Workflow, &'e State)>) -> StepContext<'e> {
    let node = run.map_or_else(|| key.node_name().into(), |(workflow, _)| workflow.style.name_of(key));
    let kind = run.and_then(|(workflow, state)| style::step_kind(workflow, state, key));
    StepContext { node, kind: kind.map(Into::into), since, due: None, timer: Some(timer(kind)) }
}

/// The purpose of a timer of a step of this kind.
pub(super) fn timer(kind: Option<&str>) -> TimerPurpose {
    match kind {
        Some("sleep") => TimerPurpose::Sleep,
        Some("loop") => TimerPurpose::Pace,
        Some("after") => TimerPurpose::After,
        Some(_) | None => TimerPurpose::Retry,
    }
}
