//! `/v1/nodes`: the servers that share the database.

use axum::Json;
use axum::extract::State;

use super::wire::{Node, Nodes};
use crate::auth::Caller;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::resources::workspaces;
use crate::server::AppState;

pub(crate) async fn list(State(app): State<AppState>, caller: Caller, _: Query) -> Result<Json<Nodes>, Problem> {
    // The runs of a node belong to all workspaces.
    workspaces::only_for_the_default(&caller, "nodes are listed")?;
    let engine = &app.engine;
    let mut nodes = Vec::new();
    for row in engine.nodes().await? {
        let runs = engine.owned_runs(row.id).await?.len();
        let skew = engine.world().clock.skew();
        nodes.push(Node::from_row(row, engine.node(), skew, runs, engine.is_shared()));
    }
    Ok(Json(Nodes { nodes }))
}
