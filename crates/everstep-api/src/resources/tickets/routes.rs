//! The rows of the route table.

use axum::http::Method;

use super::create;
use super::wire::{Empty, Ticket};
use crate::auth::Access;
use crate::http::openapi::doc;
use crate::routes::Table;

pub(crate) fn add(table: Table) -> Table {
    table.guarded(
        Access::Key,
        Method::POST,
        "/v1/tickets",
        doc("access", "Create a ticket")
            .about(
                "Live routes accept it in place of the key or the token of this request, for a minute. It expires \
                 earlier if that key or token does.",
            )
            .changes_nothing()
            .may_take::<Empty>()
            .answers::<Ticket>(201),
        create::make,
    )
}
