//! `/v1/workflows/{name}`: definitions.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use everstep_core::strict::Strict;
use serde_json::Value;

use crate::auth::Caller;
use crate::body::Body;
use crate::openapi::Parameter;
use crate::problem::Problem;
use crate::query::Query;
use crate::server::Served;
use crate::wire::Workflow;

/// Bytes of a definition.
const DEFINITION: usize = 16 * 1024 * 1024;

pub(crate) const VERSION: &[Parameter] =
    &[Parameter::whole("version", 1, u32::MAX as u64, "This version; the active one if it is left out.")];

/// Saves a definition and makes it the active version. The same definition again is the same version.
pub(crate) async fn put(
    State(served): State<Served>,
    caller: Caller,
    Path(name): Path<String>,
    body: Body<DEFINITION>,
) -> Result<Json<Workflow>, Problem> {
    let Strict(definition): Strict = body.json()?;
    let published = served.engine.library().publish(caller.workspace, &name, &definition).await?;
    let version = published.map_err(|problems| {
        let count = problems.len();
        let detail = format!("the definition has {count} {}", if count == 1 { "problem" } else { "problems" });
        let problems = serde_json::to_value(problems).unwrap_or(Value::Null);
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "VALIDATION_ERROR", detail).with("problems", problems)
    })?;
    find(&served, &caller, &name, Some(version)).await.map(Json)
}

/// The active version of a workflow, or the one that is asked for.
pub(crate) async fn get(
    State(served): State<Served>,
    caller: Caller,
    Path(name): Path<String>,
    query: Query,
) -> Result<Json<Workflow>, Problem> {
    let version = query.number("version", 1..=u64::from(u32::MAX))?.and_then(|version| u32::try_from(version).ok());
    find(&served, &caller, &name, version).await.map(Json)
}

async fn find(served: &Served, caller: &Caller, name: &str, version: Option<u32>) -> Result<Workflow, Problem> {
    let row = served.engine.world().store.workflow(caller.workspace, name, version).await?;
    let row = row.ok_or_else(|| {
        let which = version.map(|version| format!(" in version {version}")).unwrap_or_default();
        Problem::not_found(format!("workflow {name:?} was not found{which}"))
    })?;
    Ok(Workflow::of(row))
}
