//! Sends ops to the record writer.

use axum::http::StatusCode;
use everstep_core::failure::code;
use everstep_core::payload::Payload;
use everstep_core::records::{Author, OpAction, OpFailure, OpKey};
use everstep_engine::NewOp;
use everstep_store::OpOutcome;
use serde::de::DeserializeOwned;

use crate::auth::Caller;
use crate::http::problem::Problem;
use crate::run_deadline::within_batcher_deadline;
use crate::server::AppState;

/// Applies an op of a caller, and answers after the commit. A repeated `Idempotency-Key` returns the stored output.
pub(crate) async fn apply(
    app: &AppState,
    caller: &Caller,
    key: Option<&str>,
    namespace: &str,
    action: OpAction,
) -> Result<OpOutcome, Problem> {
    let author = Author { run: None, step: None, actor: caller.audit_actor().to_text() };
    let op = NewOp {
        workspace: caller.workspace,
        namespace: namespace.to_owned(),
        key: key.map(|key| OpKey::of_caller(&caller.number().to_string(), key)),
        author,
        action,
    };
    within_batcher_deadline(app, "the record writer of this node", app.engine.records().apply(op)).await
}

/// The output of an op as a value. A stored output may come from another release.
pub(crate) fn read_output<T: DeserializeOwned>(output: &Payload) -> Result<T, Problem> {
    serde_json::from_str(output.json()).map_err(|error| {
        tracing::error!(%error, output = output.json(), "the stored output of an op is not that of its verb");
        Problem::unavailable("the stored output of this request cannot be read")
    })
}

/// The problem of an op that failed. Nothing was written.
pub(crate) fn refuse(failure: OpFailure) -> Problem {
    let OpFailure { code, message, revision } = failure;
    let problem = match code {
        code::CONFLICT => Problem::new(StatusCode::CONFLICT, code, message)
            .hint("read the present state, and repeat the request if it still applies"),
        code::IDEMPOTENCY_KEY_REUSED => {
            Problem::new(StatusCode::CONFLICT, code, message).hint("choose another Idempotency-Key for another request")
        }
        _ => Problem::new(StatusCode::UNPROCESSABLE_ENTITY, code, message),
    };
    match revision {
        Some(revision) => problem.with("revision", revision),
        None => problem,
    }
}

/// The problem of a query parameter.
pub(crate) fn refuse_query(failure: OpFailure) -> Problem {
    Problem::invalid(failure.message)
}
