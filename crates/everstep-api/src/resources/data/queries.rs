//! `/v1/queries`: saved queries of sources.

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderName, StatusCode, header};
use everstep_handlers::Sources;
use everstep_handlers::sources::{Query as QueryDefinition, QueryRequest};
use everstep_vault::SavedResource;
use serde_json::Value;

use super::problem::failed;
use super::wire::{QueryRun, SavedQueries, SavedQuery};
use super::{BODY_BYTES_MAX, read_document};
use crate::auth::Caller;
use crate::http::body::Body;
use crate::http::page::Page;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::server::AppState;

/// The timeout of a query.
const QUERY_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of arguments.
const ARGUMENTS_BYTES_MAX: usize = 1024 * 1024;
const ROWS_MAX: u32 = 10_000;

pub(super) async fn list(
    State(app): State<AppState>,
    caller: Caller,
    query: Query,
) -> Result<Json<SavedQueries>, Problem> {
    let page = Page::read(&query);
    let after: Option<String> = page.cursor()?;
    let rows = app.sources.list_queries(caller.workspace, after.as_deref(), page.limit + 1).await?;
    let (rows, next_cursor) = page.cut(rows, |row: &SavedResource<QueryDefinition>| row.name.clone());
    Ok(Json(SavedQueries { queries: rows.into_iter().map(SavedQuery::from_saved).collect(), next_cursor }))
}

pub(super) async fn get(
    State(app): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    _: Query,
) -> Result<Json<SavedQuery>, Problem> {
    let found = app.sources.find_query(caller.workspace, &id).await?;
    let found = found.ok_or_else(|| Problem::not_found(format!("the saved query {id:?} does not exist")))?;
    Ok(Json(SavedQuery::from_saved(found)))
}

pub(super) async fn put(
    State(app): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    body: Body<BODY_BYTES_MAX>,
) -> Result<(StatusCode, Json<SavedQuery>), Problem> {
    let query = read_document(&body)?;
    let now = app.engine.world().clock.now();
    let (saved, is_new) = app.sources.put_query(caller.workspace, &id, &query, now).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(SavedQuery::from_saved(saved))))
}

pub(super) async fn delete(
    State(app): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    _: Query,
) -> Result<StatusCode, Problem> {
    app.sources.delete_query(caller.workspace, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Queries the source as a step would.
pub(super) async fn run(
    State(app): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    body: Body<ARGUMENTS_BYTES_MAX>,
) -> Result<([(HeaderName, &'static str); 1], String), Problem> {
    let QueryRun { args, limit } = body.json_or_default()?;
    if limit.is_some_and(|limit| !(1..=ROWS_MAX).contains(&limit)) {
        return Err(Problem::invalid(format!("`limit` must be between 1 and {ROWS_MAX}")));
    }
    let to_problem = |failure| failed(&failure);
    let query = app.sources.query(caller.workspace, &id).await.map_err(to_problem)?;
    let source = app.sources.source(caller.workspace, &query.source).await.map_err(to_problem)?;
    let args = args.map_or(Value::Null, Value::Object);
    let workspace = caller.workspace;
    let ask = QueryRequest {
        workspace,
        source: &source,
        query: &query,
        args: &args,
        max_rows: limit,
        timeout: QUERY_TIMEOUT,
    };
    let answer = app.drivers.ask(ask).await.map_err(to_problem)?;
    Ok(([(header::CONTENT_TYPE, "application/json")], answer.payload().json().to_owned()))
}
