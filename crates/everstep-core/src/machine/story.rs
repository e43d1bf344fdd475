//! The story's questions about the steps of a machine: the timers of its states, the runs that they start, and the
//! deliveries of its transitions.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::model::Machine;
use crate::ids::StepKey;
use crate::journal::{Delivery, Event};
use crate::run::State;
use crate::workflow::Workflow;

/// A step's key and the definition show its kind. The kind of a delivery is in the entry that has decided it: the ids of
/// side effects are unique in their list only, and two states may have the same list. Its config is not kept:
/// readers keep the story of a long run for as long as they follow it.
#[derive(Clone, Debug)]
pub(crate) struct StepFacts {
    workflow: Arc<Workflow>,
    kinds: BTreeMap<StepKey, Box<str>>,
}

impl StepFacts {
    pub(crate) fn new(workflow: &Arc<Workflow>) -> Self {
        Self { workflow: Arc::clone(workflow), kinds: BTreeMap::new() }
    }

    /// Reads the open deliveries of a later state.
    pub(crate) fn learn(&mut self, state: &State) {
        for (key, _, open) in state.open.deliveries() {
            self.note_delivery(key, &open.delivery);
        }
    }

    pub(crate) fn note(&mut self, key: &StepKey, event: &Event) {
        if let Some(delivery) = event.delivery() {
            self.note_delivery(key, delivery);
        }
    }

    fn note_delivery(&mut self, key: &StepKey, delivery: &Delivery) {
        self.kinds.insert(key.clone(), delivery.kind.as_str().into());
    }

    pub(crate) fn kind(&self, key: &StepKey) -> Option<&str> {
        match self.kinds.get(key) {
            Some(kind) => Some(kind),
            None => step_kind(self.workflow.style.machine()?, key),
        }
    }
}

pub(crate) fn step_kind(machine: &Machine, key: &StepKey) -> Option<&'static str> {
    match key.as_str() {
        text if text.starts_with("@run[") => Some("workflow"),
        _ if is_of_state(key) => Some("after"),
        _ => machine.delivery_kind(key),
    }
}

/// Whether a step is closed when its state is left: a timer, or the run that the state waits for.
pub(crate) fn is_of_state(key: &StepKey) -> bool {
    let key = key.as_str();
    let is_timer = key.starts_with("@after[") && key.matches('.').count() == 1;
    is_timer || key.starts_with("@run[")
}

/// The key of a step without its numbers: `APPROVE.tell-erp` of `APPROVE[7].tell-erp`. A definition has few of them.
pub(crate) fn name_of(key: &StepKey) -> Cow<'_, str> {
    let key = key.as_str();
    if !key.contains('[') {
        return Cow::Borrowed(key);
    }
    let mut name = String::with_capacity(key.len());
    let mut is_inside = false;
    for letter in key.chars() {
        match letter {
            '[' => is_inside = true,
            ']' => is_inside = false,
            letter if !is_inside => name.push(letter),
            _ => {}
        }
    }
    Cow::Owned(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_has_a_name_without_numbers_of_versions() {
        for (key, name, is_timer_or_run) in [
            ("@after[7].2", "@after.2", true),
            ("@run[12]", "@run", true),
            ("APPROVE[7].tell-erp", "APPROVE.tell-erp", false),
            ("APPROVE[7].1.webhook-0", "APPROVE.1.webhook-0", false),
            ("@after[7].2.remind", "@after.2.remind", false),
            ("@after[7].2[3].remind", "@after.2.remind", false),
            ("@entry[7].a", "@entry.a", false),
        ] {
            assert_eq!((&*name_of(&key.into()), is_of_state(&key.into())), (name, is_timer_or_run), "{key}");
        }
    }
}
