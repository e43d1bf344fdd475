//! What a node has taken and not yet settled.

use std::collections::{BTreeMap, BTreeSet};

use everstep_core::ids::{DeadLetterId, NodeId, WorkspaceId};
use everstep_store::{DeadLetterOutcome, DeadLetterResult, LetterTarget};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};

/// The dead letters that a node performs at the same time, or has waiting for a place.
const LETTERS_MAX: usize = 512;
/// The same of one workspace: its requeues leave room for those of others.
const WORKSPACE_LETTERS_MAX: usize = 384;
/// The same for one target of a workspace: a target that hangs leaves room for the requeues to others.
const TARGET_LETTERS_MAX: usize = 16;
/// The dead letters that are taken in one call. All of them may have the same target.
const TAKEN_LETTERS_MAX: usize = 16;
/// The notices that a node sends at the same time.
const NOTICES_MAX: usize = 8;

/// The work of a node under one id. It is dropped when the node is fenced: others take it.
pub(super) struct Held {
    pub(super) node: NodeId,
    letters: BTreeMap<DeadLetterId, LetterTarget>,
    notices: BTreeSet<DeadLetterId>,
    working: FuturesUnordered<BoxFuture<'static, DeadLetterResult>>,
    /// To be written.
    pub(super) results: Vec<DeadLetterResult>,
}

impl Held {
    pub(super) fn new(node: NodeId) -> Self {
        Self {
            node,
            letters: BTreeMap::new(),
            notices: BTreeSet::new(),
            working: FuturesUnordered::new(),
            results: Vec::new(),
        }
    }

    pub(super) fn letters(&self) -> Vec<DeadLetterId> {
        self.letters.keys().copied().collect()
    }

    pub(super) fn notices(&self) -> Vec<DeadLetterId> {
        self.notices.iter().copied().collect()
    }

    /// The number of dead letters that may be taken.
    pub(super) fn room(&self) -> usize {
        (LETTERS_MAX - self.letters.len().min(LETTERS_MAX)).min(TAKEN_LETTERS_MAX)
    }

    /// The number of notices that may be taken.
    pub(super) fn notice_room(&self) -> usize {
        NOTICES_MAX - self.notices.len().min(NOTICES_MAX)
    }

    /// Workspaces that hold their share.
    pub(super) fn crowded(&self) -> Vec<WorkspaceId> {
        full(self.letters.values().map(|target| target.workspace), WORKSPACE_LETTERS_MAX)
    }

    /// Targets that hold their share.
    pub(super) fn crowded_targets(&self) -> Vec<LetterTarget> {
        full(self.letters.values(), TARGET_LETTERS_MAX).into_iter().cloned().collect()
    }

    pub(super) fn add_letter(
        &mut self,
        id: DeadLetterId,
        target: LetterTarget,
        work: BoxFuture<'static, DeadLetterResult>,
    ) {
        self.letters.insert(id, target);
        self.working.push(work);
    }

    pub(super) fn add_notice(&mut self, id: DeadLetterId, work: BoxFuture<'static, DeadLetterResult>) {
        self.notices.insert(id);
        self.working.push(work);
    }

    /// Waits until some work is done.
    pub(super) async fn work(&mut self) {
        let Some(result) = self.working.next().await else { return std::future::pending().await };
        self.results.push(result);
        while let Some(Some(result)) = self.working.next().now_or_never() {
            self.results.push(result);
        }
    }

    /// The results were written.
    pub(super) fn settled(&mut self) {
        for result in self.results.drain(..) {
            match result.outcome {
                DeadLetterOutcome::Performed(_) => _ = self.letters.remove(&result.id),
                DeadLetterOutcome::Notified | DeadLetterOutcome::NotNotified => _ = self.notices.remove(&result.id),
            }
        }
    }
}

/// The keys that occur as often as the maximum says, or more often.
fn full<K: Ord>(keys: impl Iterator<Item = K>, max: usize) -> Vec<K> {
    let mut counts: BTreeMap<K, usize> = BTreeMap::new();
    for key in keys {
        *counts.entry(key).or_default() += 1;
    }
    counts.into_iter().filter(|(_, count)| *count >= max).map(|(key, _)| key).collect()
}
