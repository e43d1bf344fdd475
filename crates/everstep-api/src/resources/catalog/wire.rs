//! The catalogue in the API. An entry is described with its kind.

use everstep_handlers::CatalogueEntry;
use schemars::JsonSchema;
use serde::Serialize;

/// All kinds of nodes.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Kinds {
    pub(crate) kinds: Vec<CatalogueEntry>,
}
