//! `GET /v1/dead-letters` and `GET /v1/dead-letters/{id}`.

use axum::Json;
use axum::extract::{Path, State};
use everstep_core::ids::{DeadLetterId, WorkspaceId};
use everstep_store::{DeadLetterQuery, DeadLetterRow};

use super::filter;
use super::wire::{DeadLetter, DeadLetterDetail, DeadLetters};
use crate::auth::Caller;
use crate::http::page::Page;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::server::AppState;

pub(super) async fn list(
    State(app): State<AppState>,
    caller: Caller,
    query: Query,
) -> Result<Json<DeadLetters>, Problem> {
    let page = Page::read(&query);
    let filter = filter::from_query(&query)?;
    let query = DeadLetterQuery { filter, before: page.cursor()?, limit: page.limit + 1 };
    let rows = app.engine.dead_letters().store().list_letters(caller.workspace, &query).await?;
    let (rows, next_cursor) = page.cut(rows, |row: &DeadLetterRow| row.letter.id.to_string());
    let dead_letters = rows.into_iter().map(DeadLetter::from_row).collect();
    Ok(Json(DeadLetters { dead_letters, next_cursor }))
}

pub(super) async fn get(
    State(app): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<DeadLetterDetail>, Problem> {
    Ok(Json(DeadLetterDetail::from_row(find(&app, caller.workspace, read_id(&id)?).await?)))
}

/// The id in a path. An id that is not a UUID does not exist.
pub(super) fn read_id(id: &str) -> Result<DeadLetterId, Problem> {
    id.parse().map_err(|_| missing(id))
}

/// A dead letter of a workspace.
pub(super) async fn find(app: &AppState, workspace: WorkspaceId, id: DeadLetterId) -> Result<DeadLetterRow, Problem> {
    let found = app.engine.dead_letters().store().letter(workspace, id).await?;
    found.ok_or_else(|| missing(&id.to_string()))
}

fn missing(id: &str) -> Problem {
    let problem = Problem::not_found(format!("dead letter {id:?} was not found"));
    problem.hint("dead letters are kept for some days; GET /v1/dead-letters lists them")
}
