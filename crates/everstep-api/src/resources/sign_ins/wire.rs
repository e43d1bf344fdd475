//! One-time links in the API.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::http::time::Time;

/// The code of a one-time link.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SignInCode")]
pub(crate) struct MadeCode {
    /// `esc_…`, for `POST /v1/sign-ins`; in a link it belongs after `#code=`, which browsers do not send.
    pub(crate) code: String,
    pub(crate) expires_at: Time,
}

/// `POST /v1/sign-ins`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "SignInRequest")]
pub(crate) struct UsedCode {
    /// `esc_…`, as `POST /v1/sign-in-codes` has returned it.
    pub(crate) code: String,
}

/// The key of a browser.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SignIn {
    /// The key itself, `es_…`, shown only once.
    pub(crate) key: String,
    pub(crate) expires_at: Time,
    pub(crate) name: String,
}
