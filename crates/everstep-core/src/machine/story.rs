//! The story's questions about the steps of a machine: the timers of its states, and the runs that they start.

use crate::ids::StepKey;

/// A step's key shows its kind, so that no other fact is needed.
#[derive(Clone, Debug, Default)]
pub(crate) struct StepFacts;

impl StepFacts {
    pub(crate) fn kind(&self, key: &StepKey) -> Option<&'static str> {
        step_kind(key)
    }
}

pub(crate) fn step_kind(key: &StepKey) -> Option<&'static str> {
    match key.as_str() {
        key if key.starts_with("@after[") => Some("after"),
        key if key.starts_with("@run[") => Some("workflow"),
        _ => None,
    }
}
