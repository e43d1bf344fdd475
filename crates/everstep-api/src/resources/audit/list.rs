//! `/v1/audit`: actions and their actors.

use axum::Json;
use axum::extract::State;
use everstep_core::actor::Actor;
use everstep_store::{AuditFilter, AuditRow};

use super::wire::{AuditEntries, AuditEntry};
use crate::auth::Caller;
use crate::http::openapi::Parameter;
use crate::http::page::{CURSOR_PARAMETER, LIMIT_PARAMETER, Page};
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::server::AppState;

pub(crate) const FILTERS: &[Parameter] = &[
    Parameter::text(
        "actor",
        "The actor: `key:` and a key's id, or `person:`, the issuer and a person's id, such as `person:https://login.example.com/ann`.",
    ),
    Parameter::text("action", "The action, such as `POST /v1/runs/{id}/cancel`."),
    Parameter::time("since", "From this time on."),
    Parameter::time("until", "Before this time."),
    CURSOR_PARAMETER,
    LIMIT_PARAMETER,
];

pub(crate) async fn list(
    State(app): State<AppState>,
    caller: Caller,
    query: Query,
) -> Result<Json<AuditEntries>, Problem> {
    let page = Page::read(&query);
    let filter = AuditFilter {
        actor: query.text("actor").map(Actor::from_text),
        action: query.text("action").map(str::to_owned),
        since: query.time("since")?,
        until: query.time("until")?,
    };
    let store = &app.access;
    let rows = store.list_audit(caller.workspace, filter, page.cursor()?, page.limit + 1).await?;
    let (rows, next_cursor) = page.cut(rows, |row: &AuditRow| row.id.to_string());
    Ok(Json(AuditEntries { entries: rows.into_iter().map(AuditEntry::from_row).collect(), next_cursor }))
}
