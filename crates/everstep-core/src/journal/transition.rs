//! The facts of a machine's run. Each contains everything that was evaluated, so that the fold evaluates nothing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Event;
use crate::actor::Actor;
use crate::failure::Failure;
use crate::machine::AssignmentChange;
use crate::payload::Payload;
use crate::status::Status;

/// A machine entered a state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TransitionApplied {
    /// An action, or a name of the server: `@start`, `@after`, `@run`.
    pub action: String,
    /// The state before; none for the start of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    pub to: String,
    /// The number of transitions so far, this one included.
    pub version_no: u32,
    pub by: Actor,
    /// The person for whom the actor acted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_behalf_of: Option<Actor>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// The data of the request: an object that is merged into the context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Payload>,
    /// Values that the definition sets, merged into the context after the data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set: Option<Payload>,
    /// Files that were decided on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// The persons to whom the entered state is assigned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assigned: Vec<String>,
    /// The votes that each action of the entered state needs, for actions with a quorum.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub voters: BTreeMap<String, Ballot>,
    /// The votes that reached the quorum of the action.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub votes: Vec<Actor>,
    /// The digest of the values that were shown to the person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<String>,
    /// The action that follows in the entered state, in the same item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto: Option<AutoAction>,
    /// How the run ends in the entered state, if side effects are still to be performed: the run ends after the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<DecidedEnd>,
    /// The digest of a request with an idempotency key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
}

/// The end of a run that was decided before the run has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DecidedEnd {
    Completed { output: Payload },
    Failed { failure: Failure },
}

impl DecidedEnd {
    pub(crate) fn status(&self) -> Status {
        match self {
            Self::Completed { .. } => Status::Completed,
            Self::Failed { .. } => Status::Failed,
        }
    }

    /// The output of a run that completes.
    pub(crate) fn output(&self) -> Option<&Payload> {
        match self {
            Self::Completed { output } => Some(output),
            Self::Failed { .. } => None,
        }
    }

    /// The event that ends the run.
    pub(crate) fn into_event(self) -> Event {
        match self {
            Self::Completed { output } => Event::run_completed(output),
            Self::Failed { failure } => Event::run_failed(failure, None),
        }
    }
}

/// The votes that an action needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ballot {
    /// The voters; none if every caller who may perform the action may vote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<Vec<String>>,
    pub need: u32,
}

/// An action that a side effect performs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AutoAction {
    pub action: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Payload>,
}

/// A vote for an action, or its withdrawal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VoteCast {
    pub action: String,
    /// The number of transitions at the time of the vote.
    pub version_no: u32,
    pub by: Actor,
    /// The person for whom the actor voted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_behalf_of: Option<Actor>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_withdrawn: bool,
    /// The digest of a request with an idempotency key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
}

impl VoteCast {
    /// The person whose vote it is.
    pub fn principal(&self) -> &Actor {
        self.on_behalf_of.as_ref().unwrap_or(&self.by)
    }
}

/// The current state was assigned to other persons, or a voter was replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Assigned {
    #[serde(flatten)]
    pub change: AssignmentChange,
    pub by: Actor,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The digest of a request with an idempotency key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
}
