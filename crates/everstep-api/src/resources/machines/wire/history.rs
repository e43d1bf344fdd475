//! The history of a run.

use std::collections::BTreeMap;

use everstep_core::ids::FileId;
use everstep_core::machine::{AssignmentChange, FieldChange, HistoryKind, HistoryRow};
use everstep_store::FileRow;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::Actor;
use crate::http::schema::{Id, Json};
use crate::http::time::Time;

/// A page of a history, oldest first.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct History {
    pub(crate) entries: Vec<HistoryEntry>,
    /// The cursor of the next page; null on the last one.
    pub(crate) next_cursor: Option<String>,
}

/// A transition, a vote, an assignment or a timer.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HistoryEntry {
    #[schemars(with = "Id")]
    id: Uuid,
    /// The entry of the journal.
    seq: u64,
    at: Time,
    kind: EntryKind,
    /// The action; `@start` for the start of the run; for a timer, its name.
    action: Option<String>,
    from: Option<String>,
    to: Option<String>,
    version_no: u32,
    by: Actor,
    on_behalf_of: Option<Actor>,
    /// The comment of a request, or the reason of an assignment.
    comment: Option<String>,
    /// The files that were decided on.
    files: Vec<HistoryFile>,
    /// The voters that reached the quorum.
    votes: Vec<Actor>,
    /// Whether a vote was withdrawn.
    is_withdrawn: bool,
    /// The digest of the values that were shown to the person.
    shown: Option<String>,
    /// `{who}`: the persons to whom the state was assigned; or `{voter: {from, to}}`: the voter that was replaced.
    #[schemars(with = "Json")]
    assignment: Option<Value>,
    /// The values of the context that changed.
    changes: Vec<ContextChange>,
}

/// A file of an entry. `GET /v1/files/{id}` returns its bytes.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct HistoryFile {
    id: String,
    /// The name; null after the file is deleted.
    name: Option<String>,
    /// The number of bytes; null after the file is deleted.
    size: Option<u64>,
    /// The media type; null after the file is deleted.
    media_type: Option<String>,
    /// Whether the file is deleted. The files of a fork are deleted with the run that the fork was made from.
    is_deleted: bool,
}

#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "HistoryKind")]
enum EntryKind {
    Transition,
    Vote,
    Assignment,
    Timer,
}

/// A value of the context that changed.
#[derive(Debug, Serialize, JsonSchema)]
struct ContextChange {
    /// Such as `order.total`.
    path: String,
    /// Missing for a value that is new.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Json")]
    before: Option<Value>,
    /// Missing for a value that was removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Json")]
    after: Option<Value>,
}

impl HistoryEntry {
    /// `files` are those that exist.
    pub(crate) fn from_row(row: HistoryRow, files: &BTreeMap<FileId, FileRow>) -> Self {
        let kind = match row.kind {
            HistoryKind::Transition => EntryKind::Transition,
            HistoryKind::Vote => EntryKind::Vote,
            HistoryKind::Assignment => EntryKind::Assignment,
            HistoryKind::Timer => EntryKind::Timer,
        };
        let assignment = row.assignment.map(|change| match change {
            AssignmentChange::Who(who) => json!({ "who": who }),
            AssignmentChange::Voter { from, to } => json!({"voter": {"from": from, "to": to}}),
        });
        Self {
            id: row.id,
            seq: row.seq,
            at: Time::from_timestamp(row.at),
            kind,
            action: row.action,
            from: row.from,
            to: row.to,
            version_no: row.version_no,
            by: Actor::from_core(row.by),
            on_behalf_of: row.on_behalf_of.map(Actor::from_core),
            comment: row.comment,
            files: row.files.into_iter().map(|id| HistoryFile::from_id(id, files)).collect(),
            votes: row.votes.into_iter().map(Actor::from_core).collect(),
            is_withdrawn: row.is_withdrawn,
            shown: row.shown,
            assignment,
            changes: row.changes.into_iter().map(ContextChange::from_core).collect(),
        }
    }
}

impl HistoryFile {
    fn from_id(id: String, files: &BTreeMap<FileId, FileRow>) -> Self {
        let file = id.parse().ok().and_then(|id: FileId| files.get(&id));
        Self {
            name: file.map(|file| file.name.clone()),
            size: file.map(|file| file.size),
            media_type: file.map(|file| file.media_type.clone()),
            is_deleted: file.is_none(),
            id,
        }
    }
}

impl ContextChange {
    fn from_core(change: FieldChange) -> Self {
        Self { path: change.path, before: change.before, after: change.after }
    }
}
