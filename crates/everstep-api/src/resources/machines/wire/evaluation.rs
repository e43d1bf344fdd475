//! Dry runs.

use std::collections::BTreeMap;

use everstep_core::machine::{Evaluation, TimerView};
use everstep_core::payload::Payload;
use everstep_core::run::Child;
use everstep_core::strict::StrictValue;
use everstep_core::whole;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ActionReason, AvailableAction, ShownFields, Votes};
use crate::http::schema::{Json, Object};
use crate::http::time::Time;
use crate::resources::workflows::wire::Definition;

/// `POST /v1/runs/{id}/evaluate`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct EvaluateRunRequest {
    /// An action of the present state.
    #[schemars(length(min = 1, max = 64))]
    pub(crate) action: String,
    /// The versionNo that the caller has seen.
    #[serde(default, alias = "versionNo", alias = "version_no", deserialize_with = "whole::optional")]
    #[schemars(range(min = 1))]
    pub(crate) version: Option<u32>,
    pub(crate) comment: Option<String>,
    /// Values that would be merged into the context.
    #[schemars(with = "Option<Object>")]
    pub(crate) data: Option<Payload>,
    pub(crate) shown: Option<String>,
    #[serde(default)]
    pub(crate) withdraw: bool,
    /// The ids of files. They are counted, and compared with those of the run; whether they exist is not checked.
    #[serde(default, alias = "attachments", alias = "attachment_ids")]
    #[schemars(length(max = 20))]
    pub(crate) files: Vec<String>,
    /// Another person, for admins; the caller by default.
    #[serde(rename = "as")]
    pub(crate) other: Option<ImaginedPerson>,
}

/// `POST /v1/workflows/evaluate`.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct EvaluateDefinitionRequest {
    /// A definition that is not saved.
    #[schemars(with = "Option<Definition>")]
    pub(crate) definition: Option<StrictValue>,
    /// In place of `definition`: the name of a saved state machine. Also accepted as `workflowCode` and
    /// `workflow_code`.
    #[serde(alias = "workflowCode", alias = "workflow_code")]
    pub(crate) workflow: Option<String>,
    /// A version of the saved state machine; the active one by default.
    #[serde(default, deserialize_with = "whole::optional")]
    #[schemars(range(min = 1, max = 2_147_483_647))]
    pub(crate) version: Option<u32>,
    /// The state in which the run would be. Also accepted as `currentState` and `current_state`.
    #[serde(alias = "currentState", alias = "current_state")]
    pub(crate) state: String,
    /// The context that the run would have.
    #[serde(default)]
    #[schemars(with = "Option<Object>")]
    pub(crate) context: Option<Payload>,
    /// The action to evaluate; without it, only the actions of the state are shown.
    #[schemars(length(min = 1, max = 64))]
    pub(crate) action: Option<String>,
    pub(crate) comment: Option<String>,
    /// Values that would be merged into the context.
    #[schemars(with = "Option<Object>")]
    pub(crate) data: Option<Payload>,
    /// The ids of files. They are counted; whether they exist is not checked.
    #[serde(default, alias = "attachments", alias = "attachment_ids")]
    #[schemars(length(max = 20))]
    pub(crate) files: Vec<String>,
    /// Another person, for admins; the caller by default.
    #[serde(rename = "as")]
    pub(crate) other: Option<ImaginedPerson>,
}

/// A person, for a dry run.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ImaginedPerson {
    /// The person's id at the identity provider.
    #[schemars(length(min = 1, max = 255))]
    pub(crate) user: String,
    /// The roles of the person's token.
    #[serde(default)]
    pub(crate) roles: Vec<String>,
}

/// The result that a request would have. Nothing was written.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DryRun {
    /// Whether the request would be accepted.
    success: bool,
    /// Every reason for which it would be rejected.
    reasons: Vec<ActionReason>,
    /// Whether the run would move. A vote that does not reach its quorum moves nothing.
    applied: bool,
    state: Option<String>,
    /// The state after the request, and after the actions that follow from it.
    next_state: Option<String>,
    version_no: u32,
    is_completed: bool,
    /// Values that the definition would set in the context.
    #[schemars(with = "Json")]
    set: Option<Payload>,
    /// The persons to whom the next state would be assigned.
    assigned: Vec<String>,
    /// The votes that actions of the next state would need.
    voters: BTreeMap<String, NeededVotes>,
    /// The timers of the next state.
    timers: Vec<DueTimer>,
    /// The side effects, with their templates resolved.
    #[schemars(with = "Vec<Json>")]
    events: Vec<Value>,
    /// The run that the next state would start.
    run: Option<StateRun>,
    #[schemars(with = "Json")]
    output: Option<Payload>,
    /// Why the run would be paused after the request: an action that follows cannot be evaluated, or the
    /// actions follow each other endlessly.
    pause: Option<ActionReason>,
}

/// The votes that an action needs.
#[derive(Debug, Serialize, JsonSchema)]
struct NeededVotes {
    of: Option<Vec<String>>,
    need: u32,
}

/// A timer of a state.
#[derive(Debug, Serialize, JsonSchema)]
struct DueTimer {
    /// The position in `after`.
    n: usize,
    due: Time,
    /// The state that it leads to.
    to: Option<String>,
    /// The action that it performs.
    action: Option<String>,
}

/// A run that a state starts.
#[derive(Debug, Serialize, JsonSchema)]
struct StateRun {
    workflow: String,
    version: Option<u32>,
    #[schemars(with = "Json")]
    input: Payload,
}

impl DryRun {
    pub(crate) fn from_core(evaluation: Evaluation) -> Self {
        let voters = evaluation.voters.into_iter();
        Self {
            success: evaluation.reasons.is_empty(),
            reasons: evaluation.reasons.into_iter().map(ActionReason::from_core).collect(),
            applied: evaluation.applied,
            state: evaluation.state,
            next_state: evaluation.next_state,
            version_no: evaluation.version_no,
            is_completed: evaluation.is_completed,
            set: evaluation.set,
            assigned: evaluation.assigned,
            voters: voters.map(|(action, ballot)| (action, NeededVotes { of: ballot.of, need: ballot.need })).collect(),
            timers: evaluation.timers.into_iter().map(DueTimer::from_core).collect(),
            events: evaluation.events,
            run: evaluation.run.map(StateRun::from_core),
            output: evaluation.output,
            pause: evaluation.pause.map(ActionReason::from_core),
        }
    }
}

impl DueTimer {
    fn from_core(timer: TimerView) -> Self {
        Self { n: timer.n, due: Time::from_timestamp(timer.due), to: timer.to, action: timer.action }
    }
}

impl StateRun {
    fn from_core(child: Child) -> Self {
        Self { workflow: child.workflow, version: child.version, input: child.input }
    }
}

/// The dry run of a definition.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DefinitionDryRun {
    pub(crate) state: String,
    /// The persons to whom the state would be assigned.
    pub(crate) assigned: Vec<String>,
    pub(crate) votes: Vec<Votes>,
    /// When the next timer of the state would be due, if it were entered now.
    pub(crate) due: Option<Time>,
    pub(crate) shown: Option<ShownFields>,
    /// The actions of the state for the caller.
    pub(crate) actions: Vec<AvailableAction>,
    /// The result of the action, if the request names one.
    pub(crate) result: Option<DryRun>,
}
