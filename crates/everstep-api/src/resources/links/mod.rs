//! `/v1/links`: links, the typed edges between identifiers in a namespace.

mod read;
mod routes;
mod wire;
mod write;

pub(crate) use routes::add;
pub(super) use wire::{AppliedUpsert, Identifier, UpsertLinkRequest};
