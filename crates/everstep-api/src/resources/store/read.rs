//! Reads records.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use everstep_core::ids::{RunId, StepKey, WorkspaceId};
use everstep_core::payload::{self, Payload};
use everstep_core::records::{RecordQuery, write_cursor};
use everstep_store::ChangeQuery;

use super::apply::refuse_query;
use super::page::{LIMIT_PARAMETER, check_namespace, is_end, read_cursor, read_limit};
use super::path::{NamespacePath, RecordPath};
use super::wire::{Author, Record, Records};
use crate::auth::Caller;
use crate::http::headers::{IfNoneMatch, etag};
use crate::http::openapi::Parameter;
use crate::http::page::CURSOR_PARAMETER;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::server::AppState;

pub(super) const LIST_PARAMETERS: &[Parameter] = &[
    Parameter::text("prefix", "Records whose key begins with this text."),
    Parameter::text(
        "match",
        "JSON: records whose value contains it. Of an object every field, at any depth, and of an array every element, \
         in any order: `{\"status\":\"open\"}`.",
    ),
    Parameter::flag("values", "Whether the records contain their values; true by default."),
    CURSOR_PARAMETER,
    LIMIT_PARAMETER,
];

/// One record. An expired one does not exist.
pub(super) async fn get(
    State(app): State<AppState>,
    caller: Caller,
    path: RecordPath,
    known: IfNoneMatch,
) -> Result<Response, Problem> {
    let RecordPath { namespace, key } = path;
    let record = app.engine.records().get(caller.workspace, &namespace, &key).await?;
    let record = record.ok_or_else(|| missing(&namespace, &key))?;
    let tag = etag(record.change);
    if known.has(record.change) {
        return Ok((StatusCode::NOT_MODIFIED, [tag]).into_response());
    }
    let written = (record.change, record.run, record.step.clone());
    let author = find_author(&app, caller.workspace, &namespace, written).await?;
    Ok(([tag], Json(Record::from_record(record, Some(author)))).into_response())
}

/// The records of a namespace, by key.
pub(super) async fn list(
    State(app): State<AppState>,
    caller: Caller,
    NamespacePath(namespace): NamespacePath,
    query: Query,
) -> Result<Json<Records>, Problem> {
    let mut page = RecordQuery {
        prefix: query.text("prefix").map(str::to_owned),
        pattern: query.text("match").map(read_pattern).transpose()?,
        limit: read_limit(&query),
        after: read_cursor(&query)?,
        values: query.flag("values")?.unwrap_or(true),
        ..RecordQuery::new(namespace)
    };
    page.check().map_err(refuse_query)?;
    let found = app.engine.records().list(caller.workspace, &page).await?;
    if is_end(&found.records, found.next.as_ref()) {
        check_namespace(&app, caller.workspace, &page.namespace).await?;
    }
    let records = found.records.into_iter().map(|record| Record::from_record(record, None)).collect();
    Ok(Json(Records { records, next_cursor: found.next.as_deref().map(write_cursor) }))
}

fn read_pattern(text: &str) -> Result<Payload, Problem> {
    let wrong = |why: String| {
        Problem::invalid(format!("the query parameter \"match\" {why}"))
            .hint("send JSON, such as {\"status\":\"open\"}")
    };
    let pattern = Payload::from_json(text).map_err(|error| wrong(format!("is not JSON: {error}")))?;
    payload::check(pattern.json()).map_err(|error| wrong(error.to_string()))?;
    Ok(pattern)
}

/// Who wrote a record or a link: the author of its last change. The actor is unknown if the change is no longer kept.
pub(crate) async fn find_author(
    app: &AppState,
    workspace: WorkspaceId,
    namespace: &str,
    (change, run, step): (u64, Option<RunId>, Option<StepKey>),
) -> Result<Author, Problem> {
    let query = ChangeQuery {
        namespace: namespace.to_owned(),
        after: change.saturating_sub(1),
        limit: 1,
        ..ChangeQuery::default()
    };
    let page = app.engine.records().changes(workspace, &query).await?;
    let actor = page.changes.into_iter().find(|row| row.number == change).map(|row| row.author.actor);
    Ok(Author { run, step, actor })
}

pub(super) fn missing(namespace: &str, key: &str) -> Problem {
    Problem::not_found(format!("key {key:?} of namespace {namespace:?} was not found"))
}
