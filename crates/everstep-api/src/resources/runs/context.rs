//! `/v1/runs/{id}/context`: the variables of a run, as they were after an entry.

use axum::Json;
use axum::extract::{Path, State};

use super::show;
use super::wire::{Context, Scope};
use crate::auth::Caller;
use crate::http::openapi::Parameter;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::server::AppState;

pub(crate) const AT: &[Parameter] = &[Parameter::whole(
    "at",
    1,
    i64::MAX as u64,
    "The state after this entry of the journal; the last entry by default.",
)];

pub(crate) async fn get(
    State(app): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    query: Query,
) -> Result<Json<Context>, Problem> {
    let at = query.number("at");
    let row = show::row(&app, caller.workspace, show::read_id(&id)?).await?;
    if let Some(at) = at.filter(|at| *at > row.seq) {
        let hint = format!("its last entry is {}", row.seq);
        return Err(Problem::invalid(format!("run {} has no entry {at} yet", row.id)).hint(hint));
    }
    let (workflow, state) = app.engine.runs().state_at(&row, at.unwrap_or(row.seq)).await?;
    let scopes = state.scopes(&workflow).into_iter().map(|(scope, context)| Scope { scope, context });
    Ok(Json(Context { seq: state.seq, context: state.context(&workflow), scopes: scopes.collect() }))
}
