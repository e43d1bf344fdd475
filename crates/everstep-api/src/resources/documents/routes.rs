//! The rows of the route table.

use axum::http::Method;

use super::serve;
use super::wire::Welcome;
use crate::http::docs;
use crate::http::openapi::doc;
use crate::http::schema::Object;
use crate::routes::Table;

pub(crate) fn add(table: Table) -> Table {
    table
        .open(
            Method::GET,
            "/v1/openapi.json",
            doc("documents", "Get the OpenAPI document").about("OpenAPI 3.1.").answers::<Object>(200),
            serve::document,
        )
        .open(
            Method::GET,
            "/docs",
            doc("documents", "Get the docs page")
                .about("The document of this API for people. It asks this server alone.")
                .sends(200, "text/html"),
            docs::page,
        )
        .open(
            Method::GET,
            "/",
            doc("documents", "Get the root document")
                .about("A browser is led to `/docs`.")
                .answers::<Welcome>(200)
                .answers_nothing(303)
                .with_header("Location", "The docs page."),
            serve::welcome,
        )
}
