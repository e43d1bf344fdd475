//! The history of a machine's run: one row per transition, vote, assignment and timer, with the changes of the context.

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::{AssignmentChange, context, story};
use crate::actor::Actor;
use crate::ids::RunId;
use crate::journal::{Entry, Event};
use crate::payload::Payload;
use crate::time::Timestamp;

/// The fold of a journal that yields the rows of its history. It must receive the entries from the first one.
#[derive(Clone, Debug)]
pub struct History {
    run: RunId,
    context: Payload,
    state: Option<String>,
    version_no: u32,
}

/// A row of the history.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryRow {
    pub id: Uuid,
    pub seq: u64,
    pub at: Timestamp,
    pub kind: HistoryKind,
    /// The action; for a timer its name, such as `@after[2].0`.
    pub action: Option<String>,
    pub from: Option<String>,
    pub to: Option<String>,
    pub version_no: u32,
    pub by: Actor,
    pub on_behalf_of: Option<Actor>,
    /// The comment of a request, or the reason of an assignment.
    pub comment: Option<String>,
    pub files: Vec<String>,
    /// The votes that reached the quorum.
    pub votes: Vec<Actor>,
    pub shown: Option<String>,
    /// Whether a vote was withdrawn.
    pub is_withdrawn: bool,
    /// The new persons of an assignment, or the voter that was replaced.
    pub assignment: Option<AssignmentChange>,
    pub changes: Vec<FieldChange>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryKind {
    Transition,
    Vote,
    Assignment,
    Timer,
}

impl HistoryKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Transition => "transition",
            Self::Vote => "vote",
            Self::Assignment => "assignment",
            Self::Timer => "timer",
        }
    }
}

/// A value of the context that a transition changed.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldChange {
    /// Such as `order.total`.
    pub path: String,
    /// None for a value that is new.
    pub before: Option<Value>,
    /// None for a value that was removed.
    pub after: Option<Value>,
}

impl History {
    pub fn new(run: RunId) -> Self {
        Self { run, context: Payload::from(Value::Object(Map::new())), state: None, version_no: 0 }
    }

    /// Applies the next entry. Returns its row, if it has one.
    pub fn apply(&mut self, entry: &Entry) -> Option<HistoryRow> {
        match &entry.event {
            Event::RunStarted { input, .. } => {
                if input.value().is_object() {
                    self.context = input.clone();
                }
                None
            }
            Event::ContextSet { values } => {
                self.context = context::merge(&self.context, [values]);
                None
            }
            Event::TransitionApplied(applied) => {
                let before = self.context.clone();
                self.context = context::merge(&self.context, applied.data.iter().chain(&applied.set));
                (self.state, self.version_no) = (Some(applied.to.clone()), applied.version_no);
                Some(HistoryRow {
                    action: Some(applied.action.clone()),
                    from: applied.from.clone(),
                    to: Some(applied.to.clone()),
                    on_behalf_of: applied.on_behalf_of.clone(),
                    comment: applied.comment.clone(),
                    files: applied.files.clone(),
                    votes: applied.votes.clone(),
                    shown: applied.shown.clone(),
                    changes: changes(before.value(), self.context.value()),
                    ..self.row(entry, HistoryKind::Transition, applied.by.clone())
                })
            }
            Event::VoteCast(vote) => Some(HistoryRow {
                action: Some(vote.action.clone()),
                on_behalf_of: vote.on_behalf_of.clone(),
                comment: vote.comment.clone(),
                files: vote.files.clone(),
                shown: vote.shown.clone(),
                is_withdrawn: vote.is_withdrawn,
                ..self.row(entry, HistoryKind::Vote, vote.by.clone())
            }),
            Event::Assigned(assigned) => Some(HistoryRow {
                comment: assigned.reason.clone(),
                assignment: Some(assigned.change.clone()),
                ..self.row(entry, HistoryKind::Assignment, assigned.by.clone())
            }),
            // Other timers belong to the retries of deliveries.
            Event::TimerFired { step, .. } => story::is_of_state(step).then(|| HistoryRow {
                action: Some(step.to_string()),
                ..self.row(entry, HistoryKind::Timer, Actor::system(Actor::TIMER))
            }),
            Event::StepDispatched { .. }
            | Event::StepCompleted { .. }
            | Event::StepFailed { .. }
            | Event::StepSkipped { .. }
            | Event::TimerSet { .. }
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

    /// A row in the present state.
    fn row(&self, entry: &Entry, kind: HistoryKind, by: Actor) -> HistoryRow {
        HistoryRow {
            id: history_id(self.run, entry.seq, entry.at),
            seq: entry.seq,
            at: entry.at,
            kind,
            action: None,
            from: self.state.clone(),
            to: self.state.clone(),
            version_no: self.version_no,
            by,
            on_behalf_of: None,
            comment: None,
            files: Vec::new(),
            votes: Vec::new(),
            shown: None,
            is_withdrawn: false,
            assignment: None,
            changes: Vec::new(),
        }
    }
}

/// The id of an entry of the history: a UUID v7 of its time that follows from the run and the seq.
pub fn history_id(run: RunId, seq: u64, at: Timestamp) -> Uuid {
    let digest = Sha256::new().chain_update(run.uuid().as_bytes()).chain_update(seq.to_be_bytes()).finalize();
    let mut tail = [0; 10];
    tail.copy_from_slice(&digest[..10]);
    uuid::Builder::from_unix_timestamp_millis(at.millis().max(0).cast_unsigned(), &tail).into_uuid()
}

/// The differences of two objects, by path. Objects are compared field by field, everything else as a whole.
fn changes(before: &Value, after: &Value) -> Vec<FieldChange> {
    let mut found = Vec::new();
    compare(String::new(), Some(before), Some(after), &mut found);
    found
}

fn compare(path: String, before: Option<&Value>, after: Option<&Value>, found: &mut Vec<FieldChange>) {
    if before == after {
        return;
    }
    let (Some(Value::Object(old)), Some(Value::Object(new))) = (before, after) else {
        return found.push(FieldChange { path, before: before.cloned(), after: after.cloned() });
    };
    let added = new.keys().filter(|name| !old.contains_key(*name));
    for name in old.keys().chain(added) {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        compare(path, old.get(name), new.get(name), found);
    }
}
