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
                .about("This API document for people. It sends requests only to its own server.")
                .sends(200, "text/html"),
            docs::page,
        )
        .open(
            Method::GET,
            "/",
            doc("documents", "Get the root document")
                .about(
                    "A browser receives the web console, or is redirected to `/docs` if `EVERSTEP_CONSOLE` is false.",
                )
                .answers::<Welcome>(200)
                .answers_nothing(303)
                .with_header("Location", "The docs page."),
            serve::welcome,
        )
}
