//! The rows of the route table.

use axum::http::Method;

use super::probe;
use super::wire::{Alive, Readiness};
use crate::http::openapi::doc;
use crate::routes::Table;

pub(crate) fn add(table: Table) -> Table {
    table
        .open(
            Method::GET,
            "/livez",
            doc("health", "Check liveness").about("200 while the process answers.").answers::<Alive>(200),
            probe::live,
        )
        .open(
            Method::GET,
            "/readyz",
            doc("health", "Check readiness")
                .about("200 while the node can work, else 503, with the reason in the same body.")
                .answers::<Readiness>(200)
                .answers::<Readiness>(503),
            probe::ready,
        )
}
