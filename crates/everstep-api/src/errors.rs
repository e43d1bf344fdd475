//! Errors of the engine and of the store, as problems.

use axum::http::StatusCode;
use everstep_core::evaluate::Fault;
use everstep_core::limits;
use everstep_engine::Error;
use serde_json::json;

use crate::http::problem::Problem;

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let code = error.code();
        match error {
            Error::RunNotFound(_) | Error::WorkflowNotFound { .. } => Self::not_found(error.to_string()),
            Error::Invalid(message) => Self::invalid(message),
            Error::Unstorable(message) => Self::new(StatusCode::UNPROCESSABLE_ENTITY, code, message),
            Error::InputRejected { ref faults, .. } => {
                let problem = |fault: &Fault| json!({"path": fault.pointer, "message": fault.message});
                let problems: Vec<_> = faults.iter().map(problem).collect();
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, code, error.to_string())
                    .hint("GET /v1/workflows/{name} shows the inputSchema; paths are JSON pointers into the input")
                    .with("problems", problems)
            }
            Error::NotBegun(_) => Self::new(StatusCode::CONFLICT, code, error.to_string())
                .hint("the run begins later; cancel it, or repeat the request after it has begun"),
            Error::StyleConflict { .. } => Self::new(StatusCode::CONFLICT, code, error.to_string())
                .hint("a name belongs to one style; choose another name, or delete that workflow first"),
            Error::QuotaReached(message) => Self::new(StatusCode::CONFLICT, code, message)
                .hint("delete subscriptions, or declare one trigger with a wider pattern and a match"),
            Error::WorkflowQuotaReached(message) => Self::new(StatusCode::CONFLICT, code, message)
                .hint("delete workflows that are no longer used: DELETE /v1/workflows/{name}")
                .with("quota", limits::WORKFLOWS),
            Error::Elsewhere(_) | Error::Unreachable(_) | Error::Busy(_) | Error::Stopping => {
                Self::unavailable(error.to_string())
            }
            Error::OutcomeUnknown(_) | Error::Unanswered => {
                Self::new(StatusCode::GATEWAY_TIMEOUT, code, error.to_string())
            }
            Error::Full(message) => {
                tracing::warn!(%message, "a request was rejected because the disk is full");
                let detail = "the disk of the database is full; nothing was written";
                Self::new(StatusCode::INSUFFICIENT_STORAGE, code, detail).retry_after(10)
            }
            Error::Refused(message) => Self::new(StatusCode::UNPROCESSABLE_ENTITY, code, message),
            Error::Unavailable(message) => {
                // Addresses and names of the database are for operators only.
                tracing::warn!(%message, "a request failed because the database is unavailable");
                Self::unavailable("the database is unavailable; try again")
            }
        }
    }
}

impl From<everstep_store::Error> for Problem {
    fn from(error: everstep_store::Error) -> Self {
        Error::from(error).into()
    }
}
