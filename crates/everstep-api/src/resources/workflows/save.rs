//! Writes workflows.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use everstep_core::graph::NamedSecret;
use everstep_core::ids::WorkspaceId;
use everstep_core::publisher::Publisher;
use everstep_core::strict::StrictValue;
use everstep_engine::{CheckedDefinition, DefinitionOutcome, SaveOptions};
use everstep_store::Precondition;
use serde_json::Value;

use super::wire::{Fault, NewWorkflow, Validation, Workflow};
use super::{DEFINITION_BYTES_MAX, DefinitionBody, Examined, check_definition, etag, find, place};
use crate::auth::Caller;
use crate::http::body::Body;
use crate::http::headers::{IdempotencyKey, IfMatch};
use crate::http::openapi::Parameter;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::run_deadline::within_store_deadline;
use crate::server::AppState;

pub(crate) const ACTIVATE_PARAMETERS: &[Parameter] =
    &[Parameter::flag("activate", "Whether new runs use this version from now on; true by default.")];

pub(super) type Answer = Result<(StatusCode, [(HeaderName, HeaderValue); 2], Json<Workflow>), Problem>;

/// Saves a definition as a version. A definition that equals the newest version adds no version.
pub(crate) async fn put(
    State(app): State<AppState>,
    caller: Caller,
    Path(name): Path<String>,
    query: Query,
    version: IfMatch,
    body: Body<DEFINITION_BYTES_MAX>,
) -> Answer {
    let activate = query.flag("activate")?.unwrap_or(true);
    let precondition = super::precondition(version)?;
    let checked = check(&app, &caller, move |app, publisher| {
        let StrictValue(definition): StrictValue = body.json()?;
        check_definition(app, &name, &definition, publisher)
    });
    save(&app, &caller, checked.await?, SaveOptions { activate, precondition }).await
}

/// Saves the first version of a workflow. No workflow with that name may exist.
pub(crate) async fn create(
    State(app): State<AppState>,
    caller: Caller,
    key: IdempotencyKey,
    body: Body<DEFINITION_BYTES_MAX>,
) -> Answer {
    let checked = check(&app, &caller, move |app, publisher| {
        let NewWorkflow { name, definition: StrictValue(mut definition), activate, description } = body.json()?;
        if let Some(description) = description {
            describe(&mut definition, description)?;
        }
        Ok((check_definition(app, &name, &definition, publisher)?, activate))
    });
    let (checked, activate) = checked.await?;
    make(&app, &caller, checked, activate, key).await
}

/// The problems of a definition, without saving it.
pub(crate) async fn validate(
    State(app): State<AppState>,
    caller: Caller,
    DefinitionBody(body): DefinitionBody<DEFINITION_BYTES_MAX>,
) -> Result<Json<Validation>, Problem> {
    let checked = check(&app, &caller, move |app, publisher| {
        let StrictValue(definition): StrictValue = body.any()?;
        Ok(Examined::from_definition(app, &definition, &publisher))
    });
    Ok(Json(match checked.await?.in_workspace(&app, caller.workspace).await? {
        Examined::Valid(style) => {
            Validation::with_warnings(warn(&app, caller.workspace, &style.named_secrets()).await?)
        }
        Examined::Invalid(problems) => Validation::from_problems(problems),
    }))
}

/// Reads and checks a definition on a thread for checks.
pub(crate) async fn check<T: Send + 'static>(
    app: &AppState,
    caller: &Caller,
    check: impl FnOnce(&AppState, Publisher) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let (of_thread, publisher) = (app.clone(), caller.publisher());
    app.checks.perform(caller.workspace, move || check(&of_thread, publisher)).await?
}

/// A warning for each place that names a secret which does not exist.
async fn warn(app: &AppState, workspace: WorkspaceId, named: &[NamedSecret]) -> Result<Vec<Fault>, Problem> {
    let mut exists = BTreeMap::new();
    for NamedSecret { name, .. } in named {
        if let Entry::Vacant(vacant) = exists.entry(name.as_str()) {
            vacant.insert(app.vault.has(workspace, name).await?);
        }
    }
    let missing = named.iter().filter(|secret| !exists[secret.name.as_str()]);
    Ok(missing.map(|secret| Fault::from_problem(secret.unknown())).collect())
}

/// Creates a workflow that must not exist yet. With an idempotency key, a workflow whose newest version has the same
/// definition counts as the result of an earlier request.
pub(super) async fn make(
    app: &AppState,
    caller: &Caller,
    checked: CheckedDefinition,
    activate: bool,
    key: IdempotencyKey,
) -> Answer {
    let precondition = match key.into_inner() {
        Some(_) => Precondition::NothingElse,
        None => Precondition::Nothing,
    };
    save(app, caller, checked, SaveOptions { activate, precondition }).await
}

/// Saves a version, and returns it.
pub(super) async fn save(app: &AppState, caller: &Caller, checked: CheckedDefinition, options: SaveOptions) -> Answer {
    let (workspace, name) = (caller.workspace, checked.name().to_owned());
    let (version, is_first, secrets) =
        match within_store_deadline(app, app.engine.library().save_checked(workspace, checked, options)).await? {
            DefinitionOutcome::Saved { version, is_first, secrets } => (version, is_first, secrets),
            DefinitionOutcome::Unexpected { active } => return Err(unexpected(&name, options.precondition, active)),
        };
    let (mut workflow, active) = find(app, workspace, &name, Some(version)).await?;
    workflow.warnings = warn(app, workspace, &secrets).await?;
    let status = if is_first { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, [place(&name), etag(active)], Json(workflow)))
}

/// The problem of a change to a workflow that does not have the state that the caller expects.
pub(super) fn unexpected(name: &str, precondition: Precondition, active: u32) -> Problem {
    if let Precondition::Nothing | Precondition::NothingElse = precondition {
        let detail = format!("the workflow {name:?} already exists");
        let hint = format!("add a version to it with PUT /v1/workflows/{name}, or choose another name");
        return Problem::new(StatusCode::CONFLICT, "WORKFLOW_EXISTS", detail).hint(hint);
    }
    let detail = match active {
        0 => format!("no version of workflow {name:?} is active; nothing was changed"),
        active => format!("the active version of workflow {name:?} is {active}; nothing was changed"),
    };
    Problem::new(StatusCode::CONFLICT, "CONCURRENCY_ERROR", detail)
        .hint("read the workflow again, and repeat the change if it still applies")
}

/// Adds a description to a definition that has none, or the same.
fn describe(definition: &mut Value, description: String) -> Result<(), Problem> {
    // A definition that is not an object is rejected later, with all its problems.
    let Some(fields) = definition.as_object_mut() else { return Ok(()) };
    match fields.get("description") {
        Some(there) if there != &description => {
            Err(Problem::invalid("description and definition.description differ").hint("send one of them"))
        }
        _ => {
            fields.insert("description".to_owned(), description.into());
            Ok(())
        }
    }
}
