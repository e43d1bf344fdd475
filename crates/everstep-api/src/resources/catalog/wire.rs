//! The catalogue as clients see it. An entry is described where its kind is.

use everstep_handlers::CatalogueEntry;
use schemars::JsonSchema;
use serde::Serialize;

/// All kinds of nodes.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Kinds {
    pub(crate) kinds: Vec<CatalogueEntry>,
}
