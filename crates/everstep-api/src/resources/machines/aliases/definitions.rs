//! State machines, as definitions. The id of a definition is the name of its workflow, or `name@version`.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use everstep_core::definition::Problem as DefinitionProblem;
use everstep_core::publisher::Publisher;
use everstep_core::strict::StrictValue;
use everstep_core::style::StyleName;
use everstep_engine::{CheckedDefinition, DefinitionOutcome, Error, SaveOptions};
use everstep_store::{ActivationOutcome, ChangeKey, Precondition, WorkflowRow};
use serde_json::{Value, json};

use super::wire::{
    CreateDefinitionRequest, DefinitionChange, DefinitionPage, DefinitionSummary, DefinitionValidation,
    MachineDefinition,
};
use crate::auth::Caller;
use crate::http::body::Body;
use crate::http::headers::IdempotencyKey;
use crate::http::openapi::Parameter;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::id::is_version;
use crate::resources::machines::digest::digest;
use crate::resources::workflows::{self, DEFINITION_BYTES_MAX, DefinitionBody, Examined};
use crate::run_deadline::within_store_deadline;
use crate::server::AppState;

const PAGE_SIZE_DEFAULT: u64 = 100;
const PAGE_SIZE_MAX: u64 = 500;

pub(super) const PAGE: &[Parameter] = &[
    Parameter::text("cursor", "`nextCursor` of the previous page, unchanged."),
    Parameter::whole("limit", 1, PAGE_SIZE_MAX, "The maximum number of results; 100 by default."),
];

type Shown = Result<Json<MachineDefinition>, Problem>;

/// State machines by name. A page may have fewer rows than its limit: workflows of other styles are left out.
pub(super) async fn list(
    State(app): State<AppState>,
    caller: Caller,
    query: Query,
) -> Result<Json<DefinitionPage>, Problem> {
    let limit = query.number("limit").unwrap_or(PAGE_SIZE_DEFAULT);
    let limit = usize::try_from(limit).expect("a page is small");
    // One row more than shown: it shows whether there is another page.
    let mut rows = app.workflows.list_workflows(caller.workspace, query.text("cursor"), limit + 1).await?;
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    let next_cursor = rows.last().filter(|_| has_more).map(|row| row.name.clone());
    let machines = rows.into_iter().filter(|row| is_machine(&row.style));
    Ok(Json(DefinitionPage { definitions: machines.map(DefinitionSummary::from_row).collect(), next_cursor }))
}

pub(super) async fn get(State(app): State<AppState>, caller: Caller, Path(id): Path<String>) -> Shown {
    let (name, version) = read_id(&id)?;
    show(&app, &caller, name, version).await
}

/// Saves a version. It is not activated unless the request says so: the active version stays.
pub(super) async fn create(
    State(app): State<AppState>,
    caller: Caller,
    key: IdempotencyKey,
    body: Body<DEFINITION_BYTES_MAX>,
) -> Result<(StatusCode, [(HeaderName, HeaderValue); 1], Json<MachineDefinition>), Problem> {
    let key = key.required()?;
    let read = workflows::check(&app, &caller, move |_, _| {
        let CreateDefinitionRequest { workflow_code, dsl: StrictValue(dsl), is_active } = body.json()?;
        let name = match (workflow_code, dsl["workflow"].as_str()) {
            (Some(name), _) => name,
            (None, Some(name)) => name.to_owned(),
            (None, None) => {
                let hint = "send workflow_code, or the field workflow in dsl";
                return Err(Problem::invalid("the definition has no name").hint(hint));
            }
        };
        let digest = digest(&json!(["POST", dsl, is_active]));
        Ok((name, dsl, is_active, digest))
    });
    let (name, dsl, is_active, digest) = read.await?;
    let (version, is_first) = match begin(&app, &caller, &name, key, digest).await? {
        Begun::Before(version) => (version, false),
        Begun::Now(key) => {
            let of_check = name.clone();
            let checked =
                workflows::check(&app, &caller, move |app, publisher| check_machine(app, &of_check, &dsl, publisher));
            save(&app, &caller, checked.await?.under(Some(key)), is_active).await?
        }
    };
    let status = if is_first { StatusCode::CREATED } else { StatusCode::OK };
    let place = format!("/workflow-engine/definitions/{name}@{version}");
    let place = HeaderValue::from_str(&place).expect("a name is plain text");
    Ok((status, [(header::LOCATION, place)], show(&app, &caller, &name, Some(version)).await?))
}

