//! `POST /v1/runs/{id}/transitions`: performs an action, or votes for it.

use std::borrow::Cow;
use std::time::Instant;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use everstep_core::ids::{RunId, WorkspaceId};
use everstep_core::limits;
use everstep_core::machine::{self, Act, Applied, RefusalDetails};
use everstep_core::payload::Payload;
use everstep_core::run::{Input, Reply, State as RunState};
use everstep_core::workflow::Workflow;
use everstep_engine::{Error, LoadedRun, RunInput};
use everstep_store::RunGlance;
use serde_json::{Value, json};

use super::attempt::AttemptFacts;
use super::digest::digest;
use super::offer;
use super::reader::Reader;
use super::refusal;
use super::wire::{Transition, TransitionRequest};
use crate::audit::AuditDraft;
use crate::http::body::Body;
use crate::http::headers::IdempotencyKey;
use crate::http::problem::Problem;
use crate::resources::runs::read_id;
use crate::run_deadline::within_run_deadline;
use crate::server::AppState;

/// Bytes of the data of a transition.
pub(super) const DATA_BYTES_MAX: usize = 256 * 1024;
/// Bytes of a request: its data, a comment and the rest.
pub(super) const BODY_BYTES_MAX: usize = DATA_BYTES_MAX + 32 * 1024;

pub(crate) type Answer = Result<Json<Transition>, Problem>;

pub(crate) async fn post(
    State(app): State<AppState>,
    audit: AuditDraft,
    attempt: AttemptFacts,
    Path(id): Path<String>,
    key: IdempotencyKey,
    body: Body<BODY_BYTES_MAX>,
) -> Answer {
    perform(&app, &audit, &attempt, &id, key.into_inner(), body.json()?).await
}

/// Sends the request to the owner of the run, and answers after the commit.
pub(super) async fn perform(
    app: &AppState,
    audit: &AuditDraft,
    attempt: &AttemptFacts,
    id: &str,
    key: Option<String>,
    request: TransitionRequest,
) -> Answer {
    attempt.set_action(&request.action);
    let run = read_id(id)?;
    let digest = digest(&describe(&request));
    let TransitionRequest { action, version, comment, data, shown, withdraw, files } = request;
    let files = offer::read_ids(&files)?;
    if let Some(size) = data.as_ref().map(Payload::size).filter(|size| *size > DATA_BYTES_MAX) {
        return Err(Problem::too_large(format!("data has {size} bytes; at most {DATA_BYTES_MAX} are allowed")));
    }
    let caller = audit.caller();
    let reader = Reader::from_caller(app, caller).await?;
    let (by, rights) = (reader.actor.clone(), reader.rights.clone());
    let workspace = caller.workspace;
    // The run rejects a withdrawal with files.
    let files_until = if withdraw { None } else { offer::reserve(app, workspace, &by, run, &files).await? };
    let name = action.clone();
    let act = Act { action: name, version, by, rights, comment, data, shown, withdraw, files, files_until, digest };
    let input = Input::Transition(Box::new(act));
    let row = Some(audit.row(StatusCode::OK));
    let addressed = RunInput { key, audit: row, ..RunInput::new(workspace, run, input) };
    let mut workflow = None;
    let sent = send(app, audit, attempt, &reader, addressed, &mut workflow).await;
    // Only the labels of the metrics need the workflow. Usually the request has found it on its way.
    if workflow.is_none()
        && let Ok(RunGlance { workflow: name, version, .. }) = app.engine.runs().glance(workspace, run).await
    {
        workflow = Some((name, version));
    }
    if let Some((name, version)) = workflow {
        let is_known = sent.is_ok() || has_action(app, workspace, &name, version, &action).await;
        attempt.set_workflow(&name, is_known);
    }
    let applied = sent?;
    attempt.set_states(&applied.previous_state, Some(&applied.next_state));
    Ok(Json(Transition::from_applied(run, applied)))
}

/// Whether a version of a workflow is a state machine with this action.
async fn has_action(app: &AppState, workspace: WorkspaceId, workflow: &str, version: u32, action: &str) -> bool {
    let version = app.engine.library().of_version(workspace, workflow, version).await;
    version.is_ok_and(|version| version.workflow.style.machine().is_some_and(|machine| machine.has_action(action)))
}

