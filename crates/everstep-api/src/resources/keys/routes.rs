//! The rows of the route table.

use axum::http::Method;
use serde_json::json;

use super::wire::{Key, Keys, MadeKey, Me, NewKey};
use super::{manage, me};
use crate::auth::Access;
use crate::auth::Permission::Admin;
use crate::http::openapi::{Parameter, doc};
use crate::http::page;
use crate::routes::Table;

pub(crate) fn add(table: Table) -> Table {
    table
        .path_parameter("keys", Parameter::id("id", "The id of the API key."))
        .guarded(
            Access::Key,
            Method::GET,
            "/v1/me",
            doc("access", "Get the caller")
                .about(
                    "The workspace of the caller with its bounds, its key or person, its permissions, and the server \
                     that sends the response.",
                )
                .answers::<Me>(200),
            me::show,
        )
        .guarded(
            Admin,
            Method::GET,
            "/v1/keys",
            doc("access", "List API keys")
                .about("Oldest first, including revoked ones.")
                .query(page::PAGE_PARAMETERS)
                .answers::<Keys>(200),
            manage::list,
        )
        .guarded(
            Admin,
            Method::POST,
            "/v1/keys",
            doc("access", "Create an API key")
                .about(
                    "With a role (`viewer`, `operator`, `publisher`, `admin`, `worker`) or a list of permissions. \
                     Only this response shows the key itself. If the request is repeated with the same \
                     `Idempotency-Key`, the response is 200 without it.",
                )
                .keyed()
                .takes::<NewKey>()
                .example(json!({"name": "dashboard", "role": "viewer"}))
                .answers::<MadeKey>(201)
                .answers::<MadeKey>(200)
                .refuses(409, "`QUOTA_REACHED`: the workspace has 1,000 API keys, with those of one-time links."),
            manage::make,
        )
        .guarded(
            Admin,
            Method::DELETE,
            "/v1/keys/{id}",
            doc("access", "Revoke an API key")
                .about("This node rejects the key at once, other nodes after three seconds at the latest.")
                .answers::<Key>(200)
                .refuses(409, "`LAST_ADMIN_KEY`: without it, no other key could be created."),
            manage::revoke,
        )
}
