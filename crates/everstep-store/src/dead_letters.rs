//! Rows of dead letters, as the store receives and returns them.

use everstep_core::dead_letter::{DeadLetter, DeadLetterAttempt, DeadLetterSource, DeadLetterStatus};
use everstep_core::ids::{DeadLetterId, EventId, NodeId, RunId, StepKey, SubscriptionId, WorkspaceId};
use everstep_core::payload::Payload;
use everstep_core::time::Timestamp;
use uuid::Uuid;

use crate::access::first_id;
use crate::error::{Error, Result};
use crate::texts;

/// A dead letter with its present status.
#[derive(Clone, Debug, PartialEq)]
pub struct DeadLetterRow {
    /// With all attempts. A row of a list has the config `null`, and no written config.
    pub letter: DeadLetter,
    pub status: DeadLetterStatus,
    /// The node that performs a requeue.
    pub taken_by: Option<NodeId>,
    /// When operations were notified.
    pub notified_at: Option<Timestamp>,
    /// When the status changed.
    pub changed_at: Timestamp,
    /// Why a caller has discarded it.
    pub reason: Option<String>,
}

/// Dead letters of a workspace. All conditions hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeadLetterFilter {
    /// Only this one.
    pub id: Option<DeadLetterId>,
    /// Only those after this one, in the order of their ids.
    pub after: Option<DeadLetterId>,
    pub status: Option<DeadLetterStatus>,
    pub source: Option<DeadLetterSource>,
    pub kind: Option<String>,
    pub workflow: Option<String>,
    pub run: Option<RunId>,
    /// The code of the last failed attempt.
    pub error: Option<String>,
    /// Written from this time on, to the millisecond.
    pub since: Option<Timestamp>,
    /// Written before this time, to the millisecond.
    pub until: Option<Timestamp>,
}

impl DeadLetterFilter {
    /// One dead letter.
    pub fn by_id(id: DeadLetterId) -> Self {
        Self { id: Some(id), ..Self::default() }
    }

    /// The range of ids: from the first, before the second.
    pub(crate) fn bounds(&self) -> (Uuid, Uuid) {
        let next = |id: DeadLetterId| Uuid::from_u128(id.uuid().as_u128().saturating_add(1));
        let (from, to) = (self.since.map_or(Uuid::nil(), first_id), self.until.map_or(Uuid::max(), first_id));
        let from = self.after.map_or(from, |after| from.max(next(after)));
        let Some(id) = self.id else { return (from, to) };
        (from.max(id.uuid()), to.min(next(id)))
    }

    /// Whether a row with the status `dead` can match.
    pub(crate) fn selects_dead(&self) -> bool {
        !self.is_empty() && self.status.is_none_or(|status| status == DeadLetterStatus::Dead)
    }

    /// Whether no row can match, because a text has a NUL character.
    pub(crate) fn is_empty(&self) -> bool {
        [&self.kind, &self.workflow, &self.error].into_iter().flatten().any(|text| texts::has_nul(text))
    }
}

/// A page of dead letters, newest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeadLetterQuery {
    pub filter: DeadLetterFilter,
    /// Dead letters before this one.
    pub before: Option<DeadLetterId>,
    pub limit: usize,
}

impl DeadLetterQuery {
    /// The range of ids: from the first, before the second.
    pub(crate) fn bounds(&self) -> (Uuid, Uuid) {
        let (from, to) = self.filter.bounds();
        (from, self.before.map_or(to, |before| before.uuid().min(to)))
    }
}

/// The dead letters that were queued, or discarded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangedLetters {
    pub count: u64,
    /// The last one, in the order of their ids.
    pub last: Option<DeadLetterId>,
}

/// What a node takes.
#[derive(Clone, Debug, PartialEq)]
pub struct DeadLetterClaim {
    /// The number of queued dead letters to take.
    pub letters_max: usize,
    /// The dead letters that the node performs, or whose result it writes. They are not taken, also if they were queued
    /// again: a result that is sent again would end the later requeue. Others that the node has taken are returned
    /// again: the reply to an earlier call was lost.
    pub held: Vec<DeadLetterId>,
    /// Workspaces of which the node takes no more.
    pub crowded: Vec<WorkspaceId>,
    /// Targets for which the node takes no more.
    pub crowded_targets: Vec<LetterTarget>,
    /// The number of notices to take.
    pub notices_max: usize,
    /// The dead letters of whose notices the same holds.
    pub held_notices: Vec<DeadLetterId>,
    /// Notices are sent of dead letters that were written from this time on.
    pub notices_since: Timestamp,
}

/// The target of the dead letters of a workspace that wait for the same server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LetterTarget {
    pub workspace: WorkspaceId,
    pub kind: String,
    /// As [`DeadLetter::target_prefix`] returns it.
    pub prefix: String,
}

impl LetterTarget {
    pub fn from_letter(letter: &DeadLetter) -> Self {
        Self { workspace: letter.workspace, kind: letter.kind.clone(), prefix: letter.target_prefix() }
    }

    /// Whether a dead letter with these columns has this target.
    pub(crate) fn contains(&self, workspace: WorkspaceId, kind: &str, target: &str) -> bool {
        let has_prefix = || match self.prefix.strip_suffix('/') {
            Some(name) => {
                target.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '\\']))
            }
            None => target.starts_with(&self.prefix),
        };
        self.workspace == workspace && self.kind == kind && has_prefix()
    }
}