/// Sends a request for a run to its owner, and returns the answer after the commit. `workflow` is the name and the version
/// of the run's workflow, if this node has needed them.
pub(super) async fn send(
    app: &AppState,
    audit: &AuditDraft,
    attempt: &AttemptFacts,
    reader: &Reader,
    input: RunInput,
    workflow: &mut Option<(String, u32)>,
) -> Result<Applied, Problem> {
    let (run, began, arrived_at) = (input.run, Instant::now(), app.engine.world().clock.now());
    let asked = Asked::from_input(&input.input);
    let routed = async {
        let routed = app.engine.request(input).await;
        *workflow = routed.workflow;
        routed.reply
    };
    let reply = within_run_deadline(app, routed).await?;
    audit.record(reply.is_recorded());
    let (code, message, details) = match reply {
        Reply::Applied(applied) => {
            if !applied.repeated {
                app.meters.record_acquired(applied.at.since(arrived_at));
            }
            return Ok(*applied);
        }
        Reply::Refused { code, message, details } => (code, message, details),
        // A machine answers every request with one of the two above.
        Reply::Accepted | Reply::Buffered | Reply::Repeated | Reply::Ignored(_) => {
            return Err(Problem::unavailable("the run has not answered the request"));
        }
    };
    // A request for another version may not have reached the owner.
    if code != machine::code::CONCURRENCY_ERROR {
        app.meters.record_acquired(began.elapsed());
    }
    if let Some(state) = details.as_ref().and_then(|details| details.state.as_deref()) {
        attempt.set_states(state, None);
    }
    // The owner has checked whether the caller takes part in the run, so that the run need not be read for it.
    if reader.sees_all() || details.as_ref().is_some_and(|details| details.takes_part) {
        return Err(refusal::refuse(code, message, details));
    }
    Err(refuse_to_actor(app, audit, reader, run, asked, (code, message, details)).await?)
}

/// The code, the message and the details of a refusal.
type Refused = (Cow<'static, str>, String, Option<Box<RefusalDetails>>);

/// The parts of a request that its refusal depends on.
#[derive(Default)]
struct Asked {
    action: Option<String>,
    version: Option<u32>,
}

impl Asked {
    fn from_input(input: &Input) -> Self {
        match input {
            Input::Transition(act) => Self { action: Some(act.action.clone()), version: act.version },
            Input::Start { .. }
            | Input::Result { .. }
            | Input::TaskLost { .. }
            | Input::Timer { .. }
            | Input::ChildEnded { .. }
            | Input::ChildStarted { .. }
            | Input::Signal { .. }
            | Input::BufferedSignal { .. }
            | Input::Event { .. }
            | Input::BeginTurn { .. }
            | Input::LoseTurn { .. }
            | Input::Report { .. }
            | Input::Assign(_)
            | Input::SetContext { .. }
            | Input::Pause { .. }
            | Input::Resume
            | Input::Cancel { .. }
            | Input::Retry
            | Input::Fail { .. }
            | Input::Settle => Self::default(),
        }
    }
}

/// The refusal of a caller without `workflow:view`. If they may not read the run, they learn the roles that may perform
/// the action, and nothing of the run.
///
/// A request may arrive after the run has left the state that the request names. A caller who was authorized in that
/// state receives the whole refusal: if fifty persons may approve and one of them does, the refusals of the others name
/// that person.
async fn refuse_to_actor(
    app: &AppState,
    audit: &AuditDraft,
    reader: &Reader,
    run: RunId,
    asked: Asked,
    (code, message, details): Refused,
) -> Result<Problem, Problem> {
    let not_found = || Problem::from(Error::RunNotFound(run));
    let journaled = app.engine.runs().load_shared(run).await?;
    let LoadedRun { row, workflow, state } = &journaled.loaded;
    let (Some(workflow), Some(state)) = (workflow, state) else { return Err(not_found()) };
    let progress = state.machine().filter(|_| row.workspace == audit.caller().workspace);
    let present = progress.ok_or_else(not_found)?.version_no();
    // Without a version, the request was for a state that the run has just left.
    let first = asked.version.unwrap_or_else(|| present.saturating_sub(1 + limits::AUTO_TRANSITIONS));
    let last = asked.version.unwrap_or(present);
    let could_read = |workflow: &Workflow, state: &RunState| reader.may_read(app, workflow, state);
    if reader.may_read(app, workflow, state)
        || app.engine.runs().was_in_state(&journaled, first..=last, could_read).await?
    {
        return Ok(refusal::refuse(code, message, details));
    }
    let required = details.map(|details| details.required).filter(|required| !required.is_empty());
    let of_action = || Some(machine::required_to_act(workflow, state, asked.action.as_deref()?));
    Ok(refusal::forbid(required.or_else(of_action).unwrap_or_default()))
}

/// The request as a value, for its digest.
fn describe(request: &TransitionRequest) -> Value {
    let TransitionRequest { action, version, comment, data, shown, withdraw, files } = request;
    let mut described = json!({
        "action": action,
        "version": version,
        "comment": comment,
        "data": data.as_ref().map(Payload::value),
        "shown": shown,
        "withdraw": withdraw,
    });
    // A request without files has the digest that it has in earlier releases.
    if !files.is_empty() {
        described["files"] = json!(files);
    }
    described
}
