//! The rows of the route table.

use axum::http::Method;
use serde_json::json;

use super::wire::{MadeCode, SignIn, UsedCode};
use super::{codes, sign_in};
use crate::auth::Access;
use crate::http::openapi::doc;
use crate::resources::tickets::Empty;
use crate::routes::Table;

pub(crate) fn add(table: Table) -> Table {
    table
        .guarded(
            Access::Key,
            Method::POST,
            "/v1/sign-in-codes",
            doc("access", "Create a sign-in code")
                .about(
                    "The code of a one-time link, with which a browser signs in to the console: \
                     `http://…/#code=esc_…`. It is valid for a minute. Tokens of people are rejected with 403.",
                )
                .audited_per_minute()
                .may_take::<Empty>()
                .answers::<MadeCode>(201),
            codes::make,
        )
        .open(
            Method::POST,
            "/v1/sign-ins",
            doc("access", "Sign in with a code")
                .about(
                    "Creates an API key with the permissions and the rate limit of the API key that created the code, \
                     in the same workspace. The new API key expires after 12 hours, or when the other one does, if \
                     that is earlier; `GET /v1/keys` lists it for another day. Only this response shows it.",
                )
                .takes::<UsedCode>()
                .example(json!({"code": "esc_…"}))
                .answers::<SignIn>(201)
                .refuses(401, "`AUTH_ERROR`: the code is unknown or has expired, or the key that made it is revoked.")
                .refuses(409, "`CODE_USED`: the code was used before.")
                .refuses(409, "`QUOTA_REACHED`: the workspace has 1,000 API keys, with those of one-time links.")
                .refuses(429, "`RATE_LIMITED`: too many requests with the key that made the code.")
                .refuses(503, "`UNAVAILABLE`: the database is not available; nothing was done.")
                .refuses(504, "`OUTCOME_UNKNOWN`: the code may have been used; create another one.")
                .refuses(507, "`STORE_FULL`: the disk of the database is full; nothing was written."),
            sign_in::sign_in,
        )
        .guarded(
            Access::Key,
            Method::DELETE,
            "/v1/sign-ins/current",
            doc("access", "Sign out")
                .about(
                    "Revokes the API key of this request, if a one-time link has created it. This node rejects the \
                     key at once, other nodes after three seconds at the latest.",
                )
                .answers_nothing(204)
                .refuses(409, "`NOT_A_SIGN_IN`: the key was not created by a one-time link; it stays valid."),
            sign_in::sign_out,
        )
}
