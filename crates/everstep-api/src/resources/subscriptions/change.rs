//! `PATCH` and `DELETE /v1/subscriptions/{id}`: only subscriptions that callers have created.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use everstep_core::topics::{self, Origin, Target};

use super::check;
use super::read::{find, missing};
use super::wire::{ChangeRequest, Subscription};
use crate::auth::Caller;
use crate::http::body::Body;
use crate::http::problem::Problem;
use crate::server::AppState;

pub(super) async fn patch(
    State(app): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    body: Body<{ 256 * 1024 }>,
) -> Result<Json<Subscription>, Problem> {
    let request: ChangeRequest = body.json()?;
    let present = find_own(&app, &caller, &id).await?;
    let changed = change(&app, present, request)?;
    if !app.engine.world().topics.change_subscription(&changed).await? {
        return Err(missing(&id));
    }
    Ok(Json(Subscription::from_core(changed)))
}

fn change(
    app: &AppState,
    present: topics::Subscription,
    request: ChangeRequest,
) -> Result<topics::Subscription, Problem> {
    let ChangeRequest { pattern, name, version, filter, input, key, retention_days } = request;
    let Target::Workflow { name: old_name, version: old_version, retention_days: old_days, key: old_key } =
        present.target;
    let target = Target::Workflow {
        name: name.unwrap_or(old_name),
        version: version.unwrap_or(old_version),
        retention_days: retention_days.unwrap_or(old_days),
        key: key.unwrap_or(old_key),
    };
    let Target::Workflow { name, version, key, .. } = &target;
    check::check_name(name)?;
    check::check_version(*version)?;
    if let Some(key) = key {
        check::check_key(app, key)?;
    }
    if let Some(Some(input)) = &input {
        check::check_input(app, input)?;
    }
    Ok(topics::Subscription {
        pattern: pattern.map_or(Ok(present.pattern), |pattern| check::read_pattern(&pattern))?,
        filter: match filter {
            None => present.filter,
            Some(filter) => filter.map(|filter| check::read_filter(app, &filter)).transpose()?,
        },
        input: input.unwrap_or(present.input),
        target,
        ..present
    })
}

pub(super) async fn delete(
    State(app): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    let present = find_own(&app, &caller, &id).await?;
    match app.engine.world().topics.delete_subscription(caller.workspace, present.id).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(missing(&id)),
    }
}

/// A subscription that a caller has created.
async fn find_own(app: &AppState, caller: &Caller, id: &str) -> Result<topics::Subscription, Problem> {
    let found = find(app, caller.workspace, id).await?;
    let Origin::Workflow(workflow) = &found.origin else { return Ok(found) };
    let detail = format!("subscription {id} is a trigger in the definition of workflow {workflow:?}");
    let hint = "change the definition, or pause the subscription";
    Err(Problem::new(StatusCode::CONFLICT, "OWNED_BY_WORKFLOW", detail).hint(hint).with("workflow", workflow.as_str()))
}
