//! Runs that a run starts, and the run that started it.
//!
//! 1. A child's id is chosen at dispatch and is part of `StepDispatched`. Every attempt has a child of its own.
//! 2. The end of a child is the result of a step that waits for it; any other step completes when its child exists.
//! 3. A child is cancelled when its step stops waiting for it: the run ended, the step timed out, or the iteration
//!    around it was dropped. A child for which no step waits is independent of its parent.
//! 4. A fork has its original's journal, but neither its children nor its parent: the id of a child shows which run it
//!    belongs to. An open child of the original stays with the original, and the fork dispatches its step again; a fork
//!    sends nothing to the parent of its original.

use serde::{Deserialize, Serialize};

use super::State;
use crate::failure::{Failure, code};
use crate::ids::{RunId, StepKey};
use crate::limits;
use crate::payload::{self, Payload};
use crate::retry;
use crate::time::Timestamp;

/// The step that started a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Parent {
    pub run: RunId,
    pub step: StepKey,
    pub attempt: u32,
    /// Whether the step waits for the run's end.
    pub waits: bool,
    /// The number of ancestors of this run.
    pub depth: u32,
}

impl Parent {
    /// Whether the step started this run, and not the run of which this one is a fork.
    pub fn started(&self, run: RunId) -> bool {
        Child::is_id(run, self.run, &self.step, self.attempt)
    }
}

/// A run that a step starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Child {
    pub run: RunId,
    pub workflow: String,
    /// `None` is the version that is active when the child starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    pub input: Payload,
    /// Whether the step waits for the child's end.
    pub waits: bool,
    /// When the step stops waiting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Timestamp>,
}

impl Child {
    /// The id of the child of one attempt: unique, and the same on every node that decides it at that time.
    pub fn id(parent: RunId, step: &StepKey, attempt: u32, now: Timestamp) -> RunId {
        let parent = parent.uuid().as_u128();
        let half = |run: u128| u128::from(retry::seed(run, step.as_str(), attempt));
        RunId::new(now, half(parent) << 64 | half(parent.rotate_left(29) ^ u128::from(u64::MAX)))
    }

    /// Whether an id is a result of [`Child::id`] for some time.
    pub(crate) fn is_id(child: RunId, parent: RunId, step: &StepKey, attempt: u32) -> bool {
        let millis = i64::try_from(child.uuid().as_u128() >> 80).expect("a time has 48 bits");
        Self::id(parent, step, attempt, Timestamp::from_millis(millis)) == child
    }

    /// Whether this attempt of the run's own step started the child, and not an attempt of the run of which it is a
    /// fork.
    pub(crate) fn is_of(&self, run: RunId, step: &StepKey, attempt: u32) -> bool {
        Self::is_id(self.run, run, step, attempt)
    }

    /// The approximate memory of the child, in bytes.
    fn weight(&self) -> usize {
        128 + self.workflow.len() + self.input.size()
    }
}

/// Rejects a child of a run that has the maximum number of ancestors.
pub(crate) fn check_depth(state: &State) -> Result<(), Failure> {
    if state.depth() >= limits::CHILD_DEPTH {
        let message = format!("runs start one another at most {} levels deep", limits::CHILD_DEPTH);
        return Err(Failure::fatal(code::TOO_DEEP, message));
    }
    Ok(())
}

/// Rejects an input that exceeds a limit: the input is stored while the child is open.
pub(crate) fn check_input(step: &StepKey, input: &Payload, state: &State) -> Result<(), Failure> {
    let size = input.size();
    if size > limits::PAYLOAD_BYTES {
        let message = format!("the input from {step} has {size} bytes, more than {}", limits::PAYLOAD_BYTES);
        return Err(Failure::fatal(code::PAYLOAD_TOO_LARGE, message));
    }
    payload::check(input.json())
        .map_err(|error| Failure::fatal(error.code(), format!("the input from {step} {error}")))?;
    if state.weight() + size > limits::STATE_BYTES {
        let message = format!("with the input from {step} the run would exceed {} bytes", limits::STATE_BYTES);
        return Err(Failure::fatal(code::CONTEXT_TOO_LARGE, message));
    }
    Ok(())
}

/// The open children of a run, and those that it has just stopped waiting for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Children {
    /// The number of open steps that are children.
    open: usize,
    bytes: usize,
    /// Children to be cancelled, with the seq of the entry that stopped waiting for them. Those of an earlier time are
    /// removed: the item that contains their entry cancelled them, and an item is decided at one time.
    left: Vec<(u64, RunId)>,
}

impl Children {
    pub(crate) fn are_none(&self) -> bool {
        self.open == 0 && self.left.is_empty()
    }

    pub(crate) fn has_open(&self) -> bool {
        self.open > 0
    }

    pub(crate) fn weight(&self) -> usize {
        self.bytes + 24 * self.left.len()
    }

    pub(crate) fn open(&mut self, child: &Child) {
        self.open += 1;
        self.bytes += child.weight();
    }

    pub(crate) fn close(&mut self, child: &Child) {
        self.open -= 1;
        self.bytes -= child.weight();
    }

    /// Records that no step waits for a child now.
    pub(crate) fn leave(&mut self, seq: u64, child: &Child) {
        if child.waits {
            self.left.push((seq, child.run));
        }
    }

    pub(crate) fn forget_left(&mut self) {
        self.left.clear();
    }

    /// The children that entries from `seq` on stopped waiting for.
    pub(crate) fn left_since(&self, seq: u64) -> &[(u64, RunId)] {
        &self.left[self.left.partition_point(|(left, _)| *left < seq)..]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_attempt_of_every_step_has_a_child_of_its_own() {
        let now = Timestamp::from_millis(1_700_000_000_000);
        let mut ids = BTreeSet::new();
        for run in 0..50 {
            for step in ["a", "b", "each[0].a", "each[1].a", "ab"] {
                for attempt in 1..20 {
                    let parent = RunId::new(now, run);
                    let id = Child::id(parent, &step.into(), attempt, now);
                    assert_eq!(id, Child::id(parent, &step.into(), attempt, now));
                    assert_eq!((id.uuid().get_version_num(), id.uuid().as_u128() >> 80), (7, 1_700_000_000_000));
                    ids.insert(id);
                }
            }
        }
        assert_eq!(ids.len(), 50 * 5 * 19);
    }
}
