//! Who may do what: keys, workspaces, tickets, the audit, secrets.

mod tickets;

use axum::http::Method;

use crate::auth::Needs;
use crate::openapi::doc;
use crate::table::Table;
use crate::wire::Ticket;

/// Adds the routes of this folder.
pub(crate) fn add(table: Table) -> Table {
    table.guarded(
        Needs::Key,
        Method::POST,
        "/v1/tickets",
        doc("access", "Make a ticket")
            .about(
                "It opens live routes in place of the key that it is made with, for a minute, and dies with that key.",
            )
            .answers::<Ticket>(201),
        tickets::make,
    )
}
