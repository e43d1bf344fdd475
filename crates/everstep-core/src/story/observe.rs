//! Reads entries as updates for observers without a story.

use super::read::{StepContext, read};
use super::update::Update;
use crate::ids::StepKey;
use crate::journal::{Entry, TimerPurpose};
use crate::run::State;
use crate::run::decide::SettledStep;
use crate::style;
use crate::workflow::Workflow;

/// Reads an entry that was just committed, for observers without a story. `settled` has the facts about its step before
/// the entry; `state` is the run's state after it. Both the workflow and the state are none for a run that this build
/// cannot read.
pub fn observe<'e>(
    entry: &'e Entry,
    settled: Option<&'e SettledStep>,
    run: Option<(&'e Workflow, &'e State)>,
) -> Option<Update<'e>> {
    let context = entry.event.step().map(|(key, _)| observed(key, entry, settled, run)).unwrap_or_default();
    read(entry, context)
}

fn observed<'e>(
    key: &'e StepKey,
    entry: &'e Entry,
    settled: Option<&'e SettledStep>,
    run: Option<(&'e Workflow, &'e State)>,
) -> StepContext<'e> {
    let node = run.map_or_else(|| key.node_name().into(), |(workflow, _)| workflow.style.name_of(key));
    let delivery =
        settled.and_then(|settled| settled.delivery.as_deref()).or(entry.event.delivery().map(|delivery| &**delivery));
    let kind = match delivery {
        Some(delivery) => Some(delivery.kind.as_str()),
        None => run.and_then(|(workflow, state)| style::step_kind(workflow, state, key)),
    };
    let since = settled.and_then(|settled| settled.since);
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
