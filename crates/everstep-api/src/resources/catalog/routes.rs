//! `/v1/catalog`: the kinds of nodes, for editors and for people.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::Method;
use everstep_handlers::{CatalogueEntry, catalogue};

use super::wire::Kinds;
use crate::auth::{Caller, Permission};
use crate::http::openapi::{Parameter, doc};
use crate::http::problem::Problem;
use crate::routes::Table;
use crate::server::AppState;

/// Adds the routes of this file.
pub(crate) fn add(table: Table) -> Table {
    table
        .path_parameter("catalog", Parameter::text("kind", "The `type` of a node."))
        .guarded(
            Permission::Read,
            Method::GET,
            "/v1/catalog",
            doc("catalogue", "List node kinds")
                .about("All kinds of nodes of a graph, with the schema of each kind's config.")
                .answers::<Kinds>(200),
            list,
        )
        .guarded(
            Permission::Read,
            Method::GET,
            "/v1/catalog/{kind}",
            doc("catalogue", "Get a node kind").answers::<CatalogueEntry>(200),
            get,
        )
}

async fn list(State(app): State<AppState>, _: Caller) -> Json<Kinds> {
    Json(Kinds { kinds: catalogue(&app.engine.world().handlers) })
}

async fn get(
    State(app): State<AppState>,
    _: Caller,
    Path(kind): Path<String>,
) -> Result<Json<CatalogueEntry>, Problem> {
    let entries = catalogue(&app.engine.world().handlers);
    let names = || entries.iter().map(|entry| &*entry.name).collect::<Vec<_>>().join(", ");
    let hint = format!("the kinds are {}", names());
    let found = entries.into_iter().find(|entry| entry.name == kind);
    found.map(Json).ok_or_else(|| Problem::not_found(format!("the kind of node {kind:?} does not exist")).hint(hint))
}
