//! The rows of the route table.

use axum::http::Method;

use super::list;
use super::wire::AuditEntries;
use crate::auth::Permission::Admin;
use crate::http::openapi::doc;
use crate::routes::Table;

pub(crate) fn add(table: Table) -> Table {
    table.guarded(
        Admin,
        Method::GET,
        "/v1/audit",
        doc("access", "List audit rows")
            .about("Actions and their actors, newest first. Rows are kept for a year.")
            .query(list::FILTERS)
            .answers::<AuditEntries>(200),
        list::list,
    )
}
