//! Reads namespaces.

use axum::Json;
use axum::extract::State;
use everstep_core::records::write_cursor;
use everstep_store::NamespaceQuery;

use super::wire::{Namespace, Namespaces};
use crate::auth::Caller;
use crate::http::openapi::Parameter;
use crate::http::page::CURSOR_PARAMETER;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::resources::store::{LIMIT_PARAMETER, NamespacePath, missing_namespace, read_cursor, read_limit};
use crate::server::AppState;

pub(super) const LIST_PARAMETERS: &[Parameter] = &[CURSOR_PARAMETER, LIMIT_PARAMETER];

/// By name. An empty namespace is not listed.
pub(super) async fn list(
    State(app): State<AppState>,
    caller: Caller,
    query: Query,
) -> Result<Json<Namespaces>, Problem> {
    let page = NamespaceQuery { after: read_cursor(&query)?, limit: read_limit(&query), ..NamespaceQuery::default() };
    let found = app.engine.records().namespaces(caller.workspace, &page).await?;
    let namespaces = found.namespaces.into_iter().map(Namespace::from_row).collect();
    Ok(Json(Namespaces { namespaces, next_cursor: found.next.as_deref().map(write_cursor) }))
}

/// One namespace, also if it is empty now.
pub(super) async fn get(
    State(app): State<AppState>,
    caller: Caller,
    NamespacePath(namespace): NamespacePath,
) -> Result<Json<Namespace>, Problem> {
    let query = NamespaceQuery::by_name(namespace.as_str());
    let found = app.engine.records().namespaces(caller.workspace, &query).await?;
    let row = found.namespaces.into_iter().next().ok_or_else(|| missing_namespace(&namespace))?;
    Ok(Json(Namespace::from_row(row)))
}
