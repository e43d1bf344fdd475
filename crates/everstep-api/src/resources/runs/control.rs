//! Inputs of a run from clients: signals, and cancel, pause, resume, retry.

use std::borrow::Cow;

use axum::Json;
use axum::extract::{FromRequest, Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use everstep_core::ids::{RunId, WorkspaceId};
use everstep_core::limits;
use everstep_core::run::{Input, Reply};
use everstep_core::topics;
use everstep_engine::RunInput;

use super::show;
use super::wire::{Action, Cancel, Control, Outcome};
use crate::audit::AuditDraft;
use crate::http::body::Body;
use crate::http::headers::{IdempotencyKey, IfMatch};
use crate::http::openapi::Parameter;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::run_deadline::within_run_deadline;
use crate::server::AppState;

/// Bytes of a control.
const CONTROL_BODY_BYTES_MAX: usize = 16 * 1024;
/// The code of a request that expects another version of its run.
const CONCURRENCY_ERROR: &str = "CONCURRENCY_ERROR";
/// Characters of a signal's name.
const SIGNAL_NAME_CHARS_MAX: usize = 256;

pub(crate) const BUFFER: &[Parameter] = &[Parameter::flag(
    "buffer",
    "Whether a run of code buffers the signal, for a week, if no wait for it is open yet.",
)];

type Answer = Result<Json<Outcome>, Problem>;

/// Sends a signal to a run; the body is its payload.
pub(crate) async fn signal(
    State(app): State<AppState>,
    audit: AuditDraft,
    Path((id, event)): Path<(String, String)>,
    query: Query,
    key: IdempotencyKey,
    version: IfMatch,
    body: Body<{ limits::PAYLOAD_BYTES }>,
) -> Answer {
    if event.chars().count() > SIGNAL_NAME_CHARS_MAX {
        return Err(Problem::invalid(format!("the name of a signal has at most {SIGNAL_NAME_CHARS_MAX} characters")));
    }
    if topics::is_reserved(&event) {
        let detail = format!("the name {event:?} is reserved: a signal does not begin with `@` or `everstep.`");
        return Err(Problem::invalid(detail));
    }
    let payload = body.payload()?;
    let input = match query.flag("buffer")? {
        Some(true) => Input::BufferedSignal { event, payload },
        Some(false) | None => Input::Signal { event, payload },
    };
    deliver(&app, &audit, &id, key, version.or(None)?, input).await
}

/// Sends a signal to a run of a workflow.
pub(crate) async fn signal_of_workflow(
    State(app): State<AppState>,
    audit: AuditDraft,
    Path((name, id, event)): Path<(String, String, String)>,
    query: Query,
    key: IdempotencyKey,
    version: IfMatch,
    body: Body<{ limits::PAYLOAD_BYTES }>,
) -> Answer {
    show::row_of(&app, audit.caller().workspace, Some(&name), show::read_id(&id)?).await?;
    signal(State(app), audit, Path((id, event)), query, key, version, body).await
}

/// Cancels a run of a workflow.
pub(crate) async fn cancel_of_workflow(
    State(app): State<AppState>,
    audit: AuditDraft,
    Path((name, id)): Path<(String, String)>,
    key: IdempotencyKey,
    version: IfMatch,
) -> Answer {
    show::row_of(&app, audit.caller().workspace, Some(&name), show::read_id(&id)?).await?;
    deliver(&app, &audit, &id, key, version.or(None)?, Input::Cancel { reason: None }).await
}

/// A request to cancel, pause, resume or retry a run.
pub(crate) struct ControlRequest {
    app: AppState,
    audit: AuditDraft,
    id: String,
    key: IdempotencyKey,
    version: IfMatch,
    body: Body<CONTROL_BODY_BYTES_MAX>,
}

impl FromRequest<AppState> for ControlRequest {
    type Rejection = Response;

    async fn from_request(request: Request, app: &AppState) -> Result<Self, Response> {
        type Parts = (AuditDraft, Path<String>, IdempotencyKey, IfMatch, Body<CONTROL_BODY_BYTES_MAX>);
        let (audit, Path(id), key, version, body) =
            <Parts as FromRequest<AppState>>::from_request(request, app).await?;
        Ok(Self { app: app.clone(), audit, id, key, version, body })
    }
}

/// Sends a control to a run.
pub(crate) async fn control(action: Action, request: ControlRequest) -> Answer {
    let ControlRequest { app, audit, id, key, version, body } = request;
    let Cancel { reason, expected_version } = match action {
        Action::Cancel => body.json_or_default()?,
        // The others have no reason.
        Action::Pause | Action::Resume | Action::Retry => {
            let Control { expected_version } = body.json_or_default()?;
            Cancel { reason: None, expected_version }
        }
    };
    deliver(&app, &audit, &id, key, version.or(expected_version)?, action.input(reason)).await
}

impl Action {
    /// The input of a run for this action; only a cancellation has a reason.
    pub(super) fn input(self, reason: Option<String>) -> Input {
        match self {
            Self::Cancel => Input::Cancel { reason },
            Self::Pause => Input::Pause { reason: None },
            Self::Resume => Input::Resume,
            Self::Retry => Input::Retry,
        }
    }
}

async fn deliver(
    app: &AppState,
    audit: &AuditDraft,
    id: &str,
    key: IdempotencyKey,
    expected: Option<u64>,
    input: Input,
) -> Answer {
    let (workspace, run) = (audit.caller().workspace, show::read_id(id)?);
    let row = Some(audit.row(StatusCode::OK));
    let addressed = RunInput { expected, key: key.into_inner(), audit: row, ..RunInput::new(workspace, run, input) };
    let reply = within_run_deadline(app, app.engine.route(addressed)).await?;
    audit.record(reply.is_recorded());
    match answer(reply) {
        Err(problem) if problem.has_code(CONCURRENCY_ERROR) => Err(with_version(app, workspace, run, problem).await),
        answer => answer,
    }
}

/// Adds the present version of a run to the problem of a request that expects another one.
async fn with_version(app: &AppState, workspace: WorkspaceId, run: RunId, problem: Problem) -> Problem {
    let hint = "read GET /v1/runs/{id} again, and repeat the request with its version if it still applies";
    let present = async { show::show(app, show::row(app, workspace, run).await?).await };
    match within_run_deadline(app, present).await {
        Ok(run) => problem.with("version", run.version).hint(hint),
        // The version is not known now; the request was rejected nevertheless.
        Err(_) => problem.hint(hint),
    }
}

fn answer(reply: Reply) -> Answer {
    match reply {
        Reply::Accepted | Reply::Applied(_) => Ok(Json(Outcome { outcome: "accepted", reason: None })),
        Reply::Buffered => Ok(Json(Outcome { outcome: "buffered", reason: None })),
        Reply::Repeated => Ok(Json(Outcome { outcome: "repeated", reason: None })),
        Reply::Ignored(reason) => Ok(Json(Outcome { outcome: "ignored", reason: Some(reason.into()) })),
        Reply::Refused { code, message, .. } => Err(refuse(code, message)),
    }
}

/// The problem for a run's rejection, by its code.
fn refuse(code: Cow<'static, str>, message: String) -> Problem {
    let status = match &*code {
        "PAYLOAD_TOO_LARGE" => return Problem::too_large(message),
        "PAYLOAD_TOO_DEEP" | "VALIDATION_ERROR" => StatusCode::UNPROCESSABLE_ENTITY,
        // INVALID_TRANSITION, RUN_ENDED, NOTHING_TO_RETRY, CONCURRENCY_ERROR: the run does not have the state that the
        // caller expects.
        _ => StatusCode::CONFLICT,
    };
    Problem::new(status, code, message)
}
