//! The kinds of nodes, for editors and for people.

mod control;
mod entry;
mod graph_schema;
mod page;

pub use entry::{CatalogueEntry, Handle, Timeout};
pub use graph_schema::graph_schema;
pub use page::page;

use crate::registry::Registry;

/// Every kind of node: first those that the core performs itself, then the handlers of a registry.
pub fn catalogue(registry: &Registry) -> Vec<CatalogueEntry> {
    let mut entries = control::entries();
    entries.extend(registry.descriptions().map(CatalogueEntry::from_description));
    entries
}
