//! `/v1/me`: whom a key belongs to, and what it may do.

use axum::Json;
use axum::extract::State;

use super::wire::{Me, MyKey, MyWorkspace};
use crate::auth::{Caller, Permission};
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::http::time::Time;
use crate::server::AppState;

pub(crate) async fn show(State(app): State<AppState>, caller: Caller, _: Query) -> Result<Json<Me>, Problem> {
    let workspaces = app.access.workspaces().await?;
    let name = workspaces.into_iter().find(|row| row.id == caller.workspace).map(|row| row.name);
    let permissions = Permission::ALL.iter().copied().filter(|permission| caller.may(*permission)).collect();
    Ok(Json(Me {
        workspace: MyWorkspace { id: caller.workspace.uuid(), name },
        key: MyKey {
            id: caller.key,
            name: caller.name.to_string(),
            role: caller.role.map(|role| role.to_string()),
            rate_limit: caller.rate_limit,
            expires_at: caller.expires_at.map(Time::from_timestamp),
        },
        permissions,
    }))
}
