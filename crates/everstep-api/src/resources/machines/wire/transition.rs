//! Transitions and assignments.

use everstep_core::ids::RunId;
use everstep_core::machine::{Applied, history_id};
use everstep_core::payload::Payload;
use everstep_core::whole;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::Votes;
use crate::http::schema::{Id, Object};

/// `POST /v1/runs/{id}/transitions`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct TransitionRequest {
    /// An action of the present state.
    #[schemars(length(min = 1, max = 64))]
    pub(crate) action: String,
    /// The versionNo that the caller has seen; also accepted as `versionNo` and `version_no`. Without it, the versionNo
    /// at the arrival of the request.
    #[serde(default, alias = "versionNo", alias = "version_no", deserialize_with = "whole::optional")]
    #[schemars(range(min = 1))]
    pub(crate) version: Option<u32>,
    #[schemars(length(max = 2_000))]
    pub(crate) comment: Option<String>,
    /// Values that are merged into the context, at most 256 KiB.
    #[schemars(with = "Option<Object>")]
    pub(crate) data: Option<Payload>,
    /// The digest of the values that the caller was shown, from `GET /v1/runs/{id}/actions`.
    pub(crate) shown: Option<String>,
    /// Withdraws the caller's vote for the action.
    #[serde(default)]
    pub(crate) withdraw: bool,
    /// The ids of files that the caller has uploaded within 24 hours, from `POST /v1/files`; also accepted as
    /// `attachments` and `attachment_ids`.
    #[serde(default, alias = "attachments", alias = "attachment_ids")]
    #[schemars(length(max = 20))]
    pub(crate) files: Vec<String>,
}

/// An accepted transition or vote.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Transition {
    success: bool,
    /// Whether the run has moved. False for a vote that is counted and does not reach the quorum.
    applied: bool,
    previous_state: String,
    next_state: String,
    /// The id of the entry in the history.
    #[schemars(with = "Id")]
    history_id: Uuid,
    is_completed: bool,
    version_no: u32,
    /// The votes of the action, if it has a quorum.
    #[serde(skip_serializing_if = "Option::is_none")]
    votes: Option<Votes>,
}

impl Transition {
    pub(crate) fn from_applied(run: RunId, applied: Applied) -> Self {
        Self {
            success: true,
            applied: applied.applied,
            history_id: history_id(run, applied.seq, applied.at),
            previous_state: applied.previous_state,
            next_state: applied.next_state,
            is_completed: applied.is_completed,
            version_no: applied.version_no,
            votes: applied.votes.map(Votes::from_tally),
        }
    }
}

/// `POST /v1/runs/{id}/assign`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct AssignRequest {
    /// The persons to whom the present state is assigned from now on.
    #[schemars(length(min = 1, max = 1_000))]
    pub(crate) who: Option<Vec<String>>,
    /// In place of `who`: replaces a voter of the present state who has not voted.
    pub(crate) voter: Option<VoterChange>,
    /// The reason, which the history records.
    #[schemars(length(max = 2_000))]
    pub(crate) reason: Option<String>,
}

/// A voter, and the person who votes in their place.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct VoterChange {
    pub(crate) from: String,
    pub(crate) to: String,
}

/// An accepted assignment.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Assignment {
    pub(crate) success: bool,
    pub(crate) state: String,
    pub(crate) version_no: u32,
    /// The id of the entry in the history.
    #[schemars(with = "Id")]
    pub(crate) history_id: Uuid,
}

impl Assignment {
    pub(crate) fn from_applied(run: RunId, applied: Applied) -> Self {
        Self {
            success: true,
            history_id: history_id(run, applied.seq, applied.at),
            state: applied.next_state,
            version_no: applied.version_no,
        }
    }
}
