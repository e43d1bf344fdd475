//! Dry runs: the result that a request would have, with every reason against it. Nothing is written, owned or counted.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use everstep_core::actor::Actor;
use everstep_core::machine::{self, Act, Rights};
use everstep_core::meter::Meter;
use everstep_core::payload::Payload;
use everstep_core::run::State as RunState;
use everstep_core::strict::StrictValue;
use everstep_core::workflow::Workflow;
use everstep_engine::{MachineSnapshot, Version};
use serde_json::json;

use super::reader::{self, Reader};
use super::wire::{
    AvailableAction, DefinitionDryRun, DryRun, EvaluateDefinitionRequest, EvaluateRunRequest, ImaginedPerson,
    ShownFields, Votes,
};
use super::{offer, transition};
use crate::auth::{Caller, Permission, lacks_permission};
use crate::http::body::Body;
use crate::http::problem::Problem;
use crate::http::time::Time;
use crate::resources::workflows::{self, DefinitionBody};
use crate::server::AppState;

/// Bytes of a definition with a context.
const BODY_BYTES_MAX: usize = 16 * 1024 * 1024 + 1024 * 1024;

/// `POST /v1/runs/{id}/evaluate`.
pub(crate) async fn of_run(
    State(app): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    body: Body<{ transition::BODY_BYTES_MAX }>,
) -> Result<Json<DryRun>, Problem> {
    let EvaluateRunRequest { action, version, comment, data, shown, withdraw, files, other } = body.json()?;
    let (files, files_until) = (offer::read_ids(&files)?, None);
    let reader = Reader::from_caller(&app, &caller).await?;
    let (by, rights) = imagine(&app, &caller, &reader, other).await?;
    let run = reader::load(&app, &caller, &reader, &id).await?;
    let digest = String::new();
    let act = Act { action, version, by, rights, comment, data, shown, withdraw, files, files_until, digest };
    let evaluated = workflows::check(&app, &caller, move |app, _| {
        Ok(DryRun::from_core(machine::evaluate(&run.workflow, &run.state, &act, reader::cx(app, &Meter::new()))))
    });
    evaluated.await.map(Json)
}

/// `POST /v1/workflows/evaluate`.
pub(crate) async fn of_definition(
    State(app): State<AppState>,
    caller: Caller,
    DefinitionBody(body): DefinitionBody<BODY_BYTES_MAX>,
) -> Result<Json<DefinitionDryRun>, Problem> {
    let read = workflows::check(&app, &caller, move |app, _| {
        let mut request: EvaluateDefinitionRequest = body.json()?;
        let compiled = request.definition.take().map(|StrictValue(definition)| {
            app.engine.library().compile_test(&definition, None).map_err(workflows::refuse)
        });
        Ok((request, compiled))
    });
    let (mut request, compiled) = read.await?;
    let reader = Reader::from_caller(&app, &caller).await?;
    let person = imagine(&app, &caller, &reader, request.other.take()).await?;
    let version = find(&app, &caller, compiled, request.workflow.take(), request.version).await?;
    let evaluated = workflows::check(&app, &caller, move |app, _| evaluate(app, &version, request, person));
    evaluated.await.map(Json)
}

/// Evaluates a request for a definition. Called on a thread for checks.
fn evaluate(
    app: &AppState,
    version: &Version,
    request: EvaluateDefinitionRequest,
    (by, rights): (Actor, Rights),
) -> Result<DefinitionDryRun, Problem> {
    let workflow = &version.workflow;
    let context = request.context.unwrap_or_else(|| Payload::from(json!({})));
    // The imagined run was started by no caller, so that `notBy: ["@start"]` excludes none of them.
    let starter = Actor::system("@start");
    let state = machine::imagine(workflow, &request.state, &context, &starter, reader::cx(app, &Meter::new()));
    let state =
        state.map_err(|failure| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, failure.code, failure.message))?;
    let mut answer = show(app, workflow, &state, &by, &rights)?;
    let files = offer::read_ids(&request.files)?;
    answer.result = request.action.map(|action| {
        let (comment, data) = (request.comment, request.data);
        let (version, shown, withdraw, files_until, digest) = (None, None, false, None, String::new());
        let act = Act { action, version, by, rights, comment, data, shown, withdraw, files, files_until, digest };
        DryRun::from_core(machine::evaluate(workflow, &state, &act, reader::cx(app, &Meter::new())))
    });
    Ok(answer)
}

/// The state in which an imagined run is, and the actions in it.
fn show(
    app: &AppState,
    workflow: &Workflow,
    state: &RunState,
    by: &Actor,
    rights: &Rights,
) -> Result<DefinitionDryRun, Problem> {
    let no_state = || Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "VALIDATION_ERROR", "the run has no state");
    let MachineSnapshot { situation, due, assigned, votes } =
        MachineSnapshot::from_state(workflow, state).ok_or_else(no_state)?;
    let views = machine::actions(workflow, state, by, rights, reader::cx(app, &Meter::new()));
    Ok(DefinitionDryRun {
        state: situation.state,
        assigned,
        votes: votes.into_iter().map(Votes::from_tally).collect(),
        due: due.map(Time::from_timestamp),
        shown: machine::shown(workflow, state).map(ShownFields::from_core),
        actions: views.into_iter().map(AvailableAction::from_view).collect(),
        result: None,
    })
}

/// The person of a dry run: the caller, or for admins any other.
async fn imagine(
    app: &AppState,
    caller: &Caller,
    reader: &Reader,
    other: Option<ImaginedPerson>,
) -> Result<(Actor, Rights), Problem> {
    let Some(ImaginedPerson { user, roles }) = other else {
        return Ok((reader.actor.clone(), reader.rights.clone()));
    };
    if !caller.may(Permission::Admin) {
        return Err(lacks_permission(caller, Permission::Admin).with("path", "as"));
    }
    let now = app.engine.world().clock.now();
    let rights = app.role_maps.rights_of_roles(caller.workspace, roles, now).await?;
    Ok((Actor::person(user), rights))
}

/// The state machine of a dry run: a definition, or a saved version.
async fn find(
    app: &AppState,
    caller: &Caller,
    compiled: Option<Result<Arc<Version>, Problem>>,
    workflow: Option<String>,
    version: Option<u32>,
) -> Result<Arc<Version>, Problem> {
    let found = match (compiled, workflow) {
        (Some(compiled), None) => {
            if version.is_some() {
                return Err(Problem::invalid("version can be sent only with workflow, not with definition"));
            }
            compiled?
        }
        (None, Some(name)) => workflows::find_version(app, caller.workspace, &name, version).await?,
        (Some(_), Some(_)) | (None, None) => {
            return Err(Problem::invalid("send either definition or workflow"));
        }
    };
    if found.workflow.style.machine().is_none() {
        let detail = "the workflow is not a state machine";
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "VALIDATION_ERROR", detail));
    }
    Ok(found)
}
