//! `/v1/schemas/{style}`: the format of a workflow file, for editors.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::Method;
use everstep_core::machine;
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
    let style = Parameter::text("style", "A style whose workflows are files: `graph` or `machine`.");
    table.path_parameter("schemas", style).guarded(
        Access::Key,
        Method::GET,
        "/v1/schemas/{style}",
        doc("catalogue", "Show the schema of a workflow file")
            .about(
                "A JSON Schema (2020-12) for editors. The schema of a graph contains the config of every node kind of \
                 this server.",
            )
            .answers::<Object>(200),
        show,
    )
}

async fn show(State(app): State<AppState>, _: Caller, Path(style): Path<String>) -> Result<Json<Value>, Problem> {
    match StyleName::parse(&style) {
        Some(StyleName::Graph) => Ok(Json(graph_schema(&app.engine.world().handlers))),
        Some(StyleName::Machine) => Ok(Json(machine::definition_schema())),
        // A code workflow is not a file.
        Some(StyleName::Code) | None => {
            let known = [StyleName::Graph, StyleName::Machine].map(StyleName::as_str).join(", ");
            let hint = format!("the known names are: {known}");
            Err(Problem::not_found(format!("there is no schema {style:?}")).hint(hint))
        }
    }
}
