//! The subscriptions that the active version of a workflow declares.

use everstep_core::ids::{SubscriptionId, WorkspaceId};
use everstep_core::limits;
use everstep_core::payload::Payload;
use everstep_core::time::Timestamp;
use everstep_core::topics::{DeclaredTrigger, Origin, Subscription, Target};
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

/// How the subscriptions of a workflow change when another version becomes active.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct TriggerChanges {
    pub(crate) removed: Vec<SubscriptionId>,
    pub(crate) added: Vec<Subscription>,
}

impl TriggerChanges {
    /// Whether the workspace may need more room for subscriptions.
    pub(crate) fn adds_some(&self) -> bool {
        self.added.len() > self.removed.len()
    }

    /// Checks that the workspace has room for the added ones, beside the number of those that stay.
    pub(crate) fn check_quota(&self, others: u64) -> Result<()> {
        let is_too_many = others + self.added.len() as u64 > limits::SUBSCRIPTIONS as u64;
        if is_too_many { Err(Error::QuotaReached(others)) } else { Ok(()) }
    }
}

/// Compares the subscriptions of a workflow with the triggers of its active version. `definition` is none if no version
/// is active. A trigger that the version keeps keeps its subscription, also a paused one.
pub(crate) fn trigger_changes(
    workspace: WorkspaceId,
    workflow: &str,
    definition: Option<&Payload>,
    known: &[Subscription],
    now: Timestamp,
) -> TriggerChanges {
    let mut kept = vec![false; known.len()];
    let mut added: Vec<Subscription> = Vec::new();
    for (place, trigger) in definition.map(DeclaredTrigger::of_definition).unwrap_or_default().into_iter().enumerate() {
        let is_same = |(index, subscription): &(usize, &Subscription)| {
            !kept[*index]
                && subscription.pattern == trigger.pattern
                && subscription.filter == trigger.filter
                && subscription.input == trigger.input
        };
        if let Some((index, _)) = known.iter().enumerate().find(is_same) {
            kept[index] = true;
            continue;
        }
        let target = Target::Workflow { name: workflow.to_owned(), version: None, retention_days: None, key: None };
        added.push(Subscription {
            id: subscription_id(workspace, workflow, &trigger, place, now),
            workspace,
            pattern: trigger.pattern,
            filter: trigger.filter,
            target,
            input: trigger.input,
            origin: Origin::Workflow(workflow.to_owned()),
            paused_at: None,
            created_at: now,
        });
    }
    let removed = known.iter().zip(kept).filter(|(_, kept)| !kept).map(|(subscription, _)| subscription.id).collect();
    TriggerChanges { removed, added }
}

/// An id that no other trigger has: its random part is a digest, so that a repeated transaction is the same.
fn subscription_id(
    workspace: WorkspaceId,
    workflow: &str,
    trigger: &DeclaredTrigger,
    place: usize,
    now: Timestamp,
) -> SubscriptionId {
    let mut hasher = Sha256::new();
    hasher.update(workspace.uuid().as_bytes());
    hasher.update(workflow);
    hasher.update(now.micros().to_be_bytes());
    hasher.update((place as u64).to_be_bytes());
    hasher.update(trigger.to_json().to_string());
    let digest = hasher.finalize();
    let random = u128::from_be_bytes(digest[..16].try_into().expect("a digest has 32 bytes"));
    SubscriptionId::new(now, random)
}
