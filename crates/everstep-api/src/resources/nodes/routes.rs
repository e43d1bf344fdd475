//! The rows of the route table.

use axum::http::Method;

use super::list;
use super::wire::Nodes;
use crate::auth::Permission::Admin;
use crate::http::openapi::doc;
use crate::routes::Table;

pub(crate) fn add(table: Table) -> Table {
    table.guarded(Admin, Method::GET, "/v1/nodes", doc("nodes", "List nodes").answers::<Nodes>(200), list::list)
}
