//! Who may do what: keys, workspaces, tickets, the audit, secrets.

mod audit;
mod keys;
mod me;
pub(crate) mod page;
mod secrets;
mod tickets;
mod workspaces;

use axum::http::Method;
use serde_json::json;

use crate::auth::{Access, Permission};
use crate::openapi::doc;
use crate::table::Table;
use crate::wire::{
    AuditEntries, ChangedWorkspace, Empty, Key, Keys, MadeKey, MadeWorkspace, Me, NewKey, NewSecret, NewWorkspace,
    Secret, Secrets, Ticket, Workspace, Workspaces,
};

pub(crate) use workspaces::only_for_the_default;
pub use workspaces::{check_workspace_name, first_key};

/// Adds the routes of this folder.
pub(crate) fn add(table: Table) -> Table {
    add_secrets(add_workspaces(add_keys(table)))
}

fn add_keys(table: Table) -> Table {
    use Permission::Admin;
    table
        .guarded(
            Access::Key,
            Method::GET,
            "/v1/me",
            doc("access", "Show whose key it is")
                .about("The workspace and the name of the key that asks, and what it may do.")
                .answers::<Me>(200),
            me::show,
        )
        .guarded(
            Admin,
            Method::GET,
            "/v1/keys",
            doc("access", "List keys")
                .about("Oldest first, revoked ones too.")
                .query(page::PAGE_PARAMETERS)
                .answers::<Keys>(200),
            keys::list,
        )
        .guarded(
            Admin,
            Method::POST,
            "/v1/keys",
            doc("access", "Make a key")
                .about(
                    "With a role (`viewer`, `operator`, `publisher`, `admin`, `worker`) or permissions of its own. \
                     The key itself is shown in this answer, and never again. \
                     Asked again with the same `Idempotency-Key`, the answer is 200 without it.",
                )
                .keyed()
                .takes::<NewKey>()
                .example(json!({"name": "dashboard", "role": "viewer"}))
                .answers::<MadeKey>(201)
                .answers::<MadeKey>(200),
            keys::make,
        )
        .guarded(
            Admin,
            Method::DELETE,
            "/v1/keys/{id}",
            doc("access", "Revoke a key")
                .about("On this node it works no more from now on, on others after three seconds at the latest.")
                .answers::<Key>(200)
                .refuses(409, "`LAST_ADMIN_KEY`: without it nobody could make another."),
            keys::revoke,
        )
        .guarded(
            Access::Key,
            Method::POST,
            "/v1/tickets",
            doc("access", "Make a ticket")
                .about(
                    "It opens live routes in place of the key that it is made with, for a minute, and dies with \
                     that key.",
                )
                .may_take::<Empty>()
                .answers::<Ticket>(201),
            tickets::make,
        )
        .guarded(
            Admin,
            Method::GET,
            "/v1/audit",
            doc("access", "Read the audit")
                .about("Who changed what, newest first. Rows are kept for a year.")
                .query(audit::FILTERS)
                .answers::<AuditEntries>(200),
            audit::list,
        )
}

fn add_workspaces(table: Table) -> Table {
    use Permission::Admin;
    table
        .guarded(
            Admin,
            Method::GET,
            "/v1/workspaces",
            doc("access", "List workspaces")
                .about("By name. For admins of the default workspace.")
                .query(page::PAGE_PARAMETERS)
                .answers::<Workspaces>(200),
            workspaces::list,
        )
        .guarded(
            Admin,
            Method::POST,
            "/v1/workspaces",
            doc("access", "Make a workspace")
                .about(
                    "With an admin's key for it, which is shown in this answer and never again. \
                     For admins of the default workspace.",
                )
                .takes::<NewWorkspace>()
                .example(json!({"name": "shop", "options": {"fetch": true}}))
                .answers::<MadeWorkspace>(201)
                .refuses(409, "`WORKSPACE_EXISTS`: the name is taken."),
            workspaces::make,
        )
        .guarded(
            Admin,
            Method::PATCH,
            "/v1/workspaces/{name}",
            doc("access", "Change the options of a workspace")
                .about("For its own admins, and for those of the default workspace.")
                .takes::<ChangedWorkspace>()
                .example(json!({"options": {"fetch": true}}))
                .answers::<Workspace>(200),
            workspaces::change_options,
        )
}

fn add_secrets(table: Table) -> Table {
    use Permission::{Admin, Publish};
    table
        .guarded(
            Publish,
            Method::GET,
            "/v1/secrets",
            doc("access", "List secrets")
                .about("Names and times, never values.")
                .query(page::PAGE_PARAMETERS)
                .answers::<Secrets>(200),
            secrets::list,
        )
        .guarded(
            Admin,
            Method::PUT,
            "/v1/secrets/{name}",
            doc("access", "Set a secret")
                .about("Steps use it as `{\"$secret\": \"name\"}`. No answer ever shows it.")
                .takes::<NewSecret>()
                .example(json!({"value": "sesame"}))
                .answers::<Secret>(201)
                .answers::<Secret>(200)
                .refuses(409, "`SECRETS_KEY_MISSING`: this server has nothing to seal secrets with."),
            secrets::set,
        )
        .guarded(
            Admin,
            Method::DELETE,
            "/v1/secrets/{name}",
            doc("access", "Delete a secret").answers_nothing(204),
            secrets::delete,
        )
}
