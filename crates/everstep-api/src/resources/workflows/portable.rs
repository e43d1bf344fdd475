//! Copies workflows to another name, workspace or server.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use everstep_core::decode::describe_error;
use everstep_core::strict::StrictValue;
use everstep_core::whole;
use everstep_core::workflow::is_name;
use everstep_engine::SaveOptions;
use everstep_store::Precondition;
use serde_json::Value;

use super::list::read_version;
use super::save::{Answer, check, make, save};
use super::wire::{Clone, Exported, Portable};
use super::{DEFINITION_BYTES_MAX, check_definition, find, is_code};
use crate::auth::Caller;
use crate::http::body::Body;
use crate::http::headers::IdempotencyKey;
use crate::http::openapi::Parameter;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::id::is_version;
use crate::server::AppState;

pub(crate) const IMPORT_PARAMETERS: &[Parameter] = &[
    Parameter::pattern("name", "^[a-z0-9][a-z0-9_-]{0,127}$", "Another name than that of the document."),
    Parameter::flag("activate", "Whether new runs use this version from now on; true by default."),
];
/// Bytes of a request to clone.
const CLONE_BYTES_MAX: usize = 16 * 1024;
/// Bytes of an exported document: a definition, and its name and version.
const DOCUMENT_BYTES_MAX: usize = DEFINITION_BYTES_MAX + 16 * 1024;

/// A version as a document that any server can import.
pub(crate) async fn export(
    State(app): State<AppState>,
    caller: Caller,
    Path(name): Path<String>,
    query: Query,
) -> Result<([(HeaderName, HeaderValue); 1], Json<Exported>), Problem> {
    let (mut workflow, _) = find(&app, caller.workspace, &name, read_version(&query)).await?;
    let definition = workflow.definition.take().ok_or_else(|| is_code(&name))?;
    let file = format!("attachment; filename=\"{}.v{}.json\"", workflow.name, workflow.version);
    let file = HeaderValue::from_str(&file).expect("a name is plain text");
    Ok(([(header::CONTENT_DISPOSITION, file)], Json(Exported::from_workflow(workflow, definition))))
}

/// Saves an exported document: a new workflow, or another version of one.
pub(crate) async fn import(
    State(app): State<AppState>,
    caller: Caller,
    query: Query,
    body: Body<DOCUMENT_BYTES_MAX>,
) -> Answer {
    let options =
        SaveOptions { activate: query.flag("activate")?.unwrap_or(true), precondition: Precondition::Anything };
    let other_name = query.text("name").map(str::to_owned);
    let checked = check(&app, &caller, move |app, publisher| {
        let StrictValue(document): StrictValue = body.json()?;
        let Portable { name, version, definition, .. } = read(document)?;
        if !is_name(&name) {
            return Err(Problem::invalid(format!("the document's name {name:?} is not a valid name of a workflow"))
                .hint(EXPORT_HINT));
        }
        if let Some(version) = version.filter(|version| !is_version(*version)) {
            let detail = format!("the document's version {version} is not valid; versions are from 1 to {}", i32::MAX);
            return Err(Problem::invalid(detail).hint(EXPORT_HINT));
        }
        check_definition(app, &other_name.unwrap_or(name), &definition, publisher)
    });
    save(&app, &caller, checked.await?, options).await
}

/// Saves a version of a workflow as the first version of another.
pub(crate) async fn clone(
    State(app): State<AppState>,
    caller: Caller,
    Path(name): Path<String>,
    key: IdempotencyKey,
    body: Body<CLONE_BYTES_MAX>,
) -> Answer {
    let Clone { name: new, version, activate } = body.json()?;
    let (workflow, _) = find(&app, caller.workspace, &name, version).await?;
    let definition = workflow.definition.ok_or_else(|| is_code(&name))?;
    let checked =
        check(&app, &caller, move |app, publisher| check_definition(app, &new, definition.value(), publisher));
    make(&app, &caller, checked.await?, activate, key).await
}

/// Reads a portable document. Its format is checked first, so that a newer format is distinguished from an invalid
/// document.
fn read(document: Value) -> Result<Portable, Problem> {
    let refuse = |detail: String, hint: &str| {
        Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "VALIDATION_ERROR", detail).hint(hint))
    };
    let format = match document.get("everstep") {
        Some(format) => whole::number::<_, u64>(format).ok(),
        None => {
            return refuse(
                "the body is not an exported workflow: it has no field \"everstep\"".to_owned(),
                EXPORT_HINT,
            );
        }
    };
    match format {
        Some(format) if format == u64::from(Exported::FORMAT) => {}
        Some(format) if format > u64::from(Exported::FORMAT) => {
            let ours = Exported::FORMAT;
            let detail = format!("the document has format {format}; this server supports formats up to {ours}");
            return refuse(detail, "upgrade this server, or export the workflow from an older one");
        }
        _ => {
            return refuse(
                format!("the field \"everstep\" is {}, which is not a format", document["everstep"]),
                EXPORT_HINT,
            );
        }
    }
    if document["kind"] != "workflow" {
        return refuse(format!("the document's kind is {}, not \"workflow\"", document["kind"]), EXPORT_HINT);
    }
    serde_json::from_value(document).map_err(|error| {
        let message = describe_error(&error);
        Problem::invalid(format!("the body does not have the form that this route expects: {message}"))
            .hint(EXPORT_HINT)
    })
}

const EXPORT_HINT: &str = "send the response of GET /v1/workflows/{name}/export";
