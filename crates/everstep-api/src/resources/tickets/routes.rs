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
                "It opens live routes in place of the key or the token that it is made with, for a minute, and ends \
                 with that key or token.",
            )
            .may_take::<Empty>()
            .answers::<Ticket>(201),
        create::make,
    )
}