/// Changes a definition: a changed DSL is a new version; `is_active` activates it, or leaves no version active. The last
/// write of a request records its key.
pub(super) async fn change(
    State(app): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    key: IdempotencyKey,
    body: Body<DEFINITION_BYTES_MAX>,
) -> Shown {
    let key = key.required()?;
    let (name, version) = read_id(&id)?;
    let of_read = id.clone();
    let read = workflows::check(&app, &caller, move |_, _| {
        let DefinitionChange { dsl, is_active } = body.json()?;
        let dsl = dsl.map(|StrictValue(dsl)| dsl);
        let digest = digest(&json!(["PATCH", of_read, dsl, is_active]));
        Ok((dsl, is_active, digest))
    });
    let (dsl, is_active, digest) = read.await?;
    if dsl.is_none() && is_active.is_none() {
        return Err(Problem::invalid("the request changes nothing").hint("send dsl, isActive or both"));
    }
    let key = match begin(&app, &caller, name, key, digest).await? {
        Begun::Before(version) => return show(&app, &caller, name, Some(version)).await,
        Begun::Now(key) => key,
    };
    let found = find(&app, &caller, name, version).await?;
    let is_active = match is_active {
        // The version that the id names is not active: the request saves its DSL, under its key, and no more.
        Some(false) if id.contains('@') && !is_chosen(&app, &caller, &found).await? => None,
        is_active => is_active,
    };
    let version = match dsl {
        Some(dsl) => {
            let of_check = name.to_owned();
            let checked =
                workflows::check(&app, &caller, move |app, publisher| check_machine(app, &of_check, &dsl, publisher));
            let key = Some(key.clone()).filter(|_| is_active != Some(false));
            save(&app, &caller, checked.await?.under(key), is_active == Some(true)).await?.0
        }
        None => found.version,
    };
    let key = Some((key, version));
    match is_active {
        Some(true) => choose(&app, &caller, name, Some(version), Precondition::Anything, key).await?,
        // Another request may have activated another version since.
        Some(false) if id.contains('@') => {
            choose(&app, &caller, name, None, Precondition::Active(found.version), key).await?;
        }
        Some(false) => choose(&app, &caller, name, None, Precondition::Anything, key).await?,
        None => {}
    }
    show(&app, &caller, name, Some(version)).await
}

/// Whether a request was performed before, under the same key.
enum Begun {
    /// It was, and its response names this version.
    Before(u32),
    Now(ChangeKey),
}

/// Looks up the idempotency key of a request. Without this, a repeated request would add its definition after a newer
/// one, and so revert it.
async fn begin(app: &AppState, caller: &Caller, name: &str, key: String, digest: String) -> Result<Begun, Problem> {
    let now = app.engine.world().clock.now();
    match app.workflows.keyed_change(caller.workspace, name, &key, now).await? {
        None => Ok(Begun::Now(ChangeKey { key, digest, at: now })),
        Some(known) if known.digest == digest => Ok(Begun::Before(known.version)),
        Some(_) => {
            let detail = format!("this Idempotency-Key was used for another change of {name:?}");
            let problem = Problem::new(StatusCode::CONFLICT, "IDEMPOTENCY_KEY_REUSED", detail);
            Err(problem.hint("choose another Idempotency-Key for another request"))
        }
    }
}

/// All problems of a definition, without saving it.
pub(super) async fn validate(
    State(app): State<AppState>,
    caller: Caller,
    DefinitionBody(body): DefinitionBody<DEFINITION_BYTES_MAX>,
) -> Result<Json<DefinitionValidation>, Problem> {
    let examined = workflows::check(&app, &caller, move |app, publisher| examine(app, &body, &publisher)).await?;
    Ok(Json(match examined.in_workspace(&app, caller.workspace).await? {
        Examined::Valid(_) => DefinitionValidation::valid(),
        Examined::Invalid(problems) => DefinitionValidation::from_problems(problems),
    }))
}

/// Checks a definition, which must be a state machine.
fn examine(app: &AppState, body: &Body<DEFINITION_BYTES_MAX>, publisher: &Publisher) -> Result<Examined, Problem> {
    let StrictValue(mut document): StrictValue = body.any()?;
    // The DSL itself, or an object with the DSL alone.
    let dsl = document.as_object_mut().and_then(|fields| fields.remove("dsl"));
    let others: Vec<_> = match &dsl {
        Some(_) => document.as_object().into_iter().flatten().map(|(name, _)| unknown_field(name)).collect(),
        None => Vec::new(),
    };
    Ok(match Examined::from_definition(app, &dsl.unwrap_or(document), publisher) {
        Examined::Valid(style) if style.machine().is_none() => Examined::Invalid(vec![other_style()]),
        Examined::Valid(style) if others.is_empty() => Examined::Valid(style),
        Examined::Valid(_) => Examined::Invalid(others),
        Examined::Invalid(problems) => Examined::Invalid(others.into_iter().chain(problems).collect()),
    })
}

