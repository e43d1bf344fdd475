//! The answer to a request that a run rejects.

use std::borrow::Cow;

use axum::http::StatusCode;
use everstep_core::machine::{RefusalDetails, code};
use serde_json::{Value, json};

use super::wire::Actor;
use crate::http::problem::Problem;
use crate::http::time::Time;

/// The problem document of a refusal. It contains the present state, and the actor and the time of the last transition.
pub(super) fn refuse(code: Cow<'static, str>, message: String, details: Option<Box<RefusalDetails>>) -> Problem {
    let details = details.map(|details| *details).unwrap_or_default();
    let RefusalDetails { state, version_no, last_by, last_at, errors, required, explanation, takes_part: _ } = details;
    let (status, hint) = (status(&code), hint(&code));
    let mut problem = Problem::new(status, code, message);
    if let Some(hint) = hint {
        problem = problem.hint(hint);
    }
    let members = [
        ("state", state.map(Value::from)),
        ("versionNo", version_no.map(Value::from)),
        ("lastBy", last_by.map(|actor| json!(Actor::from_core(actor)))),
        ("lastAt", last_at.map(|at| json!(Time::from_timestamp(at)))),
        ("errors", (!errors.is_empty()).then(|| json!(errors))),
        ("required", (!required.is_empty()).then(|| json!(required))),
        ("explanation", (!explanation.is_empty()).then(|| json!(explanation))),
    ];
    for (name, value) in members {
        if let Some(value) = value {
            problem = problem.with(name, value);
        }
    }
    problem
}

/// The refusal of a caller who may not read the run: they learn who may act, and nothing of the run.
pub(super) fn forbid(required: Vec<String>) -> Problem {
    let detail = "you may not perform this action in this run";
    let problem = Problem::new(StatusCode::FORBIDDEN, code::PERMISSION_DENIED, detail);
    if required.is_empty() { problem } else { problem.with("required", required) }
}

fn status(code: &str) -> StatusCode {
    match code {
        code::PERMISSION_DENIED => StatusCode::FORBIDDEN,
        // The run does not have the state that the caller expects.
        code::CONCURRENCY_ERROR
        | code::ACTION_CLOSED
        | code::ALREADY_VOTED
        | code::NOT_VOTED
        | code::RUN_ENDED
        | code::RUN_PAUSED
        | code::SHOWN_CHANGED
        | "IDEMPOTENCY_KEY_REUSED"
        | "INVALID_TRANSITION" => StatusCode::CONFLICT,
        "PAYLOAD_TOO_LARGE" => StatusCode::PAYLOAD_TOO_LARGE,
        // The request, or a value that follows from it, is not valid: UNKNOWN_ACTION, VALIDATION_ERROR,
        // CONDITION_FAILED, QUORUM_IMPOSSIBLE, and failures of templates.
        _ => StatusCode::UNPROCESSABLE_ENTITY,
    }
}

fn hint(code: &str) -> Option<&'static str> {
    match code {
        code::CONCURRENCY_ERROR | code::ACTION_CLOSED | code::SHOWN_CHANGED => {
            Some("read GET /v1/runs/{id}/actions again, and repeat the request if it still applies")
        }
        "IDEMPOTENCY_KEY_REUSED" => Some("choose another Idempotency-Key for another request"),
        _ => None,
    }
}
