//! Requests of persons and programs to a machine, and the replies to them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::actor::Actor;
use crate::ids::FileId;
use crate::payload::Payload;
use crate::time::Timestamp;

/// A request to perform an action, or to vote for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Act {
    pub action: String,
    /// The versionNo that the caller has seen. The engine fills it in on arrival if the request has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    pub by: Actor,
    pub rights: Rights,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Values that are merged into the context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Payload>,
    /// The digest of the values that were shown to the person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<String>,
    /// Removes the caller's vote for the action.
    #[serde(default)]
    pub withdraw: bool,
    /// The files of the request, which are reserved for the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileId>,
    /// When the first of them expires. A file that has expired is not bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files_until: Option<Timestamp>,
    /// SHA-256 of the request, in hexadecimal: another request under the same idempotency key differs here.
    pub digest: String,
}

/// The rights of a caller at the time of a request. They are not stored with a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rights {
    /// The caller's name, for `$user.name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The roles of the caller's token, for `$user.roles`.
    #[serde(default)]
    pub roles: Vec<String>,
    /// The roles of the role map whose permission the caller has.
    #[serde(default)]
    pub granted: BTreeSet<String>,
    /// Every role of the role map: in `require.role`, any other role means the assigned.
    #[serde(default)]
    pub known: BTreeSet<String>,
    /// Whether the caller may manage runs, and so assign states to others.
    #[serde(default)]
    pub can_manage: bool,
}

/// A request to assign the current state to other persons, or to replace a voter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Assignment {
    pub by: Actor,
    pub rights: Rights,
    pub change: AssignmentChange,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub digest: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AssignmentChange {
    /// The persons to whom the state is assigned from now on.
    Who(Vec<String>),
    /// Replaces a voter who has not voted.
    Voter { from: String, to: String },
}

/// The answer to an accepted request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Applied {
    /// Whether the machine moved. A counted vote that does not reach its quorum moves nothing.
    pub applied: bool,
    pub previous_state: String,
    pub next_state: String,
    /// The seq and the time of the entry that records the request; the history id follows from them.
    pub seq: u64,
    pub at: Timestamp,
    pub is_completed: bool,
    pub version_no: u32,
    /// The votes of the action, if it has a quorum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub votes: Option<Tally>,
    /// Whether the request was accepted before, under the same idempotency key. Only the reply to the repeated request
    /// has it; everything else is the first answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeated: bool,
}

/// The votes for one action of a state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tally {
    pub action: String,
    pub count: u32,
    pub need: u32,
    /// The voters, if the definition names them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<Vec<String>>,
    pub by: Vec<Actor>,
}

/// The details of a rejected request, beside the code and the message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RefusalDetails {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version_no: Option<u32>,
    /// The actor and the time of the last transition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_by: Option<Actor>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_at: Option<Timestamp>,
    /// One entry per field for a request that does not fit: `{field, message}`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldFault>,
    /// The roles and names that may perform the action.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required: Vec<String>,
    /// The parts of the condition that do not hold, each with its values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub explanation: Vec<Value>,
    /// Whether the caller started the run, acted in it, or is or was assigned to one of its states. Such a caller may
    /// read the run. The reply to a caller does not contain this.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub takes_part: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldFault {
    /// A path such as `order.total`.
    pub field: String,
    pub message: String,
}