/// The problem of a definition of another style.
fn other_style() -> DefinitionProblem {
    DefinitionProblem::at("", "the definition is not a state machine").hint("a state machine has `states`")
}

/// The problem of a field beside the DSL.
fn unknown_field(name: &str) -> DefinitionProblem {
    let path = format!("/{}", name.replace('~', "~0").replace('/', "~1"));
    let hint = "send the DSL itself, or an object whose only field is dsl";
    DefinitionProblem::at(path, format!("unknown field {name:?}")).hint(hint)
}

/// The name and the version of an id: `expense`, or `expense@3`.
fn read_id(id: &str) -> Result<(&str, Option<u32>), Problem> {
    let Some((name, version)) = id.split_once('@') else { return Ok((id, None)) };
    let is_number = version.bytes().all(|byte| byte.is_ascii_digit());
    let version = version.parse().ok().filter(|version| is_number && is_version(*version));
    match version {
        Some(version) => Ok((name, Some(version))),
        None => Err(Problem::not_found(format!("definition {id:?} was not found"))),
    }
}

fn is_machine(style: &str) -> bool {
    StyleName::parse(style) == Some(StyleName::Machine)
}

async fn show(app: &AppState, caller: &Caller, name: &str, version: Option<u32>) -> Shown {
    let row = find(app, caller, name, version).await?;
    let active = app.workflows.workflow(caller.workspace, name, None).await?.map(|row| row.version);
    Ok(Json(MachineDefinition::from_row(row, active)))
}

/// A version of a state machine: the requested one, or the active one, or the newest one if none is active.
async fn find(app: &AppState, caller: &Caller, name: &str, version: Option<u32>) -> Result<WorkflowRow, Problem> {
    let (store, workspace) = (&app.workflows, caller.workspace);
    let version = match version {
        Some(version) => workflows::is_listed(app, workspace, name, version).await?.then_some(version),
        None => match store.workflow(workspace, name, None).await? {
            Some(active) => Some(active.version),
            None => store.list_versions(workspace, name, None, 1).await?.first().map(|newest| newest.version),
        },
    };
    let row = match version {
        Some(version) => store.workflow(workspace, name, Some(version)).await?,
        None => None,
    };
    row.filter(|row| is_machine(&row.style))
        .ok_or_else(|| Problem::not_found(format!("no state machine {name:?} was found")))
}

/// Whether a version is the active one.
async fn is_chosen(app: &AppState, caller: &Caller, row: &WorkflowRow) -> Result<bool, Problem> {
    let active = app.workflows.workflow(caller.workspace, &row.name, None).await?;
    Ok(active.is_some_and(|active| active.version == row.version))
}

/// Checks the definition of a state machine. Called on a thread for checks.
fn check_machine(app: &AppState, name: &str, dsl: &Value, publisher: Publisher) -> Result<CheckedDefinition, Problem> {
    let checked = workflows::check_definition(app, name, dsl, publisher)?;
    if checked.style().machine().is_none() {
        let detail = "the definition is not a state machine";
        let hint = "a state machine has states; save a graph with PUT /v1/workflows/{name}";
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "VALIDATION_ERROR", detail).hint(hint));
    }
    Ok(checked)
}

/// Saves a version of a state machine. Returns its number, and whether it was written now.
async fn save(
    app: &AppState,
    caller: &Caller,
    checked: CheckedDefinition,
    activate: bool,
) -> Result<(u32, bool), Problem> {
    let versions = app.workflows.list_versions(caller.workspace, checked.name(), None, 1).await?;
    let newest = versions.first().map(|row| row.version);
    let options = SaveOptions { activate, precondition: Precondition::Anything };
    match within_store_deadline(app, app.engine.library().save_checked(caller.workspace, checked, options)).await? {
        DefinitionOutcome::Saved { version, .. } => Ok((version, newest != Some(version))),
        DefinitionOutcome::Unexpected { .. } => unreachable!("no state was expected"),
    }
}

/// Makes a version the active one, or leaves none active.
async fn choose(
    app: &AppState,
    caller: &Caller,
    name: &str,
    version: Option<u32>,
    precondition: Precondition,
    key: Option<(ChangeKey, u32)>,
) -> Result<(), Problem> {
    let choosing = app.workflows.choose_version(caller.workspace, name, version, precondition, key);
    match within_store_deadline(app, async { choosing.await.map_err(Error::from) }).await? {
        ActivationOutcome::Chosen | ActivationOutcome::Unexpected { .. } => Ok(()),
        ActivationOutcome::NotFound => Err(workflows::missing(app, caller.workspace, name, version).await),
    }
}
