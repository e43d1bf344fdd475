//! `/v1/nodes`: the servers that share the database.

use axum::Json;
use axum::extract::State;

use crate::access;
use crate::auth::Caller;
use crate::problem::Problem;
use crate::query::Query;
use crate::server::AppState;
use crate::wire::{Node, Nodes};

pub(crate) async fn list(State(app): State<AppState>, caller: Caller, _: Query) -> Result<Json<Nodes>, Problem> {
    // What a node holds is of all workspaces.
    access::only_for_the_default(&caller, "nodes are listed")?;
    let engine = &app.engine;
    let mut nodes = Vec::new();
    for row in engine.nodes().await? {
        let runs = engine.owned_runs(row.id).await?.len();
        nodes.push(Node::from_row(row, engine.node(), runs, engine.is_shared()));
    }
    Ok(Json(Nodes { nodes }))
}