/// What a node has taken.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TakenLetters {
    /// To be performed, in the order in which they were queued.
    pub letters: Vec<DeadLetterRow>,
    /// Of which operations are to be notified. The configs are left out.
    pub notices: Vec<DeadLetterRow>,
}

/// The end of what a node has taken.
#[derive(Clone, Debug, PartialEq)]
pub struct DeadLetterResult {
    pub workspace: WorkspaceId,
    pub id: DeadLetterId,
    pub at: Timestamp,
    pub outcome: DeadLetterOutcome,
}

#[derive(Clone, Debug, PartialEq)]
pub enum DeadLetterOutcome {
    /// A requeue was performed: all attempts, the new ones at the end. The last one tells whether it succeeded.
    Performed(Vec<DeadLetterAttempt>),
    Notified,
    /// The notice could not be sent, and is not sent again.
    NotNotified,
}

impl DeadLetterOutcome {
    /// The status after a requeue was performed.
    pub(crate) fn status(attempts: &[DeadLetterAttempt]) -> DeadLetterStatus {
        match attempts.last() {
            Some(last) if last.is_delivered() => DeadLetterStatus::Delivered,
            _ => DeadLetterStatus::Dead,
        }
    }
}

/// How long dead letters are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadLetterRetention {
    /// Dead ones that have not changed since this time are deleted.
    pub dead_before: Timestamp,
    /// Delivered and discarded ones that have not changed since this time are deleted.
    pub settled_before: Timestamp,
}

/// The columns of a dead letter, as a database returns them.
pub(crate) struct DeadLetterColumns {
    pub(crate) workspace: Uuid,
    pub(crate) id: Uuid,
    pub(crate) created_at: Timestamp,
    pub(crate) changed_at: Timestamp,
    pub(crate) notified_at: Option<Timestamp>,
    pub(crate) run: Option<Uuid>,
    pub(crate) history: Option<Uuid>,
    pub(crate) event: Option<Uuid>,
    pub(crate) subscription: Option<Uuid>,
    pub(crate) taken_by: Option<Uuid>,
    pub(crate) status: String,
    pub(crate) source: String,
    pub(crate) kind: String,
    pub(crate) workflow: Option<String>,
    pub(crate) step: Option<String>,
    pub(crate) delivery: String,
    pub(crate) target: String,
    pub(crate) reason: Option<String>,
    pub(crate) secrets: String,
    pub(crate) attempts: String,
    pub(crate) written: Option<Vec<u8>>,
    /// None in a list.
    pub(crate) config: Option<Vec<u8>>,
}

impl DeadLetterColumns {
    /// The row; none if a later release has written its source.
    pub(crate) fn into_row(self) -> Result<Option<DeadLetterRow>> {
        let Some(source) = DeadLetterSource::from_name(&self.source) else { return Ok(None) };
        let id = DeadLetterId::from_uuid(self.id);
        let corrupt = |what: &str| Error::Corrupt(format!("the {what} of the dead letter {id} cannot be read"));
        let status = DeadLetterStatus::from_name(&self.status).ok_or_else(|| corrupt("status"))?;
        let payload = |bytes: Vec<u8>| {
            let text = String::from_utf8(bytes).map_err(|_| corrupt("config"))?;
            Payload::from_json(text).map_err(|_| corrupt("config"))
        };
        let letter = DeadLetter {
            id,
            workspace: WorkspaceId::from_uuid(self.workspace),
            source,
            kind: self.kind,
            run: self.run.map(RunId::from_uuid),
            workflow: self.workflow,
            step: self.step.map(StepKey::from),
            delivery: self.delivery,
            history: self.history,
            event: self.event.map(EventId::from_uuid),
            subscription: self.subscription.map(SubscriptionId::from_uuid),
            target: self.target,
            config: self.config.map_or_else(|| Ok(Payload::null()), payload)?,
            secrets: serde_json::from_str(&self.secrets).map_err(|_| corrupt("places of the secrets"))?,
            written: self.written.map(payload).transpose()?,
            attempts: serde_json::from_str(&self.attempts).map_err(|_| corrupt("attempts"))?,
            created_at: self.created_at,
        };
        Ok(Some(DeadLetterRow {
            letter,
            status,
            taken_by: self.taken_by.map(NodeId::from_uuid),
            notified_at: self.notified_at,
            changed_at: self.changed_at,
            reason: self.reason,
        }))
    }
}

/// The places of the secrets in the config of a dead letter, as its column has them.
pub(crate) fn secrets_json(letter: &DeadLetter) -> String {
    serde_json::to_string(&letter.secrets).expect("pointers are plain data")
}

/// Attempts, as their column has them.
pub(crate) fn attempts_json(attempts: &[DeadLetterAttempt]) -> String {
    serde_json::to_string(attempts).expect("attempts are plain data")
}

/// The numbers of dead letters by source, from the names that a database returns. Sources of a later release are left
/// out.
pub(crate) fn counts_by_source(counted: Vec<(String, u64)>) -> Vec<(DeadLetterSource, u64)> {
    let known = |(name, count): (String, u64)| Some((DeadLetterSource::from_name(&name)?, count));
    counted.into_iter().filter_map(known).collect()
}
