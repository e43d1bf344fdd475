//! The rows of the route table.

use axum::http::Method;

use super::list;
use super::wire::Inbox;
use crate::auth::Permission::Act;
use crate::http::openapi::{Parameter, doc};
use crate::http::page;
use crate::routes::Table;

const PARAMETERS: &[Parameter] = &[
    Parameter::text("workflow", "Decisions of runs of this workflow."),
    page::CURSOR_PARAMETER,
    page::LIMIT_PARAMETER,
];

pub(crate) fn add(table: Table) -> Table {
    table.guarded(
        Act,
        Method::GET,
        "/v1/inbox",
        doc("runs", "List the inbox")
            .about(
                "The open approvals of the workspace, oldest run first, for callers with `workflow:manage`. A signal \
                 with the name of the approval decides it. Waits that were opened by a release without the inbox are \
                 not listed. `GET /v1/runs?state=` lists runs of state machines that wait.",
            )
            .query(PARAMETERS)
            .answers::<Inbox>(200),
        list::list,
    )
}
