//! The rows of the route table.

use axum::http::Method;
use serde_json::json;

use super::manage;
use super::wire::{ChangedWorkspace, MadeWorkspace, NewWorkspace, Workspace, Workspaces};
use crate::auth::Permission::Admin;
use crate::http::openapi::{Parameter, doc};
use crate::http::page;
use crate::routes::Table;

pub(crate) fn add(table: Table) -> Table {
    table
        .path_parameter("workspaces", Parameter::sized("name", 1, 64, "The workspace's name."))
        .guarded(
            Admin,
            Method::GET,
            "/v1/workspaces",
            doc("access", "List workspaces")
                .about("By name. For admins of the default workspace.")
                .query(page::PAGE_PARAMETERS)
                .answers::<Workspaces>(200),
            manage::list,
        )
        .guarded(
            Admin,
            Method::POST,
            "/v1/workspaces",
            doc("access", "Create a workspace")
                .about(
                    "With an admin API key for it, which only this response shows. For admins of the default \
                     workspace.",
                )
                .takes::<NewWorkspace>()
                .example(json!({"name": "shop", "options": {"fetch": true}}))
                .answers::<MadeWorkspace>(201)
                .refuses(409, "`WORKSPACE_EXISTS`: a workspace with that name exists."),
            manage::make,
        )
        .guarded(
            Admin,
            Method::PATCH,
            "/v1/workspaces/{name}",
            doc("access", "Update the options of a workspace")
                .about("For its own admins, and for those of the default workspace.")
                .takes::<ChangedWorkspace>()
                .example(json!({"options": {"fetch": true}}))
                .answers::<Workspace>(200),
            manage::change_options,
        )
}
