//! `/v1/me`: the caller, and its permissions.

use axum::Json;
use axum::extract::State;

use super::quotas;
use super::wire::{Me, MyKey, MyPerson, MyWorkspace, ServerInfo};
use crate::auth::{Caller, KeyHolder, Permission, Principal};
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::http::time::Time;
use crate::server::AppState;

/// The subsystems of this build. A subsystem with routes of its own adds its name.
const FEATURES: &[&str] = &["graph", "code", "machine", "store", "topics", "deadLetters"];

pub(crate) async fn show(State(app): State<AppState>, caller: Caller, _: Query) -> Result<Json<Me>, Problem> {
    let workspaces = app.access.workspaces().await?;
    let name = workspaces.into_iter().find(|row| row.id == caller.workspace).map(|row| row.name);
    let permissions = Permission::ALL.iter().copied().filter(|permission| caller.may(*permission)).collect();
    let quotas = quotas::list(&app, caller.workspace).await?;
    let workspace = MyWorkspace { id: caller.workspace.uuid(), name };
    let expires_at = caller.expires_at.map(Time::from_timestamp);
    let (key, person) = match caller.principal {
        Principal::Key(KeyHolder { id, name, role, rate_limit, .. }) => {
            let (name, role) = (name.to_string(), role.map(|role| role.to_string()));
            (Some(MyKey { id, name, role, rate_limit, expires_at }), None)
        }
        Principal::Person(person) => (None, Some(MyPerson::from_person(&person, expires_at))),
    };
    let nodes = app.engine.nodes().await?;
    let nodes = nodes.iter().filter(|node| !node.fenced && !node.is_expired).count();
    let server = ServerInfo { version: env!("CARGO_PKG_VERSION"), store: app.store, nodes };
    Ok(Json(Me { workspace, key, person, permissions, features: FEATURES, quotas, server }))
}
