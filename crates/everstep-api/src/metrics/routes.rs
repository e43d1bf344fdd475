//! The rows of the route table.

use axum::http::Method;

use super::page;
use crate::auth::Permission::Admin;
use crate::http::openapi::doc;
use crate::routes::Table;

pub(crate) fn add(table: Table) -> Table {
    table.guarded(
        Admin,
        Method::GET,
        "/metrics",
        doc("health", "Get the metrics of this node")
            .about("For Prometheus, and for API keys of the default workspace.")
            .sends(200, page::CONTENT_TYPE_TEXT),
        page::get,
    )
}
