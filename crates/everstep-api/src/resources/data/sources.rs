//! `/v1/data-sources`: the locations of data.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use everstep_handlers::sources::{Source, SourceTest};
use everstep_vault::{ResourceError, SavedResource};

use super::wire::{DataSource, DataSources};
use super::{BODY_BYTES_MAX, read_document};
use crate::auth::Caller;
use crate::http::body::Body;
use crate::http::page::Page;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::server::AppState;

pub(super) async fn list(
    State(app): State<AppState>,
    caller: Caller,
    query: Query,
) -> Result<Json<DataSources>, Problem> {
    let page = Page::read(&query);
    let after: Option<String> = page.cursor()?;
    let rows = app.sources.list_sources(caller.workspace, after.as_deref(), page.limit + 1).await?;
    let (rows, next_cursor) = page.cut(rows, |row: &SavedResource<Source>| row.name.clone());
    Ok(Json(DataSources { data_sources: rows.into_iter().map(DataSource::from_saved).collect(), next_cursor }))
}

pub(super) async fn get(
    State(app): State<AppState>,
    caller: Caller,
    Path(name): Path<String>,
    _: Query,
) -> Result<Json<DataSource>, Problem> {
    find(&app, &caller, &name).await.map(DataSource::from_saved).map(Json)
}

pub(super) async fn put(
    State(app): State<AppState>,
    caller: Caller,
    Path(name): Path<String>,
    body: Body<BODY_BYTES_MAX>,
) -> Result<(StatusCode, Json<DataSource>), Problem> {
    let source = read_document(&body)?;
    let now = app.engine.world().clock.now();
    let (saved, is_new) = app.sources.put_source(caller.workspace, &name, &source, now).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(DataSource::from_saved(saved))))
}

pub(super) async fn delete(
    State(app): State<AppState>,
    caller: Caller,
    Path(name): Path<String>,
    _: Query,
) -> Result<StatusCode, Problem> {
    app.sources.delete_source(caller.workspace, &name).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Tests a saved source.
pub(super) async fn test(
    State(app): State<AppState>,
    caller: Caller,
    Path(name): Path<String>,
    _: Query,
) -> Result<Json<SourceTest>, Problem> {
    let source = find(&app, &caller, &name).await?;
    Ok(Json(app.drivers.test(caller.workspace, &source.body).await))
}

/// Tests a source that is not saved.
pub(super) async fn test_unsaved(
    State(app): State<AppState>,
    caller: Caller,
    body: Body<BODY_BYTES_MAX>,
) -> Result<Json<SourceTest>, Problem> {
    let source = read_document(&body)?;
    let source = Source::read(&source).map_err(ResourceError::Invalid)?;
    Ok(Json(app.drivers.test(caller.workspace, &source).await))
}

async fn find(app: &AppState, caller: &Caller, name: &str) -> Result<SavedResource<Source>, Problem> {
    let found = app.sources.find_source(caller.workspace, name).await?;
    found.ok_or_else(|| Problem::not_found(format!("the data source {name:?} does not exist")))
}
