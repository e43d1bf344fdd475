//! Errors of the engine, as its callers see them.

use everstep_core::evaluate::Fault;
use everstep_core::ids::{NodeId, RunId};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase")]
pub enum Error {
    #[error("run {0} was not found")]
    RunNotFound(RunId),
    /// The run is a row without a journal.
    #[error("run {0} has not begun")]
    NotBegun(RunId),
    #[error("workflow {name:?} was not found{}", version.map(|version| format!(" in version {version}")).unwrap_or_default())]
    WorkflowNotFound { name: String, version: Option<u32> },
    #[error("{0}")]
    Invalid(String),
    /// Well-formed data that no database stores, such as text with a NUL character.
    #[error("{0}")]
    Unstorable(String),
    /// The input of a start does not fit the schema of its workflow. Nothing was written.
    #[error("the input does not fit the inputSchema of workflow {workflow:?} version {version}: {}", list(faults))]
    InputRejected { workflow: String, version: u32, faults: Vec<Fault> },
    /// A workflow of that name exists in another style.
    #[error("the name {name:?} belongs to a workflow of the style {style}")]
    StyleConflict { name: String, style: String },
    /// Another node owns the run.
    #[error("the run belongs to node {0}")]
    Elsewhere(NodeId),
    /// Another node owns the run and cannot be reached. Nothing was written.
    #[error("node {0}, which owns the run, cannot be reached; try again")]
    Unreachable(NodeId),
    /// Another node owns the run and has not replied: the input may have been written, or may be written later.
    #[error(
        "node {0}, which owns the run, has not replied; repeat the request with the same idempotency key to learn \
         the outcome"
    )]
    OutcomeUnknown(NodeId),
    /// This node has stopped before the database has replied: the op may have been applied, or the event published.
    #[error(
        "the server has stopped before the database replied; repeat the request with the same idempotency key to learn \
         the outcome"
    )]
    Unanswered,
    /// The triggers of a workflow exceed the quota of subscriptions. Nothing was written.
    #[error("{0}")]
    QuotaReached(String),
    /// The workspace has the maximum number of workflows. Nothing was written.
    #[error("{0}")]
    WorkflowQuotaReached(String),
    /// Nothing was written; try again later.
    #[error("{0}")]
    Full(String),
    #[error("the database rejected the data: {0}")]
    Refused(String),
    /// The error of the database, for operators.
    #[error("{0}")]
    Unavailable(String),
    /// Nothing was written, for a reason that any caller may see; try again later.
    #[error("{0}")]
    Busy(String),
    #[error("the engine is stopping; try again on another node or after the restart")]
    Stopping,
}

impl Error {
    /// A stable code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::RunNotFound(_) | Self::WorkflowNotFound { .. } => "NOT_FOUND",
            Self::Invalid(_) | Self::Unstorable(_) | Self::InputRejected { .. } => "VALIDATION_ERROR",
            Self::NotBegun(_) => "RUN_PENDING",
            Self::StyleConflict { .. } => "WORKFLOW_STYLE_CONFLICT",
            Self::Elsewhere(_) | Self::Unreachable(_) | Self::Unavailable(_) | Self::Busy(_) | Self::Stopping => {
                "UNAVAILABLE"
            }
            Self::OutcomeUnknown(_) | Self::Unanswered => "OUTCOME_UNKNOWN",
            Self::QuotaReached(_) | Self::WorkflowQuotaReached(_) => "QUOTA_REACHED",
            Self::Full(_) => "STORE_FULL",
            Self::Refused(_) => "STORE_REFUSED",
        }
    }
}

/// Faults that a message lists.
const LISTED_FAULTS_MAX: usize = 3;

/// The first faults of an input, for a message.
fn list(faults: &[Fault]) -> String {
    let listed = faults.iter().take(LISTED_FAULTS_MAX).map(|fault| match fault.pointer.as_str() {
        "" => fault.message.clone(),
        pointer => format!("{pointer}: {}", fault.message),
    });
    let more = faults.len().saturating_sub(LISTED_FAULTS_MAX);
    let rest = (more > 0).then(|| format!("and {more} more"));
    listed.chain(rest).collect::<Vec<_>>().join("; ")
}

impl From<everstep_store::Error> for Error {
    fn from(error: everstep_store::Error) -> Self {
        match error {
            everstep_store::Error::Full(message) => Self::Full(message),
            everstep_store::Error::Refused(message) => Self::Refused(message),
            everstep_store::Error::QuotaReached(_) => Self::QuotaReached(error.to_string()),
            everstep_store::Error::WorkflowQuotaReached(_) => Self::WorkflowQuotaReached(error.to_string()),
            error => Self::Unavailable(error.to_string()),
        }
    }
}
