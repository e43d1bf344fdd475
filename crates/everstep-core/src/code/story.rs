//! The facts that a story needs about the steps of a code workflow.

use std::collections::BTreeMap;

use super::progress::Progress;
use super::report::StepKind;
use crate::ids::StepKey;
use crate::journal::{Dispatch, Entry, Event, TimerPurpose};
use crate::run::{OpenActivity, State};
use crate::status::StepStatus;
use crate::story::{Activity, StepStory};
use crate::time::Timestamp;

/// The facts about steps that a single entry does not contain: the kind of a step, which its first entry determines.
#[derive(Clone, Debug, Default)]
pub(crate) struct StepFacts {
    kinds: BTreeMap<StepKey, StepKind>,
    /// The end of each sleep that began before the first entry of the story.
    sleeping: BTreeMap<StepKey, Timestamp>,
}

impl StepFacts {
    pub(crate) fn learn(&mut self, state: &State) {
        let known = state.code().into_iter().flat_map(Progress::steps);
        self.kinds.extend(known.map(|(key, step)| (key.clone(), step.kind)));
        let sleeping = state.open().filter_map(|open| match open.activity {
            OpenActivity::Delay { due } => Some((open.step.clone(), due?)),
            OpenActivity::Task
            | OpenActivity::Wait { .. }
            | OpenActivity::Child(_)
            | OpenActivity::Backoff { .. }
            | OpenActivity::Body { .. }
            | OpenActivity::Soon => None,
        });
        self.sleeping.extend(sleeping);
    }

    pub(crate) fn note(&mut self, key: &StepKey, event: &Event) {
        if let Some(kind) = first_kind(event).filter(|_| !self.kinds.contains_key(key)) {
            self.kinds.insert(key.clone(), kind);
        }
    }

    pub(crate) fn kind(&self, key: &StepKey) -> Option<&'static str> {
        self.kinds.get(key).map(|kind| name(*kind))
    }

    pub(crate) fn sleeps_until(&self, key: &StepKey) -> Option<Timestamp> {
        self.sleeping.get(key).copied()
    }
}

/// The kind of a step in the journal.
pub(crate) fn step_kind(state: &State, key: &StepKey) -> Option<&'static str> {
    state.code()?.step(key).map(|step| name(step.kind))
}

/// When an attempt began that has no entry for its beginning: a worker reports a step when it has ended.
pub(crate) fn began_at(entry: &Entry) -> Option<Timestamp> {
    match &entry.event {
        Event::StepCompleted { outcome, .. } => outcome.started_at.or(Some(entry.at)),
        Event::StepFailed { started_at, .. } => started_at.or(Some(entry.at)),
        Event::RunStarted { .. }
        | Event::StepDispatched { .. }
        | Event::StepSkipped { .. }
        | Event::TimerSet { .. }
        | Event::TimerFired { .. }
        | Event::TransitionApplied(_)
        | Event::VoteCast(_)
        | Event::Assigned(_)
        | Event::ContextSet { .. }
        | Event::WaitOpened { .. }
        | Event::WaitResolved { .. }
        | Event::SignalBuffered { .. }
        | Event::TurnStarted { .. }
        | Event::TurnLost { .. }
        | Event::RunPaused { .. }
        | Event::RunResumed
        | Event::RunRetried
        | Event::RunCompleted { .. }
        | Event::RunFailed { .. }
        | Event::RunCancelled { .. } => None,
    }
}

/// The steps that a retry of the run reopens: those that were open when it ended, and the failures that are retried by
/// the rules of `Progress::retried`.
pub(crate) fn reopened(steps: &BTreeMap<u64, StepStory>, failed_step: Option<&StepStory>) -> Vec<(u64, StepStatus)> {
    let from = find_failures_to_retry(steps, failed_step);
    let status = |step: &StepStory| match step.reopens {
        // The other run was cancelled together with this one. The function calls it again.
        Some(StepStatus::Waiting) if is_call(step) => Some(StepStatus::Running),
        Some(status) => Some(status),
        None if has_failed(step) && step.seq >= from => Some(StepStatus::Running),
        None => None,
    };
    steps.iter().filter_map(|(first_seq, step)| Some((*first_seq, status(step)?))).collect()
}

/// The entry from which failures are retried: that of the step which caused the failure of the run, or else the last
/// entry that is not a failure.
fn find_failures_to_retry(steps: &BTreeMap<u64, StepStory>, failed_step: Option<&StepStory>) -> u64 {
    let failed = failed_step.filter(|step| has_failed(step));
    let others = steps.values().filter(|step| !has_failed(step)).map(|step| step.seq);
    failed.map(|step| step.seq).or_else(|| others.max()).unwrap_or(0)
}

fn is_call(step: &StepStory) -> bool {
    matches!(step.activity, Activity::Child { .. })
}

/// Whether a step failed and is not retried.
fn has_failed(step: &StepStory) -> bool {
    step.status == StepStatus::Failed
}

/// The kind of a step, by its first entry.
fn first_kind(event: &Event) -> Option<StepKind> {
    match event {
        Event::StepCompleted { .. } | Event::StepFailed { .. } => Some(StepKind::Run),
        Event::TimerSet { why: TimerPurpose::Sleep, .. } => Some(StepKind::Sleep),
        Event::WaitOpened { .. } | Event::WaitResolved { .. } => Some(StepKind::Wait),
        // A rejected call is instant.
        Event::StepDispatched { dispatch: Dispatch::Child(_) | Dispatch::Instant, .. } => Some(StepKind::Call),
        Event::StepDispatched { dispatch: Dispatch::Publish, .. } => Some(StepKind::Publish),
        Event::StepDispatched { .. }
        | Event::StepSkipped { .. }
        | Event::TimerSet { .. }
        | Event::TimerFired { .. }
        | Event::RunStarted { .. }
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
        | Event::RunCancelled { .. } => None,
    }
}

/// The name that clients see.
fn name(kind: StepKind) -> &'static str {
    match kind {
        StepKind::Run => "run",
        StepKind::Sleep => "sleep",
        StepKind::Wait => "wait",
        StepKind::Call => "call",
        StepKind::Publish => "publish",
    }
}
