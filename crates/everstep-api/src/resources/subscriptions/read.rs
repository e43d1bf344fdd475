//! Reads subscriptions.

use axum::Json;
use axum::extract::{Path, State};
use everstep_core::ids::{SubscriptionId, WorkspaceId};
use everstep_core::topics::{self, Pattern};
use everstep_store::SubscriptionQuery;

use super::check;
use super::wire::{Subscription, Subscriptions};
use crate::auth::Caller;
use crate::http::page::Page;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::server::AppState;

/// All subscriptions of the workspace.
pub(super) async fn list(
    State(app): State<AppState>,
    caller: Caller,
    query: Query,
) -> Result<Json<Subscriptions>, Problem> {
    page(&app, caller.workspace, None, &query).await
}

/// The subscriptions with one pattern.
pub(super) async fn list_of_pattern(
    State(app): State<AppState>,
    caller: Caller,
    Path(pattern): Path<String>,
    query: Query,
) -> Result<Json<Subscriptions>, Problem> {
    let pattern = check::read_pattern(&pattern)?;
    page(&app, caller.workspace, Some(pattern), &query).await
}

async fn page(
    app: &AppState,
    workspace: WorkspaceId,
    pattern: Option<Pattern>,
    query: &Query,
) -> Result<Json<Subscriptions>, Problem> {
    let page = Page::read(query);
    let filter = SubscriptionQuery { pattern, after: page.cursor()?, limit: page.limit + 1 };
    let rows = app.engine.world().topics.list_subscriptions(workspace, &filter).await?;
    let (rows, next_cursor) = page.cut(rows, |row: &topics::Subscription| row.id.to_string());
    Ok(Json(Subscriptions { subscriptions: rows.into_iter().map(Subscription::from_core).collect(), next_cursor }))
}

pub(super) async fn get(
    State(app): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Subscription>, Problem> {
    find(&app, caller.workspace, &id).await.map(|found| Json(Subscription::from_core(found)))
}

/// A subscription. One of another workspace does not exist.
pub(crate) async fn find(app: &AppState, workspace: WorkspaceId, id: &str) -> Result<topics::Subscription, Problem> {
    let subscription = read_id(id)?;
    app.engine.world().topics.subscription(workspace, subscription).await?.ok_or_else(|| missing(id))
}

pub(super) fn read_id(id: &str) -> Result<SubscriptionId, Problem> {
    id.parse().map_err(|_| missing(id))
}

pub(super) fn missing(id: &str) -> Problem {
    Problem::not_found(format!("subscription {id:?} was not found"))
}
