//! The response to `GET /`.

use schemars::JsonSchema;
use serde::Serialize;

/// Links to the documents.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Welcome {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    /// For people.
    pub(crate) docs: &'static str,
    /// For programs.
    pub(crate) openapi: &'static str,
}
