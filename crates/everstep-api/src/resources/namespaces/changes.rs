//! `GET /v1/namespaces/{namespace}/changes`: the history of a namespace.

use axum::Json;
use axum::extract::State;
use everstep_store::ChangeQuery;

use super::wire::{Change, Changes};
use crate::auth::Caller;
use crate::http::openapi::Parameter;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::resources::store::{LIMIT_PARAMETER, NamespacePath, check_namespace, is_end, read_limit};
use crate::server::AppState;

/// The verbs of changes. A transaction has those of its writes.
const ACTIONS: &[&str] =
    &["store.set", "store.delete", "store.increment", "store.expire", "links.upsert", "links.delete"];

pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter::whole("after", 0, i64::MAX as u64, "Changes after this number; 0 by default."),
    LIMIT_PARAMETER,
    Parameter::text(
        "actor",
        "Changes of this actor: `key:` and a key's id, `person:`, the issuer and a person's id, or `run:` and a run's id.",
    ),
    Parameter::choice("action", ACTIONS, "Changes of this verb."),
    Parameter::id("run", "Changes of this run."),
];

/// Oldest first.
pub(super) async fn list(
    State(app): State<AppState>,
    caller: Caller,
    NamespacePath(namespace): NamespacePath,
    query: Query,
) -> Result<Json<Changes>, Problem> {
    let page = ChangeQuery {
        namespace,
        after: query.number("after").unwrap_or(0),
        limit: read_limit(&query),
        actor: query.text("actor").map(str::to_owned),
        action: read_action(&query)?,
        run: query.value("run")?,
    };
    let found = app.engine.records().changes(caller.workspace, &page).await?;
    if is_end(&found.changes, found.next.as_ref()) {
        check_namespace(&app, caller.workspace, &page.namespace).await?;
    }
    let changes = found.changes.into_iter().map(Change::from_row).collect();
    Ok(Json(Changes { changes, next_after: found.next }))
}

fn read_action(query: &Query) -> Result<Option<String>, Problem> {
    match query.text("action") {
        Some(action) if !ACTIONS.contains(&action) => {
            let hint = format!("the actions are {}", ACTIONS.join(", "));
            Err(Problem::invalid(format!("the query parameter \"action\" is not valid: {action:?}")).hint(hint))
        }
        action => Ok(action.map(str::to_owned)),
    }
}
