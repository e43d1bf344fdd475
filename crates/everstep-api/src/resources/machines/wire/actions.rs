//! The present state of a run, and the actions of a caller in it.

use everstep_core::machine::{ActionView, Needs, Reason, Shown};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::Votes;
use crate::http::schema::Json;
use crate::http::time::Time;

/// The present state of a run of a state machine, and what the caller can do in it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Actions {
    pub(crate) state: String,
    pub(crate) title: Option<String>,
    pub(crate) version_no: u32,
    /// When the state was entered.
    pub(crate) since: Time,
    /// When the next timer of the state is due.
    pub(crate) due: Option<Time>,
    /// The persons to whom the state is assigned.
    pub(crate) assigned: Vec<String>,
    pub(crate) votes: Vec<Votes>,
    pub(crate) shown: ShownFields,
    /// The actions of the state, in the order of the definition; none after the end of the run.
    pub(crate) actions: Vec<AvailableAction>,
}

/// The values that are shown to the person who decides.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ShownFields {
    /// The SHA-256 of the values. A transition that carries it is rejected if they have changed.
    digest: String,
    #[schemars(with = "Json")]
    fields: Value,
}

impl ShownFields {
    pub(crate) fn from_core(shown: Shown) -> Self {
        Self { digest: shown.digest, fields: shown.fields }
    }
}

/// An action of the present state.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AvailableAction {
    pub(crate) action: String,
    title: Option<String>,
    /// The states that it may lead to.
    to: Vec<String>,
    /// Whether the caller can perform it now, with the data that it needs.
    pub(crate) open: bool,
    needs: ActionNeeds,
    /// The votes, if it has a quorum.
    quorum: Option<Votes>,
    /// Why the caller cannot perform it now.
    reasons: Vec<ActionReason>,
}

/// The parts that a request must have.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ActionNeeds {
    comment: bool,
    /// Paths that `data` must contain.
    data: Vec<String>,
    /// The number of files that the request must have at least.
    files: u32,
    /// Whether the request must carry the digest of the shown values.
    shown: bool,
}

/// Why a request would be rejected.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ActionReason {
    /// A stable code for programs.
    code: String,
    message: String,
    /// `errors`, `required` and `explanation`, as in the problem document of a refused transition.
    #[serde(flatten)]
    details: Map<String, Value>,
}

impl ActionReason {
    pub(crate) fn from_core(reason: Reason) -> Self {
        let details = serde_json::to_value(&reason).unwrap_or_default();
        let Value::Object(mut details) = details else { unreachable!("a reason is an object") };
        details.retain(|name, _| name != "code" && name != "message");
        Self { code: reason.code, message: reason.message, details }
    }
}

impl AvailableAction {
    pub(crate) fn from_view(view: ActionView) -> Self {
        Self {
            action: view.action,
            title: view.title,
            to: view.to,
            open: view.open,
            needs: ActionNeeds::from_core(&view.needs),
            quorum: view.quorum.map(Votes::from_tally),
            reasons: view.reasons.into_iter().map(ActionReason::from_core).collect(),
        }
    }
}

impl ActionNeeds {
    fn from_core(needs: &Needs) -> Self {
        Self {
            comment: needs.needs_comment(),
            data: needs.data_paths().to_vec(),
            files: needs.files_min(),
            shown: needs.needs_shown(),
        }
    }
}
