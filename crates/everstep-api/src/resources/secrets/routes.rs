//! The rows of the route table.

use axum::http::Method;
use serde_json::json;

use super::manage;
use super::wire::{NewSecret, Secret, Secrets};
use crate::auth::Permission::{Admin, Publish};
use crate::http::openapi::{Parameter, doc};
use crate::http::page;
use crate::routes::Table;

pub(crate) fn add(table: Table) -> Table {
    table
        .path_parameter(
            "secrets",
            Parameter::pattern(
                "name",
                "^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$",
                "The secret's name: 1 to 128 letters, digits, `_`, `.` or `-`, beginning with a letter or digit.",
            ),
        )
        .guarded(
            Publish,
            Method::GET,
            "/v1/secrets",
            doc("access", "List secrets")
                .about("Names and times, never values.")
                .query(page::PAGE_PARAMETERS)
                .answers::<Secrets>(200),
            manage::list,
        )
        .guarded(
            Admin,
            Method::PUT,
            "/v1/secrets/{name}",
            doc("access", "Set a secret")
                .about("Steps use it as `{\"$secret\": \"name\"}`. No response ever contains its value.")
                .takes::<NewSecret>()
                .example(json!({"value": "sesame"}))
                .answers::<Secret>(201)
                .answers::<Secret>(200)
                .refuses(409, "`SECRETS_KEY_MISSING`: this server has no key to seal secrets with."),
            manage::set,
        )
        .guarded(
            Admin,
            Method::DELETE,
            "/v1/secrets/{name}",
            doc("access", "Delete a secret").answers_nothing(204),
            manage::delete,
        )
}
