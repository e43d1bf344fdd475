//! The rows of the route table.

use axum::http::Method;

use super::probe;
use super::wire::{Alive, Readiness};
use crate::http::openapi::doc;
use crate::routes::Table;

pub(crate) fn add(table: Table) -> Table {
    table.open(Method::GET, "/livez", doc("health", "Does it live").answers::<Alive>(200), probe::live).open(
        Method::GET,
        "/readyz",
        doc("health", "Can it work")
            .about("200 while the node can work, else 503, with the reason in the same body.")
            .answers::<Readiness>(200)
            .answers::<Readiness>(503),
        probe::ready,
    )
}
