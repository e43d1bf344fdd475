//! The deliveries of a run: those that are open, and those that have just become dead letters.
//!
//! 1. A delivery is open from its decision until it was performed, or until its last attempt has failed.
//! 2. If its last attempt fails, or the run ends before it was performed, it is a dead letter of the same item.
//! 3. A fork performs none of the deliveries that its original has decided, and has no dead letters for them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::State;
use crate::dead_letter::{DeadLetter, DeadLetterAttempt, DeadLetterSource, target_without_credentials};
use crate::failure::Failure;
use crate::ids::{RunId, StepKey, WorkspaceId};
use crate::journal::{Delivery, Entry};
use crate::machine;
use crate::payload::Payload;
use crate::planted::{self, Bug};
use crate::time::Timestamp;
use crate::workflow::Workflow;

/// A delivery that is not yet performed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OpenDelivery {
    pub(crate) delivery: Arc<Delivery>,
    /// The entry of the transition that decided it, or of the last one before it.
    pub(crate) seq: u64,
    pub(crate) at: Timestamp,
    /// The failed attempts so far.
    pub(crate) attempts: Vec<DeadLetterAttempt>,
}

impl OpenDelivery {
    pub(crate) fn new(delivery: Arc<Delivery>, seq: u64, at: Timestamp) -> Self {
        Self { delivery, seq, at, attempts: Vec::new() }
    }

    /// Whether this run has decided it, and not the run of which it is a fork.
    pub(crate) fn is_of(&self, run: RunId, step: &StepKey) -> bool {
        planted::is_planted(Bug::ForkDeliversAgain) || self.delivery.is_of(run, step)
    }

    /// The config that its handler receives: as it was decided, with the entry of its transition.
    pub(crate) fn config(&self, run: RunId) -> Value {
        let mut config = self.delivery.config.value().clone();
        if let Some(Value::Object(data)) = config.pointer_mut("/delivery/data") {
            data.insert("historyId".into(), machine::history_id(run, self.seq, self.at).to_string().into());
            data.insert("seq".into(), self.seq.into());
        }
        config
    }

    pub(crate) fn record_failure(&mut self, began_at: Timestamp, at: Timestamp, failure: &Failure) {
        let ms = u64::try_from(at.since(began_at).as_millis()).unwrap_or(u64::MAX);
        self.attempts.push(DeadLetterAttempt::failed(began_at, ms, failure));
    }

    fn weight(&self) -> usize {
        256 + self.delivery.config.size()
    }
}

/// A delivery that will not be performed, unless its dead letter is requeued.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeadDelivery {
    /// The seq of the entry that made it dead.
    seq: u64,
    step: StepKey,
    attempt: u32,
    delivery: Box<OpenDelivery>,
}

/// The number of open deliveries, and those that became dead at the time of the last entry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Deliveries {
    open: usize,
    bytes: usize,
    /// Those of an earlier time are removed: the item that contains their entry wrote their dead letters, and an item
    /// is decided at one time.
    dead: Vec<DeadDelivery>,
}

impl Deliveries {
    pub(crate) fn are_none(&self) -> bool {
        self.open == 0 && self.dead.is_empty()
    }

    pub(crate) fn has_open(&self) -> bool {
        self.open > 0
    }

    pub(crate) fn weight(&self) -> usize {
        self.bytes + self.dead.iter().map(|dead| dead.delivery.weight()).sum::<usize>()
    }

    pub(crate) fn open(&mut self, delivery: &OpenDelivery) {
        self.open += 1;
        self.bytes += delivery.weight();
    }

    pub(crate) fn close(&mut self, delivery: &OpenDelivery) {
        self.open -= 1;
        self.bytes -= delivery.weight();
    }

    /// Records that a delivery is dead.
    pub(crate) fn bury(&mut self, seq: u64, step: &StepKey, attempt: u32, delivery: Box<OpenDelivery>) {
        self.dead.push(DeadDelivery { seq, step: step.clone(), attempt, delivery });
    }

    pub(crate) fn forget_dead(&mut self) {
        self.dead.clear();
    }

    pub(crate) fn dead_since(&self, seq: u64) -> &[DeadDelivery] {
        &self.dead[self.dead.partition_point(|dead| dead.seq < seq)..]
    }
}

/// The dead letters that follow from the entries of one item. `state` is the state after the item.
///
/// **Invariant**: the entries of one item were decided at one time.
pub fn dead_letters_after(
    workflow: &Workflow,
    workspace: WorkspaceId,
    state: &State,
    entries: &[Entry],
) -> Vec<DeadLetter> {
    let Some(first) = entries.first() else { return Vec::new() };
    let dead = state.open.dead_since(first.seq).iter();
    dead.map(|dead| dead_letter(workflow, workspace, state, dead)).collect()
}

fn dead_letter(workflow: &Workflow, workspace: WorkspaceId, state: &State, dead: &DeadDelivery) -> DeadLetter {
    let DeadDelivery { step, attempt, delivery, .. } = dead;
    let (run, at) = (state.run, state.updated_at);
    let decided = &delivery.delivery;
    let mut config = delivery.config(run);
    if !decided.is_task()
        && let Value::Object(fields) = &mut config
    {
        let cause = serde_json::to_value(state.cause_of_delivery(step, *attempt)).expect("a cause is plain data");
        fields.insert("cause".into(), cause);
    }
    let config = Payload::from(config);
    let target = match &config.value()[if decided.is_task() { "target" } else { "workflow" }] {
        Value::Array(recipients) => recipients.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
        target => target.as_str().unwrap_or_default().to_owned(),
    };
    DeadLetter {
        id: DeadLetter::id_of_step(run, step, *attempt, at),
        workspace,
        source: DeadLetterSource::Delivery,
        kind: decided.kind.clone(),
        run: Some(run),
        workflow: Some(workflow.name.clone()),
        step: Some(step.clone()),
        delivery: decided.id.to_string(),
        history: Some(machine::history_id(run, delivery.seq, delivery.at)),
        event: None,
        subscription: None,
        target: target_without_credentials(&target),
        written: (!decided.secrets.is_empty()).then(|| config.clone()),
        config,
        secrets: decided.secrets.clone(),
        attempts: delivery.attempts.clone(),
        created_at: at,
    }
}
