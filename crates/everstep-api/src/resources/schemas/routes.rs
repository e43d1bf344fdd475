//! `/v1/schemas/{style}`: the format of a workflow file, for editors.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::Method;
use everstep_core::style::StyleName;
use everstep_handlers::graph_schema;
use serde_json::Value;

use crate::auth::{Access, Caller};
use crate::http::openapi::{Parameter, doc};
use crate::http::problem::Problem;
use crate::http::schema::Object;
use crate::routes::Table;
use crate::server::AppState;

pub(crate) fn add(table: Table) -> Table {
    table.path_parameter("schemas", Parameter::text("style", "A style whose workflows are files: `graph`.")).guarded(
        Access::Key,
        Method::GET,
        "/v1/schemas/{style}",
        doc("catalogue", "Show the schema of a workflow file")
            .about("A JSON Schema (2020-12) for editors, with the config of every node kind of this server.")
            .answers::<Object>(200),
        show,
    )
}

async fn show(State(app): State<AppState>, _: Caller, Path(style): Path<String>) -> Result<Json<Value>, Problem> {
    // A code workflow is not a file.
    let known = StyleName::Graph.as_str();
    if style != known {
        let hint = format!("the known names are: {known}");
        return Err(Problem::not_found(format!("there is no schema {style:?}")).hint(hint));
    }
    Ok(Json(graph_schema(&app.engine.world().handlers)))
}
